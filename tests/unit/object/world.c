/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/eventfd.h"
#include "verbs/ops.h"

enum path_mode path_mode;
int path_connect_error;
_Atomic int path_connects, path_issues, path_quiesces, path_destroys;

static int fake_connect(struct qp *qp)
{
	path_connects++;
	return path_connect_error;
}

static void fake_issue(struct qp *qp)
{
	struct sq *sq = &qp->sq;

	path_issues++;
	if (qp_state(qp) != IBV_QPS_RTS)
		return;
	for (; sq->issue != sq->tail; sq->issue++) {
		struct wqe *wqe = sq_wqe(sq, sq->issue);

		wqe->state = WQE_ISSUED;
		if (path_mode == PATH_FINISHES)
			wqe_finish(wqe, IBV_WC_SUCCESS, CAUSE_NONE);
	}
	qp_retire(qp);
}

static void fake_quiesce(struct qp *qp)
{
	path_quiesces++;
}

static void fake_destroy(struct qp *qp)
{
	path_destroys++;
}

const struct qp_path fake_path = {
	.connect = fake_connect,
	.issue = fake_issue,
	.quiesce = fake_quiesce,
	.destroy = fake_destroy,
};

struct cq *world_cq(struct world *world, uint32_t cqe, struct channel *channel)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = cqe, .channel = channel ? &channel->ib : NULL };
	struct cq *cq;

	assert_int_equal(cq_create(world->context, &attr, &cq), 0);
	return cq;
}

int world_setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	world->arena =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(world->arena != MAP_FAILED);
	world->context = calloc(1, sizeof(*world->context));
	world->context->verbs.context.num_comp_vectors = 2;
	world->context->verbs.context.async_fd = eventfd_create();
	lock_init(&world->context->async_lock);
	list_init(&world->context->async_pending);
	assert_int_equal(qp_table_init(world->arena, WORLD_SLOT), 0);
	assert_int_equal(pd_create(&world->context->verbs.context, &world->pd), 0);
	world->cq = world_cq(world, 64, NULL);
	path_mode = PATH_HOLDS;
	path_connect_error = 0;
	path_connects = path_issues = path_quiesces = path_destroys = 0;
	*state = world;
	return 0;
}

int world_teardown(void **state)
{
	struct world *world = *state;

	assert_int_equal(cq_destroy(world->cq), 0);
	assert_int_equal(pd_destroy(world->pd), 0);
	close(world->context->verbs.context.async_fd);
	lock_fini(&world->context->async_lock);
	free(world->context);
	munmap(world->arena, ARENA_BYTES);
	free(world);
	return 0;
}

struct qp *world_qp_of(struct world *world, struct ibv_qp_init_attr_ex *attr)
{
	struct qp *qp;

	if (!attr->send_cq)
		attr->send_cq = &world->cq->ib;
	if (!attr->recv_cq)
		attr->recv_cq = &world->cq->ib;
	assert_int_equal(qp_create(world->context, world->pd, attr, &fake_path, &qp), 0);
	return qp;
}

struct qp *world_qp(struct world *world, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = 8,
			 .max_send_sge = 4,
			 .max_recv_sge = 4,
			 .max_inline_data = 32 },
	};

	return world_qp_of(world, &attr);
}

int world_move(struct qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.path_mtu = IBV_MTU_1024,
		.port_num = 1,
		.dest_qp_num = 17,
		.ah_attr = { .is_global = 1, .port_num = 1 },
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.qkey = 0x11,
	};
	int mask = IBV_QP_STATE;
	bool ud = qp->type == IBV_QPT_UD, rc = qp->type == IBV_QPT_RC;

	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (state == IBV_QPS_RTR && !ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (state == IBV_QPS_RTR && rc)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (state == IBV_QPS_RTS && qp_state(qp) == IBV_QPS_RTR) {
		mask |= IBV_QP_SQ_PSN;
		if (rc)
			mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_MAX_QP_RD_ATOMIC;
	}
	return qp_modify(qp, &attr, mask);
}

void world_to(struct qp *qp, enum ibv_qp_state state)
{
	enum ibv_qp_state next;

	for (next = IBV_QPS_INIT; next <= state && next <= IBV_QPS_RTS; next++)
		assert_int_equal(world_move(qp, next), 0);
}

int post_send(struct qp *qp, uint64_t wr_id, unsigned int flags)
{
	struct ibv_send_wr *bad,
		wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND, .send_flags = flags };

	return verbs_post_send(&qp->ib, &wr, &bad);
}

int post_recv(struct qp *qp, uint64_t wr_id)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id };

	return verbs_post_recv(&qp->ib, &wr, &bad);
}

void path_finish(struct qp *qp, uint32_t behind, enum ibv_wc_status status)
{
	lock_acquire(&qp->lock);
	wqe_finish(sq_wqe(&qp->sq, qp->sq.head + behind), status,
		   status ? CAUSE_INTERNAL : CAUSE_NONE);
	qp_retire(qp);
	lock_release(&qp->lock);
}

bool path_receive(struct qp *qp)
{
	struct receive receive;
	struct cqe cqe = {
		.qp = qp,
		.rq = qp->rq,
		.kind = CQE_RECEIVE,
		.qp_num = qp->ib.qp_num,
	};
	bool taken;

	lock_acquire(&qp->lock);
	taken = qp->srq ? rq_take(qp->rq, &receive) != RQ_EMPTY : rq_take_own(qp->rq, &receive);
	if (taken) {
		cqe.wr_id = receive.wr_id;
		cq_push(qp->recv_cq, &cqe, false);
	}
	lock_release(&qp->lock);
	return taken;
}

void expect_wc(struct cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(cq_pop(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

void expect_empty(struct cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(cq_pop(cq, 1, &wc), 0);
}

bool next_event(struct world *world, struct ibv_async_event *event)
{
	struct pollfd ready = { .fd = world->context->verbs.context.async_fd, .events = POLLIN };

	if (poll(&ready, 1, 0) != 1)
		return false;
	assert_int_equal(eventfd_take(ready.fd), 0);
	return context_take_event(world->context, event);
}
