#include "plan.h"

#include <string.h>

#include "fail.h"
#include "object/ah.h"
#include "packet/packet.h"

#define PACKETS_PER_END 60 /* that its payload takes, about */
#define BAD_KEY_BITS	0x5
#define SLACK_MAX	64 /* bytes that a receive has to spare */
#define PAIR_ENDS	2

static uint32_t mtu_bytes(const struct plan *plan)
{
	return 128u << plan->mtu;
}

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
	if (weather->loss + weather->damage > 200) /* both make a packet vanish */
		weather->damage = 200 - weather->loss;
	weather->full = random_chance(random, 300) ? random_below(random, 200) : 0;
	weather->unreachable = random_chance(random, 200) ? random_below(random, 50) : 0;
	weather->forgery = random_chance(random, 300) ? random_below(random, 200) : 0;
	weather->marks = random_chance(random, 200) ? random_below(random, 200) : 0;
	weather->delay_ns = random_range(random, 2000, random_chance(random, 500) ? 20000 : 500000);
	weather->jitter_ns = random_chance(random, 300) ? weather->delay_ns / 8 : 0;
	weather->v6 = random_chance(random, 300);
}

static struct places take_places(struct random *random, uint32_t bytes, unsigned most)
{
	struct places places = { .count = random_range(random, 1, most) };
	uint32_t left = bytes;

	if (bytes == 0 && random_chance(random, 500))
		places.count = 0;
	for (unsigned i = 0; i < places.count; i++) {
		uint32_t part = i + 1 == places.count ? left : random_below(random, left + 1);

		places.bytes[i] = part;
		places.at[i] = world_take(random, part, 1u << random_below(random, 4));
		left -= part;
	}
	return places;
}

static void put_places(const struct places *places, uint64_t pattern)
{
	static char bytes[65536];
	uint32_t total = 0;

	for (unsigned i = 0; i < places->count; i++)
		total += places->bytes[i];
	pattern_fill(bytes, total, pattern);
	total = 0;
	for (unsigned i = 0; i < places->count; i++) {
		memcpy(world.memory + places->at[i], bytes + total, places->bytes[i]);
		memcpy(world.shadow + places->at[i], bytes + total, places->bytes[i]);
		total += places->bytes[i];
	}
}

/* Sizes around everything that matters. */
static uint32_t choose_length(struct random *random, uint32_t mtu, uint32_t most)
{
	uint32_t length;

	switch (random_below(random, 8)) {
	case 0:
		length = random_below(random, 5);
		break;
	case 1:
		length = mtu + random_below(random, 3) - 1;
		break;
	case 2:
		length = mtu * random_range(random, 1, 6) + random_below(random, 3) - 1;
		break;
	case 3:
	case 4:
		length = random_below(random, 256);
		break;
	case 5:
		length = random_below(random, 2 * mtu);
		break;
	case 6:
		length = random_below(random, 8 * mtu);
		break;
	default:
		length = random_chance(random, 200) ? random_below(random, 65536)
						    : random_below(random, 32);
		break;
	}
	return length < most ? length : most;
}

static enum ibv_wr_opcode choose_opcode(struct random *random, enum ibv_qp_type type)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		/* UD ends here */
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		/* UC ends here */
		IBV_WR_SEND,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_SEND_WITH_INV,
	};
	unsigned count = type == IBV_QPT_UD ? 2 : type == IBV_QPT_UC ? 4 : 11;

	return opcodes[random_below(random, count)];
}

static void make_window(struct end *end, struct op *op)
{
	struct ibv_mw_bind_info info = {
		.mr = &world.mr->ib,
		.addr = world_address(0),
		.length = WORLD_SMALL_BYTES,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ,
	};

	if (mw_create(world.pd, IBV_MW_TYPE_2, &op->mw))
		sim_fail("mw_create");
	op->imm = (op->mw->ib.rkey & ~0xffu) | 0x42;
	if (mw_bind(op->mw, world.pd->number, end->peer->qp->ib.qp_num, op->imm, &info) !=
	    CAUSE_NONE)
		sim_fail("mw_bind");
}

/* The receive that an op of RC consumes: the next one of the peer. */
static void make_receive(struct end *end, struct op *op, struct random *random)
{
	struct end *peer = end->peer;
	struct receive_plan *receive = &peer->receives[peer->receive_count];

	op->receive = (int)peer->receive_count++;
	receive->bytes = op_is_send(op) ? op->length : 0;
	if (random_chance(random, 500))
		receive->bytes += random_below(random, SLACK_MAX);
	receive->places = take_places(random, receive->bytes, peer->cap.max_recv_sge);
	receive->lkey = world.mr->ib.lkey;
	receive->expected = IBV_WC_SUCCESS;
}

