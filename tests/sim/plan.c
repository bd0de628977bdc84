/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan.h"

#include <string.h>

#include "fail.h"
#include "mishap.h"
#include "object/ah.h"
#include "object/limits.h"
#include "op.h"
#include "base/compat.h"
#include "packet/packet.h"

#define PACKETS_PER_END 60 /* about, of its payload */
#define PAIR_ENDS	2

static void make_weather(struct net_weather *weather, struct random *random)
{
	static const uint32_t worst[] = { 0, 5, 50, 200 };
	uint32_t all = worst[random_below(random, 4)];
	uint32_t *rates[] = { &weather->loss, &weather->duplication, &weather->reordering,
			      &weather->damage, &weather->lateness };

	memset(weather, 0, sizeof(*weather));
	for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		uint32_t most = random_chance(random, 500) ? all : worst[random_below(random, 4)];

		*rates[i] = random_chance(random, 400) ? 0 : random_below(random, most + 1);
	}
	if (weather->loss + weather->damage > 200) /* both lose packets */
		weather->damage = 200 - weather->loss;
	weather->full = random_chance(random, 300) ? random_below(random, 200) : 0;
	weather->unreachable = random_chance(random, 200) ? random_below(random, 50) : 0;
	weather->forgery = random_chance(random, 300) ? random_below(random, 200) : 0;
	weather->marks = random_chance(random, 200) ? random_below(random, 200) : 0;
	weather->delay_ns = random_range(random, 2000, random_chance(random, 500) ? 20000 : 500000);
	weather->jitter_ns = random_chance(random, 300) ? weather->delay_ns / 8 : 0;
	weather->v6 = random_chance(random, 300);
	weather->gso_damaged = random_chance(random, 30);
	weather->byte_ns = random_chance(random, 100) ? random_range(random, 1, 8) : 0;
}

/*
 * At least one request of a full queue is signaled, and the last one, or places never become free.
 */
static void choose_signals(struct end *end, struct random *random)
{
	unsigned unsignalled = 0;

	for (unsigned i = 0; i < end->op_count; i++) {
		bool last = i + 1 == end->op_count;

		if (last || unsignalled + 1 >= end->cap.max_send_wr || random_chance(random, 500)) {
			end->ops[i].flags |= IBV_SEND_SIGNALED;
			unsignalled = 0;
		} else {
			unsignalled++;
		}
	}
}

/* UC and UD: any message may get any receive, so all take the longest. */
static void make_equal_receives(struct end *end, struct random *random)
{
	uint32_t longest = 0, grh = end->type == IBV_QPT_UD ? PLAN_GRH : 0;
	unsigned wanted = 2 * end->peer->op_count + 4;

	for (unsigned i = 0; i < end->peer->op_count; i++)
		if (end->peer->ops[i].length > longest)
			longest = end->peer->ops[i].length;
	end->receive_count = wanted < PLAN_RECEIVES ? wanted : PLAN_RECEIVES;
	for (unsigned i = 0; i < end->receive_count; i++) {
		struct receive_plan *receive = &end->receives[i];

		receive->bytes = longest + grh + random_below(random, 64);
		receive->places = op_take_places(random, receive->bytes, end->cap.max_recv_sge);
		receive->lkey = world.mr->ib.lkey;
		receive->expected = IBV_WC_SUCCESS;
	}
}

static void raise_version(struct end *end)
{
	uint32_t *words = (uint32_t *)(world.memory + end->versions);

	end->version++;
	for (unsigned i = 0; i < PLAN_VERSIONS; i++)
		words[i] = end->version;
	world_trust(end->versions, PLAN_VERSIONS * sizeof(*words));
}

static void prepare_end(struct plan *plan, unsigned number, enum ibv_qp_type type,
			struct random *random)
{
	struct end *end = &plan->ends[number];

