/* SPDX-License-Identifier: BSD-2-Clause */
#include "traffic.h"

#include <errno.h>

#include "fail.h"
#include "verbs/post.h"
#include "verbs/ops.h"

#define CHAIN	    4
#define AGAIN_NS    20000 /* after a queue was full */
#define OTHER_BYTES 1	  /* pattern + this: replaces inline data after the post */

static bool is_unfinished(const struct end *end)
{
	return end->next_post < end->op_count ||
	       (end->type == IBV_QPT_UD && end->next_done < end->op_count);
}

static bool has_receives(const struct end *end)
{
	return end->next_receive_post < end->receive_count &&
	       end->next_receive_post < end->withheld;
}

static bool has_mishap(const struct end *end)
{
	return !end->mishap_done &&
	       (end->mishap == MISHAP_SELF_TO_ERROR || end->mishap == MISHAP_PEER_TO_ERROR);
}

static bool has_pool(const struct plan *plan)
{
	return plan->next_pool_post < plan->pool_count;
}

uint64_t traffic_next_ns(const struct plan *plan)
{
	uint64_t next = has_pool(plan) ? plan->pool_ns : NET_NEVER;

	for (unsigned i = 0; i < plan->end_count; i++) {
		const struct end *end = &plan->ends[i];

		if (is_unfinished(end) && end->post_ns < next)
			next = end->post_ns;
		if (has_receives(end) && end->receive_ns < next)
			next = end->receive_ns;
		if (has_mishap(end) && end->mishap_ns < next)
			next = end->mishap_ns;
		if (end->pause_ns < next)
			next = end->pause_ns;
		if (end->resume_ns < next)
			next = end->resume_ns;
	}
	return next;
}

static int make_sges(const struct places *places, uint32_t lkey, struct ibv_sge *sge)
{
	for (unsigned i = 0; i < places->count; i++)
		sge[i] = (struct ibv_sge){
			.addr = world_address(places->at[i]),
			.length = places->bytes[i],
			.lkey = lkey,
		};
	return (int)places->count;
}

static void make_request(const struct end *end, unsigned number, struct ibv_send_wr *wr,
			 struct ibv_sge *sge)
{
	const struct op *op = &end->ops[number];

	*wr = (struct ibv_send_wr){
		.wr_id = (uint64_t)end->number << 32 | number,
		.sg_list = sge,
		.num_sge = make_sges(&op->local, op->lkey, sge),
		.opcode = op->opcode,
		.send_flags = op->flags,
		.imm_data = op->imm,
	};
	if (end->srqn)
		wr->qp_type.xrc.remote_srqn = end->srqn;
	if (op_is_atomic(op)) {
		wr->wr.atomic.remote_addr = world_address(op->remote);
		wr->wr.atomic.rkey = op->rkey;
		wr->wr.atomic.compare_add = op->compare_add;
		wr->wr.atomic.swap = op->swap;
	} else if (op_is_write(op) || op->opcode == IBV_WR_RDMA_READ) {
		wr->wr.rdma.remote_addr = world_address(op->remote);
		wr->wr.rdma.rkey = op->rkey;
	} else if (end->type == IBV_QPT_UD) {
		wr->wr.ud.ah = end->ah;
		wr->wr.ud.remote_qpn = end->peer->qp->ib.qp_num;
		wr->wr.ud.remote_qkey = PLAN_QKEY;
	}
}

static void on_posted(struct plan *plan, struct end *end)
{
	struct op *op = &end->ops[end->next_post++];

	op->state = OP_POSTED;
	if (op->shared)
		plan->shared_adds++;
	/* Inline data was copied by the post, so the program may overwrite it now. */
	if (op->flags & IBV_SEND_INLINE)
		for (unsigned i = 0; i < op->local.count; i++)
			world_put(op->local.at[i], op->local.bytes[i], op->pattern + OTHER_BYTES);
}

/* A datagram may wait for the socket. */
static void go_on(struct end *end)
{
	lock_acquire(&end->qp->lock);
	if (qp_state(end->qp) == IBV_QPS_RTS)
		end->qp->path->issue(end->qp);
	lock_release(&end->qp->lock);
}

/* struct ibv_send_wr has no fields for a FLUSH, so this takes the steps of its builder. */
static int post_flush(struct end *end)
{
	const struct op *op = &end->ops[end->next_post];
	struct qp *qp = end->qp;
	struct wqe *wqe;
	int error;

	lock_acquire(&qp->lock);
	error = sq_begin(&qp->sq, op->opcode, (uint64_t)end->number << 32 | end->next_post,
			 op->flags, &wqe);
	if (!error) {
		wqe->remote_addr = world_address(op->remote);
		wqe->rkey = op->rkey;
		wqe->remote_srqn = end->srqn;
		wqe->length = op->length;
		wqe->operands = (struct operands){ op->compare_add, op->swap };
		error = sq_end(&qp->sq, wqe);
	}
	if (!error)
		post_done(qp, qp->sq.tail - 1);
	lock_release(&qp->lock);
	return error;
}