static void make_atomic(struct plan *plan, struct end *end, struct op *op, struct random *random)
{
	uint64_t value = end->word_values[end->word_steps];

	op->length = 8;
	op->local = take_places(random, 8, 1);
	op->remote = end->word;
	op->before = value;
	op->compare_add = random_next(random);
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD && random_chance(random, 400)) {
		op->shared = true;
		op->remote = plan->shared_word;
		op->compare_add = 1;
		return;
	}
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		value += op->compare_add;
	} else {
		op->swap = random_next(random);
		if (random_chance(random, 700)) {
			op->compare_add = value;
			value = op->swap;
		}
	}
	end->word_values[++end->word_steps] = value;
}

/* An earlier WRITE whose target nobody else uses: reading it back shows what it wrote. */
static struct op *find_written(struct end *end, unsigned before, struct random *random)
{
	struct op *op;

	if (before == 0 || end->type != IBV_QPT_RC)
		return NULL;
	op = &end->ops[random_below(random, before)];
	return op_is_write(op) && op->length > 0 && op->expected == IBV_WC_SUCCESS ? op : NULL;
}

static void make_read(struct end *end, struct op *op, unsigned number, struct random *random)
{
	struct op *written = random_chance(random, 400) ? find_written(end, number, random) : NULL;

	if (written) {
		written->keeps_target = true;
		op->pattern = written->pattern;
		op->length = written->length;
		op->remote = written->remote;
	} else {
		op->remote = world_take(random, op->length, 1u << random_below(random, 4));
		world_put(op->remote, op->length, op->pattern);
	}
	op->local = take_places(random, op->length, end->cap.max_send_sge);
}

/* What was just read goes out again: with a fence it has to be there. */
static bool make_relay(struct op *op, struct op *before)
{
	if (before->opcode != IBV_WR_RDMA_READ || before->expected != IBV_WC_SUCCESS ||
	    op_is_atomic(op) || op->opcode == IBV_WR_RDMA_READ)
		return false;
	before->keeps_local = true;
	op->flags |= IBV_SEND_FENCE;
	op->pattern = before->pattern;
	op->length = before->length;
	op->local = before->local;
	return true;
}

static void make_payload(struct end *end, struct op *op, unsigned number, struct random *random)
{
	if (number > 0 && end->type == IBV_QPT_RC && random_chance(random, 300) &&
	    make_relay(op, op - 1))
		return;
	op->local = take_places(random, op->length, end->cap.max_send_sge);
	put_places(&op->local, op->pattern);
	if (op->length <= end->cap.max_inline_data && random_chance(random, 500))
		op->flags |= IBV_SEND_INLINE;
}

static void make_op(struct plan *plan, struct end *end, unsigned number, uint32_t *budget,
		    struct random *random)
{
	struct op *op = &end->ops[number];
	uint32_t most = end->type == IBV_QPT_UD ? mtu_bytes(plan) : *budget;

	memset(op, 0, sizeof(*op));
	op->opcode = choose_opcode(random, end->type);
	op->length = choose_length(random, mtu_bytes(plan), most);
	op->pattern = random_next(random);
	op->imm = (uint32_t)random_next(random);
	op->lkey = world.mr->ib.lkey;
	op->rkey = world.mr->ib.rkey;
	op->receive = -1;
	op->expected = IBV_WC_SUCCESS;
	if (op_is_atomic(op))
		make_atomic(plan, end, op, random);
	else if (op->opcode == IBV_WR_RDMA_READ)
		make_read(end, op, number, random);
	else
		make_payload(end, op, number, random);
	if (op_is_write(op))
		op->remote = world_take(random, op->length, 1u << random_below(random, 4));
	if (op->opcode == IBV_WR_SEND_WITH_INV)
		make_window(end, op);
	if (random_chance(random, 200))
		op->flags |= IBV_SEND_SOLICITED;
	if (random_chance(random, 100) && end->type == IBV_QPT_RC)
		op->flags |= IBV_SEND_FENCE;
	if (op_is_received(op) && end->type == IBV_QPT_RC)
		make_receive(end, op, random);
	*budget -= op->length < *budget ? op->length : *budget;
}

/* One at least of as many as there is room for, and the last, or their places never come free. */
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

/* UC and UD: which message comes to which receive is open, so all of them take the longest. */
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

		receive->bytes = longest + grh + random_below(random, SLACK_MAX);
		receive->places = take_places(random, receive->bytes, end->cap.max_recv_sge);
		receive->lkey = world.mr->ib.lkey;
		receive->expected = IBV_WC_SUCCESS;
	}
}

static void prepare_end(struct plan *plan, unsigned number, enum ibv_qp_type type,
			struct random *random)
{
	struct end *end = &plan->ends[number];