	memset(end, 0, sizeof(*end));
	end->number = number;
	end->peer = &plan->ends[number ^ 1];
	end->type = type == IBV_QPT_UC || type == IBV_QPT_UD ? type : IBV_QPT_RC;
	end->cap.max_send_wr = random_range(random, 1, 32);
	end->cap.max_recv_wr = random_range(random, 1, 32);
	end->cap.max_send_sge = random_range(random, 1, PLAN_PIECES);
	end->cap.max_recv_sge = random_range(random, 1, PLAN_PIECES);
	end->cap.max_inline_data = random_below(random, 256);
	end->sig_all = random_chance(random, 200);
	end->post_gap_ns = random_below(random, 200000);
	end->receive_gap_ns = random_chance(random, 500) ? 0 : random_below(random, 2000000);
	end->post_ns = net_now() + random_below(random, 100000);
	end->receive_ns =
		net_now() + random_below(random, random_chance(random, 200) ? 20000000 : 1);
	end->pooled = plan->srq && !plan->xrc && type == IBV_QPT_RC && random_chance(random, 600);
	end->qp = world_qp(type, &end->cap, end->sig_all, end->pooled ? plan->srq : NULL);
	end->op_count = random_range(random, 1, random_chance(random, 300) ? PLAN_OPS : 10);
	if (type == IBV_QPT_XRC_SEND)
		end->srqn = plan->srq->number;
	if (type == IBV_QPT_XRC_RECV) {
		end->pooled = true;
		end->op_count = 0;
	}
	end->withheld = PLAN_RECEIVES;
	end->pause_ns = end->resume_ns = NET_NEVER;
	if (type != IBV_QPT_XRC_RECV && random_chance(random, 150)) {
		end->pause_ns = net_now() + random_below(random, 3000000);
		end->rest_ns = random_below(random, 3000000);
	}
	end->word = world_take(random, 8, 8);
	end->word_values[0] = random_next(random);
	world_expect_word(end->word, end->word_values[0]);
	memcpy(world.memory + end->word, world.shadow + end->word, 8);
	if (end->type == IBV_QPT_RC) {
		end->versions = world_take(random, PLAN_VERSIONS * sizeof(uint32_t), 8);
		raise_version(end);
	}
}

void plan_raise_versions(struct plan *plan)
{
	for (unsigned i = 0; i < plan->end_count; i++)
		if (plan->ends[i].type == IBV_QPT_RC)
			raise_version(&plan->ends[i]);
}

/* Attributes that both ends agree on, or not. */
struct terms {
	uint32_t psn[PAIR_ENDS]; /* each end's own */
	uint8_t reads;
	uint8_t timeout;
};

