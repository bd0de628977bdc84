/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of the headers beside the plain verbs: rule 9 of the contract. Extended CQs and QPs
 * work; all else works or returns EOPNOTSUPP; unknown bits are refused.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "events.h"

#define UNKNOWN_BITS 0x40000000u
#define WC_FLAGS                                                                                   \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |                    \
	 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)

/* `make` worked, and so does `undo` then, or it said EOPNOTSUPP. */
#define WORKS_OR_UNSUPPORTED(object, make, undo)                                                   \
	do {                                                                                       \
		errno = 0;                                                                         \
		object = make;                                                                     \
		if (object)                                                                        \
			REQUIRE(undo(object) == 0, #undo " failed");                               \
		else                                                                               \
			REQUIRE(errno == EOPNOTSUPP, #make ": errno %d (%s)", errno,               \
				strerror(errno));                                                  \
	} while (0)
#define REFUSED(pointer)                                                                           \
	do {                                                                                       \
		errno = 0;                                                                         \
		REQUIRE(!(pointer), #pointer " succeeded");                                        \
		REQUIRE(errno == EINVAL || errno == EOPNOTSUPP, #pointer ": errno %d", errno);     \
	} while (0)

static void rule_09_query_device_ex(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;
	struct ibv_query_device_ex_input input = { .comp_mask = UNKNOWN_BITS };

	memset(&ex, 0xff, sizeof(ex));
	REQUIRE(ibv_query_device_ex(side->context, NULL, &ex) == 0, "ibv_query_device_ex");
	REQUIRE(ibv_query_device(side->context, &attr) == 0, "ibv_query_device");
	REQUIRE(ex.orig_attr.max_qp == attr.max_qp && ex.orig_attr.max_cqe == attr.max_cqe &&
			ex.orig_attr.node_guid == attr.node_guid,
		"the two queries differ");
	REQUIRE(ex.phys_port_cnt_ex == attr.phys_port_cnt, "phys_port_cnt_ex");
	REQUIRE(ibv_query_device_ex(side->context, &input, &ex) != 0, "unknown comp_mask");
}

static struct ibv_cq_ex *make_cq_ex(struct side *side)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 64, .cq_context = side, .channel = side->channel, .wc_flags = WC_FLAGS
	};

	return ibv_create_cq_ex(side->context, &init);
}

static void rule_09_cq_ex_bad_arguments(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_cq_init_attr_ex init = { .cqe = 64, .wc_flags = UINT64_C(1) << 40 };

	REFUSED(ibv_create_cq_ex(side->context, &init));
	init = (struct ibv_cq_init_attr_ex){ .cqe = 64, .comp_mask = UNKNOWN_BITS };
	REFUSED(ibv_create_cq_ex(side->context, &init));
	init = (struct ibv_cq_init_attr_ex){ .cqe = 0 };
	REFUSED(ibv_create_cq_ex(side->context, &init));
}

/* A QP whose two CQs are extended ones, connected to itself. */
static struct ibv_qp_ex *make_qp_ex(struct pair *pair, struct ibv_cq_ex *cq, uint64_t ops)
{
	struct side *side = pair->a.side;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = WITH()->cap,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = side->pd,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(side->context, &init);

	REQUIRE(qp, "ibv_create_qp_ex: %s", strerror(errno));
	side->qp[0] = qp;
	pair->a.qpn[0] = qp->qp_num;
	end_ready(&pair->a, &pair->a, 0);
	REQUIRE(ibv_qp_to_qp_ex(qp), "ibv_qp_to_qp_ex");
	return ibv_qp_to_qp_ex(qp);
}

static void await(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };
	uint64_t end_ms = now_ms() + WAIT_MS;
	int result;

	while ((result = ibv_start_poll(cq, &attr)) == ENOENT)
		REQUIRE(now_ms() < end_ms, "no completion");
	REQUIRE(result == 0, "ibv_start_poll: %d", result);
}

/* The completion after ibv_req_notify_cq is in the CQ, and has not been polled. */
static void await_event(struct side *side, struct ibv_cq_ex *cq)
{
	struct ibv_cq *of;
	void *context;

	REQUIRE(readable(side->channel->fd, WAIT_MS), "no completion event came");
	REQUIRE(ibv_get_cq_event(side->channel, &of, &context) == 0, "ibv_get_cq_event");
	REQUIRE(of == ibv_cq_ex_to_cq(cq), "event of another CQ");
	ibv_ack_cq_events(of, 1);
}