	memset(end, 0, sizeof(*end));
	end->number = number;
	end->peer = &plan->ends[number ^ 1];
	end->type = type;
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
	end->qp = world_qp(type, &end->cap, end->sig_all);
	end->op_count = random_range(random, 1, random_chance(random, 300) ? PLAN_OPS : 10);
	end->withheld = PLAN_RECEIVES;
	end->pause_ns = end->resume_ns = NET_NEVER;
	if (random_chance(random, 150)) {
		end->pause_ns = net_now() + random_below(random, 3000000);
		end->rest_ns = random_below(random, 3000000);
	}
	end->word = world_take(random, 8, 8);
	end->word_values[0] = random_next(random);
	world_expect_word(end->word, end->word_values[0]);
	memcpy(world.memory + end->word, world.shadow + end->word, 8);
}

/* The op that shall fail: made anew as one that can. */
static struct op *remake(struct end *end, struct random *random, enum ibv_wr_opcode opcode,
			 uint32_t length, enum ibv_wc_status expected)
{
	struct op *op = &end->ops[end->op_count++];

	memset(op, 0, sizeof(*op));
	op->opcode = opcode;
	op->length = length;
	op->pattern = random_next(random);
	op->lkey = world.mr->ib.lkey;
	op->rkey = world.mr->ib.rkey;
	op->receive = -1;
	op->expected = expected;
	op->local = take_places(random, length, opcode > IBV_WR_SEND ? 1 : end->cap.max_send_sge);
	op->remote = world_take(random, length, 8);
	if (op_is_received(op))
		make_receive(end, op, random);
	return op;
}

static void make_one_sided_mishap(struct end *end, uint32_t length, struct random *random)
{
	enum ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
	struct op *op;

	if (end->mishap == MISHAP_NO_READ ||
	    (end->mishap < MISHAP_NO_WRITE && random_chance(random, 500)))
		opcode = IBV_WR_RDMA_READ;
	op = remake(end, random, opcode, length, IBV_WC_REM_ACCESS_ERR);
	if (end->mishap == MISHAP_BAD_RKEY)
		op->rkey ^= BAD_KEY_BITS;
	else if (end->mishap == MISHAP_OTHER_PD)
		op->rkey = world.mr_other_pd->ib.rkey;
	else if (end->mishap == MISHAP_RANGE)
		op->rkey = world.mr_small->ib.rkey;
	else if (end->mishap == MISHAP_NO_WRITE)
		op->rkey = world.mr_unwritable->ib.rkey;
	else
		op->rkey = world.mr_unreadable->ib.rkey;
}

static void make_two_sided_mishap(struct end *end, uint32_t length, struct random *random)
{
	static const enum ibv_wc_status here[MISHAPS] = {
		[MISHAP_RECEIVE_SHORT] = IBV_WC_REM_INV_REQ_ERR,
		[MISHAP_RECEIVE_LKEY] = IBV_WC_REM_OP_ERR,
		[MISHAP_LOCAL_LKEY] = IBV_WC_LOC_PROT_ERR,
		[MISHAP_NO_RECEIVE] = IBV_WC_RNR_RETRY_EXC_ERR,
	};
	struct op *op = remake(end, random, IBV_WR_SEND, length, here[end->mishap]);
	struct receive_plan *receive = &end->peer->receives[op->receive];

	receive->expected = IBV_WC_WR_FLUSH_ERR;
	if (end->mishap == MISHAP_RECEIVE_SHORT) {
		receive->bytes = random_below(random, length);
		receive->places = take_places(random, receive->bytes, 1);
		receive->expected = IBV_WC_LOC_LEN_ERR;
	} else if (end->mishap == MISHAP_RECEIVE_LKEY) {
		receive->lkey ^= BAD_KEY_BITS;
		receive->expected = IBV_WC_LOC_PROT_ERR;
	} else if (end->mishap == MISHAP_LOCAL_LKEY) {
		op->lkey ^= BAD_KEY_BITS;
	} else {
		end->peer->withheld = (unsigned)op->receive;
	}
}