static void connect_end(struct plan *plan, struct end *end, const struct terms *terms,
			struct random *random)
{
	bool rc = end->type == IBV_QPT_RC, ud = end->type == IBV_QPT_UD;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = (enum ibv_mtu)plan->mtu,
		.qkey = PLAN_QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC | COMPAT_ACCESS_FLUSH_GLOBAL,
		.dest_qp_num = end->peer->qp->ib.qp_num,
		.sq_psn = terms->psn[end->number & 1],
		.rq_psn = terms->psn[~end->number & 1],
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .sgid_index = (uint8_t)end->number,
				      .dgid = net_gid(end->peer->number) } },
		.max_rd_atomic = terms->reads,
		.max_dest_rd_atomic = (uint8_t)random_range(random, terms->reads, LIMIT_QP_RD_ATOM),
		.min_rnr_timer =
			(uint8_t)(random_chance(random, 20) ? 0 : random_range(random, 1, 14)),
		.timeout = terms->timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	union ibv_gid gid = net_gid(end->number);

	if (end->mishap == MISHAP_NO_RECEIVE)
		attr.rnr_retry = (uint8_t)random_below(random, 4);
	world_modify(end->qp, &attr,
		     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	world_modify(
		end->qp, &attr,
		IBV_QP_STATE |
			(ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
			(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	attr.qp_state = IBV_QPS_RTS;
	world_modify(end->qp, &attr,
		     IBV_QP_STATE | IBV_QP_SQ_PSN |
			     (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					      IBV_QP_MAX_QP_RD_ATOMIC
				 : 0));
	if (ud) {
		struct ah *ah;

		/* the port's MTU, which ibv_create_qp sets */
		end->qp->attr.path_mtu = (enum ibv_mtu)plan->mtu;
		if (ah_create(world.pd, &attr.ah_attr, &gid, false, &ah))
			sim_fail("ah_create");
		end->ah = &ah->ib;
	}
}

static uint32_t choose_psn(struct random *random)
{
	if (random_chance(random, 500))
		return PSN_MASK - random_below(random, 64);
	return (uint32_t)random_next(random) & PSN_MASK;
}

static void make_pair(struct plan *plan, unsigned first, struct random *random)
{
	uint32_t type = random_below(random, 10);
	enum ibv_qp_type service = type < 7 ? IBV_QPT_RC : type < 9 ? IBV_QPT_UC : IBV_QPT_UD;
	struct terms terms = {
		.psn = { choose_psn(random), choose_psn(random) },
		.reads = (uint8_t)(1u << random_below(random, 6)),
		.timeout = (uint8_t)random_range(random, 10, 14),
	};

	bool xrc = plan->xrc && service == IBV_QPT_RC && random_chance(random, 700);

	for (unsigned i = 0; i < PAIR_ENDS; i++)
		prepare_end(plan, first + i,
			    !xrc ? service
			    : i	 ? IBV_QPT_XRC_RECV
				 : IBV_QPT_XRC_SEND,
			    random);
	for (unsigned i = 0; i < PAIR_ENDS; i++) {
		struct end *end = &plan->ends[first + i];
		bool mishap = i == 0 && service == IBV_QPT_RC && random_chance(random, 200);
		uint32_t budget = PACKETS_PER_END * plan_mtu(plan);
		unsigned planned = end->op_count, flushed = random_below(random, 4);

		if (budget > 65535)
			budget = 65535;
		if (mishap && planned + 1 + flushed > PLAN_OPS)
			planned = PLAN_OPS - 1 - flushed;
		for (end->op_count = 0; end->op_count < planned; end->op_count++)
			op_make(plan, end, end->op_count, &budget, random);
		if (mishap) {
			mishap_make(plan, end, random);
			for (unsigned j = 0; j < flushed; j++, end->op_count++)
				op_make(plan, end, end->op_count, &budget, random);
		}
		choose_signals(end, random);
	}
	/* For ever: then no end may vanish. */
	if (!plan->ends[first].mishap && random_chance(random, 100))
		terms.timeout = 0;
	for (unsigned i = 0; i < PAIR_ENDS; i++) {
		struct end *end = &plan->ends[first + i];

		if (service != IBV_QPT_RC)
			make_equal_receives(end, random);
		connect_end(plan, end, &terms, random);
	}
}

static struct srq *make_srq(bool xrc)
{
	struct ibv_srq_attr attr = { .max_wr = PLAN_POOL_WR, .max_sge = PLAN_PIECES };
	struct srq *srq;

	if (srq_create(world.context, world.pd, NULL, &attr, &srq))
		sim_fail("srq_create");
	if (xrc && xrc_add_srq(world.xrcd, srq, world.recv_cq))
		sim_fail("xrc_add_srq");
	return srq;
}

/* One for each message, and one for each end that fails in the middle of a message. */
static void make_pool(struct plan *plan, struct random *random)
{
	plan->pool_count = plan->next_pool_post = 0;
	plan->pool_ns = net_now() + random_below(random, 1000000);
	plan->pool_gap_ns = random_chance(random, 500) ? 0 : random_below(random, 1000000);
	for (unsigned i = 0; i < plan->end_count; i++) {
		const struct end *end = &plan->ends[i];

		plan->pool_count += end->pooled;
		for (unsigned j = 0; end->peer->pooled && j < end->op_count; j++)
			plan->pool_count += op_is_received(&end->ops[j]);
	}
	for (unsigned i = 0; i < plan->pool_count; i++) {
		plan->pool[i] = (struct receive_plan){
			.bytes = POOL_BYTES,
			.places = op_take_places(random, POOL_BYTES, PLAN_PIECES),
			.lkey = world.mr->ib.lkey,
			.expected = IBV_WC_SUCCESS,
		};
	}
}

void plan_make(struct plan *plan, uint64_t seed)
{
	struct random random = { seed * 0x2545f4914f6cdd1du + 1 };

	world_clear();
	make_weather(&plan->weather, &random);
	net_start(&plan->weather, random_next(&random));
	plan->reorders = plan->weather.reordering || plan->weather.lateness ||
			 plan->weather.duplication || plan->weather.jitter_ns;
	plan->clean = !plan->reorders && !plan->weather.loss && !plan->weather.damage &&
		      !plan->weather.gso_damaged && !plan->weather.byte_ns && !plan->weather.full &&
		      !plan->weather.unreachable;
	plan->mtu = random_range(&random, IBV_MTU_256, IBV_MTU_4096);
	plan->end_count = PAIR_ENDS * random_range(&random, 1, random_chance(&random, 300) ? 4 : 2);
	plan->shared_word = world_take(&random, 8, 8);
	plan->shared_adds = 0;
	world_expect_word(plan->shared_word, 0);
	memset(world.memory + plan->shared_word, 0, 8);
	plan->xrc = random_chance(&random, 500);
	plan->srq = random_chance(&random, 300) ? make_srq(plan->xrc) : NULL;
	plan->xrc = plan->xrc && plan->srq;
	for (unsigned i = 0; i < plan->end_count; i += PAIR_ENDS)
		make_pair(plan, i, &random);
	make_pool(plan, &random);
}

void plan_drop(struct plan *plan)
{
	for (unsigned i = 0; i < plan->end_count; i++) {
		struct end *end = &plan->ends[i];

		for (unsigned j = 0; j < end->op_count; j++)
			if (end->ops[j].mw)
				mw_destroy(end->ops[j].mw);
		if (qp_destroy(end->qp))
			sim_fail("qp_destroy");
		if (end->ah)
			ah_destroy(ah_of(end->ah));
	}
	if (plan->srq &&
	    (plan->srq->type == IBV_SRQT_XRC ? xrc_destroy_srq(plan->srq) : srq_destroy(plan->srq)))
		sim_fail("srq_destroy");
}