static void rule_09_start_poll_family(struct pair *pair)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct end *a = &pair->a;
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qp;
	uint64_t first_ns, second_ns;
	int result;

	pair_make(pair, WITH(.qps = 0, .channel = true));
	cq = make_cq_ex(a->side);
	REQUIRE(cq, "ibv_create_cq_ex: %s", strerror(errno));
	REQUIRE(ibv_start_poll(cq, &attr) == ENOENT, "an empty CQ");
	qp = make_qp_ex(pair, cq, IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE);

	post_receive(a, 0, RECEIVE(.wr_id = 50, .offset = 4096, .length = 4096));
	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(qp, htonl(99));
	ibv_wr_set_sge(qp, a->lkey, a->addr, 100);
	REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");

	/* Both completions of the loop, in either order. */
	for (int i = 0, seen = 0; i < 2; i++) {
		await(cq);
		REQUIRE(cq->status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(cq->status));
		REQUIRE(ibv_wc_read_qp_num(cq) == qp->qp_base.qp_num, "qp_num");
		if (cq->wr_id == 50) {
			REQUIRE(ibv_wc_read_opcode(cq) == IBV_WC_RECV, "opcode");
			REQUIRE(ibv_wc_read_byte_len(cq) == 100, "byte_len");
			REQUIRE(ibv_wc_read_wc_flags(cq) == IBV_WC_WITH_IMM, "wc_flags");
			REQUIRE(ibv_wc_read_imm_data(cq) == htonl(99), "imm_data");
		} else {
			REQUIRE(cq->wr_id == 7, "wr_id");
			REQUIRE(ibv_wc_read_opcode(cq) == IBV_WC_SEND, "opcode");
		}
		seen |= cq->wr_id == 50 ? 1 : 2;
		first_ns = ibv_wc_read_completion_ts(cq);
		ibv_end_poll(cq);
		REQUIRE(i == 0 || seen == 3, "one completion came twice");
	}

	/* Several in one go; time does not run backwards. */
	for (uint64_t i = 0; i < 3; i++) {
		REQUIRE(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0) == 0, "ibv_req_notify_cq");
		ibv_wr_start(qp);
		qp->wr_id = i;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, a->rkey, a->addr + 8192);
		ibv_wr_set_sge(qp, a->lkey, a->addr, 64);
		REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
		await_event(a->side, cq);
	}
	await(cq);
	for (uint64_t i = 0; i < 3; i++) {
		REQUIRE(cq->wr_id == i, "wr_id");
		second_ns = ibv_wc_read_completion_ts(cq);
		REQUIRE(second_ns >= first_ns, "a completion before the one before it");
		first_ns = second_ns;
		result = ibv_next_poll(cq);
		REQUIRE(result == (i < 2 ? 0 : ENOENT), "ibv_next_poll: %d", result);
	}
	ibv_end_poll(cq);
}

/* A thread may poll while it builds requests, although packets for the QP wait for its lock. */
static void rule_09_poll_while_building(struct pair *pair)
{
	struct end *a = &pair->a;
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qp;
	struct ibv_wc wc[2];

	pair_make(pair, WITH(.qps = 0));
	cq = make_cq_ex(a->side);
	REQUIRE(cq, "ibv_create_cq_ex: %s", strerror(errno));
	qp = make_qp_ex(pair, cq, IBV_QP_EX_WITH_SEND);
	for (int round = 0; round < 200; round++) {
		uint64_t end_ms = now_ms() + WAIT_MS;
		int seen = 0;

		post_receive(a, 0, RECEIVE(.wr_id = 60, .offset = 4096, .length = 4096));
		ibv_wr_start(qp);
		qp->wr_id = 61;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(qp);
		ibv_wr_set_sge(qp, a->lkey, a->addr, 100);
		REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
		ibv_wr_start(qp);
		for (int i = 0; i < 100; i++)
			seen += ibv_poll_cq(ibv_cq_ex_to_cq(cq), 2, wc);
		ibv_wr_abort(qp);
		while (seen < 2 && now_ms() < end_ms)
			seen += ibv_poll_cq(ibv_cq_ex_to_cq(cq), 2, wc);
		REQUIRE(seen == 2, "round %d: %d completions", round, seen);
	}
}

static void expect_plain(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	uint64_t end_ms = now_ms() + WAIT_MS;
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 0)
		REQUIRE(now_ms() < end_ms, "no completion of %d", (int)wr_id);
	REQUIRE(wc.wr_id == wr_id && wc.status == IBV_WC_SUCCESS && wc.opcode == opcode,
		"request %d: %s, opcode %d", (int)wc.wr_id, ibv_wc_status_str(wc.status),
		wc.opcode);
}