/* One request that fails, at the end of what the end posts; the ops behind it are flushed. */
static void make_mishap(struct plan *plan, struct end *end, struct random *random)
{
	uint32_t length = 1 + choose_length(random, mtu_bytes(plan), 6 * mtu_bytes(plan));

	end->mishap = (enum mishap)random_range(random, 1, MISHAPS - 1);
	/* No earlier message may find the receive queue empty. */
	if (end->mishap == MISHAP_NO_RECEIVE) {
		if (end->peer->receive_count > end->peer->cap.max_recv_wr)
			end->mishap = MISHAP_LOCAL_LKEY;
		end->peer->receive_ns = net_now();
		end->peer->receive_gap_ns = 0;
		end->post_ns = net_now() + 1;
	}
	end->disturbed = end->mishap == MISHAP_SELF_TO_ERROR || end->mishap == MISHAP_PEER_TO_ERROR;
	end->peer->disturbed = true;
	end->mishap_op = end->op_count;
	end->mishap_ns = net_now() + random_below(random, 2000000);
	switch (end->mishap) {
	case MISHAP_SELF_TO_ERROR:
	case MISHAP_PEER_TO_ERROR:
		return;
	case MISHAP_UNALIGNED:
		remake(end, random, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_WC_REM_INV_REQ_ERR)
			->remote += random_range(random, 1, 7);
		return;
	case MISHAP_READ_LKEY:
		remake(end, random, IBV_WR_RDMA_READ, length, IBV_WC_LOC_PROT_ERR)->lkey ^=
			BAD_KEY_BITS;
		return;
	case MISHAP_RECEIVE_SHORT:
	case MISHAP_RECEIVE_LKEY:
	case MISHAP_LOCAL_LKEY:
	case MISHAP_NO_RECEIVE:
		make_two_sided_mishap(end, length, random);
		return;
	default:
		make_one_sided_mishap(end, length, random);
		return;
	}
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
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.dest_qp_num = end->peer->qp->ib.qp_num,
		.sq_psn = terms->psn[end->number & 1],
		.rq_psn = terms->psn[~end->number & 1],
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .sgid_index = (uint8_t)end->number,
				      .dgid = net_gid(end->peer->number) } },
		.max_rd_atomic = terms->reads,
		.max_dest_rd_atomic = (uint8_t)random_range(random, terms->reads, 16),
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

		/* the port's MTU: whoever makes a UD QP sets it */
		end->qp->attr.path_mtu = (enum ibv_mtu)plan->mtu;
		if (ah_create(world.pd, &attr.ah_attr, &gid, false, &ah))
			sim_fail("ah_create");
		end->ah = &ah->ib;
	}
}

static uint32_t choose_psn(struct random *random)
{
	if (random_chance(random, 500))
		return PACKET_PSN_MASK - random_below(random, 64);
	return (uint32_t)random_next(random) & PACKET_PSN_MASK;
}

static void make_pair(struct plan *plan, unsigned first, struct random *random)
{
	uint32_t type = random_below(random, 10);
	enum ibv_qp_type service = type < 7 ? IBV_QPT_RC : type < 9 ? IBV_QPT_UC : IBV_QPT_UD;
	struct terms terms = {
		.psn = { choose_psn(random), choose_psn(random) },
		.reads = (uint8_t)(1u << random_below(random, 5)),
		.timeout = (uint8_t)random_range(random, 10, 14),
	};

	for (unsigned i = 0; i < PAIR_ENDS; i++)
		prepare_end(plan, first + i, service, random);
	for (unsigned i = 0; i < PAIR_ENDS; i++) {
		struct end *end = &plan->ends[first + i];
		bool mishap = i == 0 && service == IBV_QPT_RC && random_chance(random, 200);
		uint32_t budget = PACKETS_PER_END * mtu_bytes(plan);
		unsigned planned = end->op_count, flushed = random_below(random, 4);

		if (budget > 65535)
			budget = 65535;
		if (mishap && planned + 1 + flushed > PLAN_OPS)
			planned = PLAN_OPS - 1 - flushed;
		for (end->op_count = 0; end->op_count < planned; end->op_count++)
			make_op(plan, end, end->op_count, &budget, random);
		if (mishap) {
			make_mishap(plan, end, random);
			for (unsigned j = 0; j < flushed; j++, end->op_count++)
				make_op(plan, end, end->op_count, &budget, random);
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

void plan_make(struct plan *plan, uint64_t seed)
{
	struct random random = { seed * 0x2545f4914f6cdd1du + 1 };

	world_clear();
	make_weather(&plan->weather, &random);
	net_start(&plan->weather, random_next(&random));
	plan->reorders = plan->weather.reordering || plan->weather.lateness ||
			 plan->weather.duplication || plan->weather.jitter_ns;
	plan->clean = !plan->reorders && !plan->weather.loss && !plan->weather.damage &&
		      !plan->weather.full && !plan->weather.unreachable;
	plan->mtu = random_range(&random, IBV_MTU_256, IBV_MTU_4096);
	plan->end_count = PAIR_ENDS * random_range(&random, 1, random_chance(&random, 300) ? 4 : 2);
	plan->shared_word = world_take(&random, 8, 8);
	plan->shared_adds = 0;
	world_expect_word(plan->shared_word, 0);
	memset(world.memory + plan->shared_word, 0, 8);
	for (unsigned i = 0; i < plan->end_count; i += PAIR_ENDS)
		make_pair(plan, i, &random);
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
}