/* The length of the next chain; *flush: it is a FLUSH alone. */
static unsigned choose_chain(const struct end *end, bool *flush)
{
	const struct op *next = &end->ops[end->next_post];
	unsigned left = end->op_count - end->next_post, count = 1 + end->next_post % CHAIN;

	*flush = op_is_flush(next);
	if (*flush)
		return 1;
	if (count > left)
		count = left;
	for (unsigned i = 1; i < count; i++)
		if (op_is_flush(&next[i]))
			return i;
	return count;
}

static void post_sends(struct plan *plan, struct end *end)
{
	struct ibv_sge sges[CHAIN][PLAN_PIECES];
	struct ibv_send_wr wrs[CHAIN], *bad = NULL;
	unsigned count, posted;
	bool flush;
	int error;

	if (end->type == IBV_QPT_UD)
		go_on(end);
	end->post_ns = net_now() + AGAIN_NS;
	if (end->next_post == end->op_count)
		return;
	count = choose_chain(end, &flush);
	for (unsigned i = 0; i < count; i++) {
		make_request(end, end->next_post + i, &wrs[i], sges[i]);
		if (i > 0)
			wrs[i - 1].next = &wrs[i];
	}
	bad = wrs;
	error = flush ? post_flush(end) : verbs_post_send(&end->qp->ib, wrs, &bad);
	if (error && (error != ENOMEM || bad < wrs || bad >= wrs + count))
		sim_fail("end %u: ibv_post_send: %d", end->number, error);
	posted = error ? (unsigned)(bad - wrs) : count;
	for (unsigned i = 0; i < posted; i++)
		on_posted(plan, end);
	if (!error)
		end->post_ns = net_now() + end->post_gap_ns;
}

static void post_receives(struct end *end)
{
	end->receive_ns = net_now() + end->receive_gap_ns;
	while (has_receives(end)) {
		struct receive_plan *receive = &end->receives[end->next_receive_post];
		struct ibv_sge sge[PLAN_PIECES];
		struct ibv_recv_wr *bad, wr = {
			.wr_id = end->next_receive_post,
			.sg_list = sge,
			.num_sge = make_sges(&receive->places, receive->lkey, sge),
		};
		int error = verbs_post_recv(&end->qp->ib, &wr, &bad);

		if (error == ENOMEM) {
			end->receive_ns = net_now() + AGAIN_NS;
			return;
		}
		if (error)
			sim_fail("end %u: ibv_post_recv: %d", end->number, error);
		receive->posted = true;
		end->next_receive_post++;
		if (end->receive_gap_ns)
			return;
	}
}

static void post_pool(struct plan *plan)
{
	plan->pool_ns = net_now() + plan->pool_gap_ns;
	while (has_pool(plan)) {
		struct receive_plan *receive = &plan->pool[plan->next_pool_post];
		struct ibv_sge sge[PLAN_PIECES];
		struct ibv_recv_wr *bad, wr = {
			.wr_id = plan->next_pool_post,
			.sg_list = sge,
			.num_sge = make_sges(&receive->places, receive->lkey, sge),
		};
		int error = verbs_post_srq_recv(&plan->srq->ib, &wr, &bad);

		if (error == ENOMEM) {
			plan->pool_ns = net_now() + AGAIN_NS;
			return;
		}
		if (error)
			sim_fail("ibv_post_srq_recv: %d", error);
		receive->posted = true;
		plan->next_pool_post++;
		if (plan->pool_gap_ns)
			return;
	}
}

static void pause(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	end->pause_ns = NET_NEVER;
	if (qp_state(end->qp) == IBV_QPS_RTS)
		world_modify(end->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

static void resume(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	end->resume_ns = NET_NEVER;
	if (qp_state(end->qp) != IBV_QPS_SQD)
		return;
	if (end->qp->sq.head != end->drained_head)
		sim_fail("end %u: requests went on after SQ_DRAINED", end->number);
	world_modify(end->qp, &attr, IBV_QP_STATE);
}

void traffic_run(struct plan *plan)
{
	uint64_t now_ns = net_now();

	if (has_pool(plan) && plan->pool_ns <= now_ns)
		post_pool(plan);
	for (unsigned i = 0; i < plan->end_count; i++) {
		struct end *end = &plan->ends[i];

		if (has_receives(end) && end->receive_ns <= now_ns)
			post_receives(end);
		if (is_unfinished(end) && end->post_ns <= now_ns)
			post_sends(plan, end);
		if (end->pause_ns <= now_ns)
			pause(end);
		if (end->resume_ns <= now_ns)
			resume(end);
		if (has_mishap(end) && end->mishap_ns <= now_ns) {
			end->mishap_done = true;
			world_to_error(end->mishap == MISHAP_SELF_TO_ERROR ? end->qp
									   : end->peer->qp);
		}
	}
}

bool traffic_is_done(const struct plan *plan)
{
	for (unsigned i = 0; i < plan->end_count; i++)
		if (plan->ends[i].next_done < plan->ends[i].op_count || has_mishap(&plan->ends[i]))
			return false;
	return true;
}