/* An extended CQ is polled with the plain call too; each builder posts what it says. */
static void rule_09_builders(struct pair *pair)
{
	struct end *a = &pair->a;
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qp;
	struct ibv_sge sges[2];
	struct ibv_data_buf parts[2];

	pair_make(pair, WITH(.qps = 0));
	cq = make_cq_ex(a->side);
	REQUIRE(cq, "ibv_create_cq_ex: %s", strerror(errno));
	qp = make_qp_ex(pair, cq,
			IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |
				IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	fill(a, 0, 4096, 3);
	poke(a, 65536, 41);

	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 1;
	sges[0] = (struct ibv_sge){ a->addr, 1000, a->lkey };
	sges[1] = (struct ibv_sge){ a->addr + 1000, 3096, a->lkey };
	ibv_wr_rdma_write(qp, a->rkey, a->addr + 8192);
	ibv_wr_set_sge_list(qp, 2, sges);
	qp->wr_id = 2;
	ibv_wr_rdma_read(qp, a->rkey, a->addr + 8192);
	ibv_wr_set_sge(qp, a->lkey, a->addr + 16384, 4096);
	qp->wr_id = 3;
	ibv_wr_atomic_fetch_add(qp, a->rkey, a->addr + 65536, 1);
	ibv_wr_set_sge(qp, a->lkey, a->addr + 65544, 8);
	qp->wr_id = 4;
	ibv_wr_atomic_cmp_swp(qp, a->rkey, a->addr + 65536, 42, 77);
	ibv_wr_set_sge(qp, a->lkey, a->addr + 65552, 8);
	qp->wr_id = 5;
	parts[0] = (struct ibv_data_buf){ "hello ", 6 };
	parts[1] = (struct ibv_data_buf){ "world", 5 };
	ibv_wr_rdma_write(qp, a->rkey, a->addr + 70000);
	ibv_wr_set_inline_data_list(qp, 2, parts);
	REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
	expect_plain(ibv_cq_ex_to_cq(cq), 1, IBV_WC_RDMA_WRITE);
	expect_plain(ibv_cq_ex_to_cq(cq), 2, IBV_WC_RDMA_READ);
	expect_plain(ibv_cq_ex_to_cq(cq), 3, IBV_WC_FETCH_ADD);
	expect_plain(ibv_cq_ex_to_cq(cq), 4, IBV_WC_COMP_SWAP);
	expect_plain(ibv_cq_ex_to_cq(cq), 5, IBV_WC_RDMA_WRITE);
	expect_bytes(a, 8192, 4096, 3);
	expect_bytes(a, 16384, 4096, 3);
	REQUIRE(peek(a, 65544) == 41 && peek(a, 65552) == 42 && peek(a, 65536) == 77, "atomics");
	REQUIRE(memcmp(a->side->buf + 70000, "hello world", 11) == 0, "inline list");
}

/* An aborted chain is not posted; nor is a chain with a wrong request. */
static void rule_09_abort(struct pair *pair)
{
	struct end *a = &pair->a;
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;

	pair_make(pair, WITH(.qps = 0));
	cq = make_cq_ex(a->side);
	REQUIRE(cq, "ibv_create_cq_ex: %s", strerror(errno));
	qp = make_qp_ex(pair, cq, IBV_QP_EX_WITH_RDMA_WRITE);
	fill(a, 8192, 4096, 0);
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, a->rkey, a->addr + 8192);
	ibv_wr_set_sge(qp, a->lkey, a->addr, 64);
	ibv_wr_abort(qp);

	ibv_wr_start(qp);
	for (int i = 0; i < 1000; i++) {
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, a->rkey, a->addr + 8192);
		ibv_wr_set_sge(qp, a->lkey, a->addr, 64);
	}
	REQUIRE(ibv_wr_complete(qp) == ENOMEM, "1000 requests in a queue of 64");
	sleep_ms(QUIET_MS);
	REQUIRE(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc) == 0, "a completion");
	expect_bytes(a, 8192, 4096, 0);

	ibv_wr_start(qp);
	qp->wr_id = 9;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, a->rkey, a->addr + 8192);
	ibv_wr_set_sge(qp, a->lkey, a->addr, 64);
	REQUIRE(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
	expect_plain(ibv_cq_ex_to_cq(cq), 9, IBV_WC_RDMA_WRITE);
}

static void rule_09_create_qp_ex_bad_arguments(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_qp_init_attr_ex good = { .send_cq = side->cq[SENDS],
					    .recv_cq = side->cq[RECEIVES],
					    .cap = WITH()->cap,
					    .qp_type = IBV_QPT_RC,
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = side->pd };
	struct ibv_qp_init_attr_ex init = good;
	struct ibv_qp *qp;

	init.comp_mask |= UNKNOWN_BITS;
	REFUSED(ibv_create_qp_ex(side->context, &init));
	init = good;
	init.comp_mask = 0;
	REFUSED(ibv_create_qp_ex(side->context, &init));
	init = good;
	init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = UINT64_C(1) << 50;
	REFUSED(ibv_create_qp_ex(side->context, &init));
	init = good;
	qp = ibv_create_qp_ex(side->context, &init);
	REQUIRE(qp, "ibv_create_qp_ex: %s", strerror(errno));
	REQUIRE(!ibv_qp_to_qp_ex(qp), "ibv_qp_to_qp_ex of a QP without SEND_OPS_FLAGS");
}

/* Every inline function that ends in an op the device may not have. */
static void rule_09_works_or_is_unsupported(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_context *context = side->context;
	struct ibv_td_init_attr td_init = { 0 };
	struct ibv_xrcd_init_attr xrcd_init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							     IBV_XRCD_INIT_ATTR_OFLAGS,
						.fd = -1,
						.oflags = O_CREAT };
	struct ibv_alloc_dm_attr dm_attr = { .length = 4096 };
	struct ibv_counters_init_attr counters_init = { 0 };
	struct ibv_wq_init_attr wq_init = {
		.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = side->pd, .cq = side->cq[0]
	};
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_modify_cq_attr moderation = { .attr_mask = IBV_CQ_ATTR_MODERATE,
						 .moderate = { .cq_count = 4, .cq_period = 10 } };
	struct ibv_srq_init_attr_ex srq_init = { .attr = { .max_wr = 4, .max_sge = 1 },
						 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
							      IBV_SRQ_INIT_ATTR_PD,
						 .srq_type = IBV_SRQT_BASIC,
						 .pd = side->pd };
	struct ibv_sge advice = { (uintptr_t)side->buf, 4096, side->mr->lkey };
	struct ibv_td *td;
	struct ibv_xrcd *xrcd;
	struct ibv_dm *dm;
	struct ibv_counters *counters;
	struct ibv_wq *wq;
	struct ibv_mr *null_mr;
	struct ibv_mw *mw;
	struct ibv_srq *srq;
	uint32_t number;
	int result;

	WORKS_OR_UNSUPPORTED(td, ibv_alloc_td(context, &td_init), ibv_dealloc_td);
	WORKS_OR_UNSUPPORTED(xrcd, ibv_open_xrcd(context, &xrcd_init), ibv_close_xrcd);
	WORKS_OR_UNSUPPORTED(dm, ibv_alloc_dm(context, &dm_attr), ibv_free_dm);
	WORKS_OR_UNSUPPORTED(counters, ibv_create_counters(context, &counters_init),
			     ibv_destroy_counters);
	WORKS_OR_UNSUPPORTED(wq, ibv_create_wq(context, &wq_init), ibv_destroy_wq);
	WORKS_OR_UNSUPPORTED(null_mr, ibv_alloc_null_mr(side->pd), ibv_dereg_mr);
	WORKS_OR_UNSUPPORTED(mw, ibv_alloc_mw(side->pd, IBV_MW_TYPE_1), ibv_dealloc_mw);
	WORKS_OR_UNSUPPORTED(mw, ibv_alloc_mw(side->pd, IBV_MW_TYPE_2), ibv_dealloc_mw);

	result = ibv_query_rt_values_ex(context, &values);
	REQUIRE(result == 0 || result == EOPNOTSUPP, "ibv_query_rt_values_ex: %d", result);
	result = ibv_modify_cq(side->cq[0], &moderation);
	REQUIRE(result == 0 || result == EOPNOTSUPP, "ibv_modify_cq: %d", result);
	result = ibv_advise_mr(side->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
			       &advice, 1);
	REQUIRE(result == 0 || result == EOPNOTSUPP || result == EINVAL, "ibv_advise_mr: %d",
		result);

	srq = ibv_create_srq_ex(context, &srq_init);
	REQUIRE(srq, "ibv_create_srq_ex: %s", strerror(errno));
	result = ibv_get_srq_num(srq, &number);
	REQUIRE(result == 0 || result == EOPNOTSUPP || result == EINVAL, "ibv_get_srq_num: %d",
		result);
	REQUIRE(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
	srq_init.comp_mask |= UNKNOWN_BITS;
	REFUSED(ibv_create_srq_ex(context, &srq_init));
}

static void rule_09_parent_domain(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_parent_domain_init_attr init = { .pd = side->pd, .comp_mask = UNKNOWN_BITS };
	struct ibv_pd *parent;
	struct ibv_mr *mr;

	REFUSED(ibv_alloc_parent_domain(side->context, &init));
	init.comp_mask = 0;
	parent = ibv_alloc_parent_domain(side->context, &init);
	if (!parent) {
		REQUIRE(errno == EOPNOTSUPP, "errno %d", errno);
		skip_because("no parent domains");
	}
	REQUIRE(ibv_dealloc_pd(side->pd) == EBUSY, "the PD under a parent domain is freed");
	mr = ibv_reg_mr(parent, side->buf, 4096, ACCESS_ALL);
	REQUIRE(mr && mr->pd == parent, "ibv_reg_mr: %s", strerror(errno));
	REQUIRE(ibv_dealloc_pd(parent) == EBUSY, "a parent domain with a region is freed");
	REQUIRE(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(parent) == 0, "freeing");
}

static void rule_09_cq_of_a_parent_domain(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_parent_domain_init_attr init = { .pd = side->pd };
	struct ibv_cq_init_attr_ex attr = { .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_pd *parent = ibv_alloc_parent_domain(side->context, &init);
	struct ibv_cq_ex *cq;

	REQUIRE(parent, "ibv_alloc_parent_domain");
	REFUSED(ibv_create_cq_ex(side->context, &attr));
	attr.parent_domain = side->pd; /* not a parent domain */
	REFUSED(ibv_create_cq_ex(side->context, &attr));
	attr.parent_domain = parent;
	cq = ibv_create_cq_ex(side->context, &attr);
	REQUIRE(cq, "ibv_create_cq_ex: %s", strerror(errno));
	REQUIRE(ibv_dealloc_pd(parent) == EBUSY, "a parent domain with a CQ is freed");
	REQUIRE(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0 && ibv_dealloc_pd(parent) == 0, "freeing");
}

/* Memory of the device: copied to and from, and a target like other memory. */
static void rule_09_device_memory(struct pair *pair)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct end *a = &pair->a;
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	char bytes[64];

	pair_make(pair, WITH());
	end_ready(a, a, 0);
	dm = ibv_alloc_dm(a->side->context, &attr);
	if (!dm)
		skip_because("ibv_alloc_dm: %s", strerror(errno));
	mr = ibv_reg_dm_mr(a->side->pd, dm, 0, 4096, ACCESS_ALL | IBV_ACCESS_ZERO_BASED);
	REQUIRE(mr, "ibv_reg_dm_mr: %s", strerror(errno));
	fill(a, 0, 64, 5);
	post_send(a, 0,
		  REQUEST(.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .remote = 100, .rkey = mr->rkey,
			  .length = 64));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	REQUIRE(ibv_memcpy_from_dm(bytes, dm, 100, 64) == 0, "ibv_memcpy_from_dm");
	REQUIRE(memcmp(bytes, a->side->buf, 64) == 0, "the WRITE is not in the device's memory");
	memset(bytes, 7, sizeof(bytes));
	REQUIRE(ibv_memcpy_to_dm(dm, 200, bytes, 64) == 0, "ibv_memcpy_to_dm");
	post_send(a, 0,
		  REQUEST(.wr_id = 2, .opcode = IBV_WR_RDMA_READ, .remote = 200, .rkey = mr->rkey,
			  .offset = 4096, .length = 64));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	REQUIRE(memcmp(bytes, a->side->buf + 4096, 64) == 0, "the READ brought something else");
	REQUIRE(ibv_memcpy_to_dm(dm, 4090, bytes, 64) != 0, "copying beyond the end");
	REQUIRE(ibv_free_dm(dm) != 0, "device memory with a region is freed");
	REQUIRE(ibv_dereg_mr(mr) == 0 && ibv_free_dm(dm) == 0, "freeing");
	attr.comp_mask = UNKNOWN_BITS;
	REFUSED(ibv_alloc_dm(a->side->context, &attr));
}

static const struct test tests[] = {
	HERE(rule_09_query_device_ex),
	HERE(rule_09_cq_ex_bad_arguments),
	HERE(rule_09_start_poll_family),
	HERE(rule_09_poll_while_building),
	HERE(rule_09_builders),
	HERE(rule_09_abort),
	HERE(rule_09_create_qp_ex_bad_arguments),
	HERE(rule_09_works_or_is_unsupported),
	HERE(rule_09_parent_domain),
	HERE(rule_09_cq_of_a_parent_domain),
	HERE(rule_09_device_memory),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
