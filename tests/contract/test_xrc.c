/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC: domains, XRC_SEND and XRC_RECV QPs, and the SRQs that requests name. Rule 9 of the contract.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "events.h"

#define TARGETS 2 /* SRQs of a target, each with a CQ: in the places of SENDS and RECEIVES */
#define BUFFER	(1u << 20)

/* What the tests of one end keep beside its side; each end is a process or a thread of its own. */
struct xrc {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq[TARGETS];
};

/* The receiving end: a domain, two SRQs (of the side's two PDs), `qps` QPs. */
struct op_target {
	int qps, fd;
	bool none;
	uint32_t qpn[QPS_MAX], srqn[TARGETS];
	struct xrc *xrc; /* of use in its process only */
};

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, int fd, int oflags)
{
	struct ibv_xrcd_init_attr init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = fd,
					   .oflags = oflags };

	errno = 0;
	return ibv_open_xrcd(context, &init);
}

static struct ibv_srq *make_srq(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex init = { .attr = { .max_wr = 64, .max_sge = 4 },
					     .comp_mask =
						     IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					     .srq_type = IBV_SRQT_XRC,
					     .pd = pd,
					     .xrcd = xrcd,
					     .cq = cq };

	return ibv_create_srq_ex(pd->context, &init);
}

static struct ibv_qp *make_target(struct ibv_context *context, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					    .xrcd = xrcd };

	return ibv_create_qp_ex(context, &init);
}

static struct ibv_qp *make_initiator(struct side *side)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = side->cq[SENDS],
		.cap = { .max_send_wr = 64, .max_send_sge = 4, .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = side->pd
	};

	return ibv_create_qp_ex(side->context, &init);
}

static void op_target(struct side *side, void *argument)
{
	struct op_target *op = argument;
	struct xrc *xrc = calloc(1, sizeof(*xrc));

	xrc->xrcd = open_xrcd(side->context, op->fd, O_CREAT);
	op->none = !xrc->xrcd && errno == EOPNOTSUPP;
	if (op->none)
		return;
	REQUIRE(xrc->xrcd, "ibv_open_xrcd: %s", strerror(errno));
	for (int i = 0; i < TARGETS; i++) {
		xrc->srq[i] = make_srq(i ? side->other_pd : side->pd, xrc->xrcd, side->cq[i]);
		REQUIRE(xrc->srq[i], "ibv_create_srq_ex: %s", strerror(errno));
		REQUIRE(ibv_get_srq_num(xrc->srq[i], &op->srqn[i]) == 0, "ibv_get_srq_num");
	}
	side->options.type = IBV_QPT_XRC_RECV;
	side->options.qps = op->qps;
	for (int i = 0; i < op->qps; i++) {
		side->qp[i] = make_target(side->context, xrc->xrcd);
		REQUIRE(side->qp[i], "XRC_RECV QP: %s", strerror(errno));
		op->qpn[i] = side->qp[i]->qp_num;
	}
	op->xrc = xrc;
}

static void op_initiator(struct side *side, void *argument)
{
	struct op_target *op = argument;

	side->options.type = IBV_QPT_XRC_SEND;
	side->options.qps = op->qps;
	for (int i = 0; i < op->qps; i++) {
		side->qp[i] = make_initiator(side);
		REQUIRE(side->qp[i], "XRC_SEND QP: %s", strerror(errno));
		op->qpn[i] = side->qp[i]->qp_num;
	}
}

/* `a` sends to `b`, over `qps` connections. */
static struct op_target connect_xrc(struct pair *pair, int qps, const struct options *options)
{
	struct op_target target = { .qps = qps, .fd = -1 }, initiator = target;

	pair_make(pair, options);
	RUN(&pair->b, op_target, &target);
	if (target.none)
		skip_because("no XRC");
	RUN(&pair->a, op_initiator, &initiator);
	memcpy(pair->a.qpn, initiator.qpn, sizeof(initiator.qpn));
	memcpy(pair->b.qpn, target.qpn, sizeof(target.qpn));
	for (int i = 0; i < qps; i++) {
		end_ready(&pair->a, &pair->b, i);
		end_ready(&pair->b, &pair->a, i);
	}
	return target;
}

/* Which SRQ the next receives of the end are posted to. */
struct op_use {
	struct xrc *xrc;
	int srq, result;
};

static void op_use(struct side *side, void *argument)
{
	struct op_use *op = argument;

	side->srq = op->xrc->srq[op->srq];
}

static void post_to(struct end *end, const struct op_target *target, int srq,
		    struct receive receive)
{
	struct op_use op = { .xrc = target->xrc, .srq = srq };

	RUN(end, op_use, &op);
	post_receive(end, -1, receive);
}

/* The SRQ that a SEND names gets it, with a completion in that SRQ's CQ that names the QP. */
static void rule_09_xrc_send(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 2, WITH(.qps = 0));

	fill(a, 0, BUFFER, 5);
	for (int i = 0; i < 8; i++) {
		int srq = i / 2 % 2, qp = i % 2;
		uint32_t length = i == 7 ? 300000 : 1 + 64 * i;
		struct ibv_wc wc;

		fill(b, 0, BUFFER, 0);
		if (srq) /* of the other PD, which has no region: empty receives will do */
			length = 0;
		post_to(b, &target, srq, RECEIVE(.wr_id = 50 + i, .length = length));
		post_send(a, qp,
			  REQUEST(.wr_id = i, .opcode = IBV_WR_SEND_WITH_IMM, .imm = htonl(i),
				  .length = length, .srqn = target.srqn[srq]));
		expect(a, SENDS, i, IBV_WC_SUCCESS);
		wc = expect(b, srq ? RECEIVES : SENDS, 50 + i, IBV_WC_SUCCESS);
		REQUIRE(wc.qp_num == b->qpn[qp], "qp_num 0x%x", wc.qp_num);
		REQUIRE(wc.src_qp == a->qpn[qp], "src_qp 0x%x", wc.src_qp);
		REQUIRE(wc.opcode == IBV_WC_RECV && wc.byte_len == length, "%u bytes", wc.byte_len);
		REQUIRE(wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == htonl(i),
			"immediate data");
		expect_bytes(b, 0, length, 5);
	}
	expect_no_async(a);
	expect_no_async(b);
}

static void rule_09_xrc_memory(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 1, WITH(.qps = 0));
	uint32_t srqn = target.srqn[0];

	fill(a, 0, 400000, 6);
	fill(b, 0, BUFFER, 0);
	post_send(a, 0, WRITE(b, 0, .wr_id = 1, .length = 400000, .srqn = srqn));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(b, 0, 400000, 6);
	fill(a, 0, 400000, 0);
	post_send(a, 0, READ(b, 0, .wr_id = 2, .length = 400000, .srqn = srqn));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect_bytes(a, 0, 400000, 6);
	poke(b, 64, 40);
	post_send(a, 0, FETCH_ADD(b, 64, .wr_id = 3, .compare_add = 2, .srqn = srqn));
	expect(a, SENDS, 3, IBV_WC_SUCCESS);
	REQUIRE(peek(a, 0) == 40 && peek(b, 64) == 42, "FETCH_ADD");
	post_send(a, 0, CMP_SWP(b, 64, .wr_id = 4, .compare_add = 42, .swap = 7, .srqn = srqn));
	expect(a, SENDS, 4, IBV_WC_SUCCESS);
	REQUIRE(peek(a, 0) == 42 && peek(b, 64) == 7, "CMP_SWP");
	post_to(b, &target, 0, RECEIVE(.wr_id = 50));
	fill(a, 0, 64, 8);
	post_send(a, 0, WRITE_IMM(b, 128, .wr_id = 5, .length = 64, .imm = htonl(9), .srqn = srqn));
	expect(a, SENDS, 5, IBV_WC_SUCCESS);
	REQUIRE(expect(b, SENDS, 50, IBV_WC_SUCCESS).opcode == IBV_WC_RECV_RDMA_WITH_IMM, "opcode");
	expect_bytes(b, 128, 64, 8);
}

/* The protection domain of what a request does is that of the SRQ it names. */
static void rule_17_xrc_pd_of_the_srq(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 2, WITH(.qps = 0));
	struct op_region region = add_region(b, (struct op_region){ .other_pd = true,
								    .offset = 4096,
								    .length = 4096,
								    .access = ACCESS_ALL });

	fill(b, 0, BUFFER, 0);
	fill(a, 0, 64, 3);
	post_send(a, 0,
		  WRITE(b, 4096, .wr_id = 1, .length = 64, .rkey = region.rkey,
			.srqn = target.srqn[1]));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(b, 4096, 64, 3);
	/* two READs of different PDs at once, whose answers overlap */
	post_send(a, 0,
		  READ(b, 0, .wr_id = 2, .length = 200000, .offset = 8192, .srqn = target.srqn[0]));
	post_send(a, 0,
		  READ(b, 4096, .wr_id = 3, .length = 64, .rkey = region.rkey,
		       .srqn = target.srqn[1]));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(a, SENDS, 3, IBV_WC_SUCCESS);
	post_send(a, 0, WRITE(b, 4096, .wr_id = 4, .length = 64, .srqn = target.srqn[1]));
	expect(a, SENDS, 4, IBV_WC_REM_ACCESS_ERR);
	expect_async(b, 0, IBV_EVENT_QP_ACCESS_ERR);
	expect_state(b, 0, IBV_QPS_ERR);
	post_send(a, 1,
		  WRITE(b, 4096, .wr_id = 5, .length = 64, .rkey = region.rkey,
			.srqn = target.srqn[0]));
	expect(a, SENDS, 5, IBV_WC_REM_ACCESS_ERR);
	expect_bytes(b, 4096, 64, 3);
}

static void rule_17_xrc_unknown_srq(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 2, WITH(.qps = 0));

	post_to(b, &target, 0, RECEIVE(.wr_id = 50, .length = 64));
	post_send(a, 0, SEND(.wr_id = 1, .length = 8, .srqn = target.srqn[1] + 1000));
	expect(a, SENDS, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_async(b, 0, IBV_EVENT_QP_REQ_ERR);
	post_send(a, 1, SEND(.wr_id = 2, .length = 8, .srqn = target.srqn[0] ^ 0x10000));
	expect(a, SENDS, 2, IBV_WC_REM_INV_REQ_ERR);
	expect_none(b, SENDS); /* the receive is still there */
}

struct op_other {
	uint32_t srqn;
};

static void op_other_domain(struct side *side, void *argument)
{
	struct op_other *op = argument;
	struct ibv_xrcd *xrcd = open_xrcd(side->context, -1, O_CREAT);
	struct ibv_srq *srq = make_srq(side->pd, xrcd, side->cq[0]);

	REQUIRE(srq && ibv_get_srq_num(srq, &op->srqn) == 0, "ibv_get_srq_num");
}

static void rule_17_xrc_srq_of_another_domain(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_other other;

	connect_xrc(pair, 1, WITH(.qps = 0));
	RUN(b, op_other_domain, &other);
	post_send(a, 0, SEND(.wr_id = 1, .length = 8, .srqn = other.srqn));
	expect(a, SENDS, 1, IBV_WC_REM_INV_REQ_ERR);
}

struct op_number {
	uint32_t srqn;
};

static void op_number(struct side *side, void *argument)
{
	struct op_number *op = argument;
	struct ibv_srq *srq =
		make_srq(side->pd, open_xrcd(side->context, -1, O_CREAT), side->cq[0]);

	REQUIRE(srq && ibv_get_srq_num(srq, &op->srqn) == 0, "ibv_get_srq_num");
}

/* Nor of another process, whose SRQs have other numbers: its messages reach no other SRQ. */
static void rule_17_xrc_srq_of_the_sender(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 1, WITH(.qps = 0));
	struct op_number own;

	if (memcmp(&a->gid, &b->gid, sizeof(a->gid)))
		skip_because("two hosts");
	RUN(a, op_number, &own);
	REQUIRE(own.srqn != target.srqn[0] && own.srqn != target.srqn[1], "SRQ 0x%x twice",
		own.srqn);
	post_to(b, &target, 0, RECEIVE(.wr_id = 50, .length = 64));
	post_send(a, 0, SEND(.wr_id = 1, .length = 8, .srqn = own.srqn));
	expect(a, SENDS, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_none(b, SENDS);
}

static void rule_21_xrc_empty_srq_is_rnr(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 1, WITH(.qps = 0, .rnr_retry = 7));

	post_to(b, &target, 1, RECEIVE(.wr_id = 51)); /* the other SRQ's does not help */
	post_send(a, 0, SEND(.wr_id = 1, .length = 64, .srqn = target.srqn[0]));
	expect_none(a, SENDS);
	post_to(b, &target, 0, RECEIVE(.wr_id = 50, .length = 64));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, SENDS, 50, IBV_WC_SUCCESS);
}

static void rule_18_xrc_receive_too_short(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 1, WITH(.qps = 0));

	post_to(b, &target, 0, RECEIVE(.wr_id = 50, .length = 32));
	post_send(a, 0, SEND(.wr_id = 1, .length = 64, .srqn = target.srqn[0]));
	expect(a, SENDS, 1, IBV_WC_REM_INV_REQ_ERR);
	expect(b, SENDS, 50, IBV_WC_LOC_LEN_ERR);
}

static void op_destroy_srq(struct side *side, void *argument)
{
	struct op_use *op = argument;

	op->result = ibv_destroy_srq(op->xrc->srq[op->srq]);
}

/* Completions outlive their SRQ; its number is unknown from then on. */
static void rule_09_xrc_destroy_srq(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 1, WITH(.qps = 0));
	struct op_use use = { .xrc = target.xrc, .srq = 0 };

	post_to(b, &target, 0, RECEIVE(.wr_id = 50, .length = 64));
	post_send(a, 0, SEND(.wr_id = 1, .length = 64, .srqn = target.srqn[0]));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	RUN(b, op_destroy_srq, &use);
	REQUIRE(use.result == 0, "ibv_destroy_srq: %s", strerror(use.result));
	expect(b, SENDS, 50, IBV_WC_SUCCESS);
	post_send(a, 0, SEND(.wr_id = 2, .length = 64, .srqn = target.srqn[0]));
	expect(a, SENDS, 2, IBV_WC_REM_INV_REQ_ERR);
}

static void rule_14_xrc_reset_and_again(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	/* an RNR timer of 655 ms: no attempt of the first connection may come to the second */
	struct op_target target = connect_xrc(pair, 1, WITH(.qps = 0, .min_rnr_timer = 0));

	post_send(a, 0, SEND(.wr_id = 1, .length = 64, .srqn = target.srqn[0]));
	expect_none(a, SENDS); /* it has arrived: the next connection has the same PSNs */
	for (struct end *end = a; end; end = end == a ? b : NULL)
		REQUIRE(end_move(end, end == a ? b : a, 0, IBV_QPS_ERR) == 0, "ERR");
	expect(a, SENDS, 1, IBV_WC_WR_FLUSH_ERR);
	for (struct end *end = a; end; end = end == a ? b : NULL) {
		REQUIRE(end_move(end, end == a ? b : a, 0, IBV_QPS_RESET) == 0, "RESET");
		end_ready(end, end == a ? b : a, 0);
	}
	post_to(b, &target, 0, RECEIVE(.wr_id = 50, .length = 64));
	post_send(a, 0, SEND(.wr_id = 2, .length = 64, .srqn = target.srqn[0]));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, SENDS, 50, IBV_WC_SUCCESS);
}

/* One file is one domain for all that open it; O_CREAT and O_EXCL are those of open(2). */
static void rule_09_xrc_domain_by_file(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct side *side;
	struct ibv_xrcd *first, *second;
	struct ibv_srq *srq;
	uint32_t srqn;
	struct op_target initiator = { .qps = 1 };
	char name[] = "/tmp/contract-xrc-XXXXXX";
	int fd = mkstemp(name), again = open(name, O_RDONLY);

	REQUIRE(fd >= 0 && again >= 0, "mkstemp");
	unlink(name);
	pair_make(pair, WITH(.qps = 0));
	side = b->side;
	first = open_xrcd(side->context, fd, 0);
	if (!first && errno == EOPNOTSUPP)
		skip_because("no XRC");
	REQUIRE(!first, "a domain that is not there");
	first = open_xrcd(side->context, fd, O_CREAT | O_EXCL);
	REQUIRE(first, "O_CREAT | O_EXCL: %s", strerror(errno));
	REQUIRE(!open_xrcd(side->context, again, O_CREAT | O_EXCL), "O_EXCL of one that is there");
	second = open_xrcd(a->side->context, again, 0);
	REQUIRE(second, "another descriptor, another context: %s", strerror(errno));
	REQUIRE(!open_xrcd(side->context, 987, O_CREAT), "a bad descriptor");

	/* the SRQ by way of one, the QP by way of the other */
	srq = make_srq(side->pd, first, side->cq[0]);
	REQUIRE(srq && ibv_get_srq_num(srq, &srqn) == 0, "SRQ: %s", strerror(errno));
	RUN(a, op_initiator, &initiator);
	a->qpn[0] = initiator.qpn[0];
	side->options.type = IBV_QPT_XRC_RECV;
	side->qp[0] = make_target(a->side->context, second);
	REQUIRE(side->qp[0], "XRC_RECV QP: %s", strerror(errno));
	b->qpn[0] = side->qp[0]->qp_num;
	end_ready(a, b, 0);
	end_ready(b, a, 0);
	side->srq = srq;
	post_receive(b, -1, RECEIVE(.wr_id = 50, .length = 64));
	post_send(a, 0, SEND(.wr_id = 1, .length = 64, .srqn = srqn));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, SENDS, 50, IBV_WC_SUCCESS);

	REQUIRE(ibv_close_xrcd(first) == EBUSY && ibv_close_xrcd(second) == EBUSY, "in use");
	REQUIRE(ibv_destroy_cq(side->cq[0]) == EBUSY, "the CQ of an SRQ");
	REQUIRE(ibv_destroy_qp(side->qp[0]) == 0 && ibv_destroy_srq(srq) == 0, "destroying");
	REQUIRE(ibv_close_xrcd(first) == 0 && ibv_close_xrcd(second) == 0, "closing");
	REQUIRE(!open_xrcd(side->context, fd, 0), "it is gone with its last user");
	REQUIRE(ibv_destroy_cq(side->cq[0]) == 0, "ibv_destroy_cq");
}

static struct ibv_qp *open_qp(struct ibv_context *context, struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_CONTEXT |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .qp_num = qpn,
					 .xrcd = xrcd,
					 .qp_context = &attr,
					 .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp *qp = ibv_open_qp(context, &attr);

	if (qp)
		REQUIRE(qp->qp_context == &attr && qp->qp_num == qpn && qp->context == context,
			"the handle's fields");
	return qp;
}

/* The QP lives as long as one of its handles does. */
static void rule_09_xrc_open_qp(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 1, WITH(.qps = 0));
	struct side *side = b->side;
	struct ibv_xrcd *other = open_xrcd(side->context, -1, O_CREAT);
	struct ibv_qp *handle, *first = side->qp[0];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	REQUIRE(!open_qp(side->context, other, b->qpn[0]), "a QP of another domain");
	REQUIRE(!open_qp(side->context, target.xrc->xrcd, a->qpn[0]), "an XRC_SEND QP");
	handle = open_qp(side->context, target.xrc->xrcd, b->qpn[0]);
	REQUIRE(handle, "ibv_open_qp: %s", strerror(errno));
	REQUIRE(ibv_query_qp(handle, &attr, IBV_QP_STATE, &init) == 0 &&
			attr.qp_state == IBV_QPS_RTS && init.qp_context == handle->qp_context,
		"its state and context");
	REQUIRE(ibv_destroy_qp(first) == 0, "ibv_destroy_qp");
	post_to(b, &target, 0, RECEIVE(.wr_id = 50, .length = 64));
	post_send(a, 0, SEND(.wr_id = 1, .length = 64, .srqn = target.srqn[0]));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, SENDS, 50, IBV_WC_SUCCESS);
	attr.qp_state = IBV_QPS_ERR;
	REQUIRE(ibv_modify_qp(handle, &attr, IBV_QP_STATE) == 0, "ibv_modify_qp");
	REQUIRE(ibv_close_xrcd(target.xrc->xrcd) == EBUSY, "the domain is in use");
	REQUIRE(ibv_destroy_qp(handle) == 0, "the last handle");
	for (int i = 0; i < TARGETS; i++)
		REQUIRE(ibv_destroy_srq(target.xrc->srq[i]) == 0, "ibv_destroy_srq");
	REQUIRE(ibv_close_xrcd(target.xrc->xrcd) == 0, "ibv_close_xrcd");
	REQUIRE(!open_qp(side->context, other, b->qpn[0]), "a QP that is gone");
}

static void take_async(struct ibv_context *context, struct ibv_async_event *event)
{
	REQUIRE(readable(context->async_fd, WAIT_MS), "no async event");
	REQUIRE(ibv_get_async_event(context, event) == 0, "ibv_get_async_event");
	REQUIRE(event->event_type == IBV_EVENT_QP_ACCESS_ERR, "event %d", event->event_type);
	ibv_ack_async_event(event);
}

/* Each handle that the program has gets the QP's events, and none that it has closed. */
static void rule_31_xrc_events_of_each_handle(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 1, WITH(.qps = 0));
	struct ibv_context *context = b->side->context;
	struct ibv_qp *first = b->side->qp[0], *one, *other;
	struct ibv_async_event events[2];

	one = open_qp(context, target.xrc->xrcd, b->qpn[0]);
	other = open_qp(context, target.xrc->xrcd, b->qpn[0]);
	REQUIRE(one && other && ibv_destroy_qp(first) == 0, "the handles");
	post_send(a, 0, WRITE(b, 0, .wr_id = 1, .length = 64, .rkey = 1, .srqn = target.srqn[0]));
	expect(a, SENDS, 1, IBV_WC_REM_ACCESS_ERR);
	take_async(context, &events[0]);
	take_async(context, &events[1]);
	REQUIRE((events[0].element.qp == one && events[1].element.qp == other) ||
			(events[0].element.qp == other && events[1].element.qp == one),
		"the events are of other handles");
	REQUIRE(!readable(context->async_fd, QUIET_MS), "one more event");
	REQUIRE(ibv_destroy_qp(one) == 0 && ibv_destroy_qp(other) == 0, "ibv_destroy_qp");
}

/* The parent has fetched an event of a handle, which the child puts away. */
static void rule_32_xrc_handles_of_a_child(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_target target = connect_xrc(pair, 1, WITH(.qps = 0));
	struct ibv_context *context = b->side->context;
	struct ibv_qp *handle = open_qp(context, target.xrc->xrcd, b->qpn[0]);
	struct ibv_async_event event, other;
	int status;
	pid_t pid;

	REQUIRE(handle, "ibv_open_qp");
	post_send(a, 0, WRITE(b, 0, .wr_id = 1, .length = 64, .rkey = 1, .srqn = target.srqn[0]));
	expect(a, SENDS, 1, IBV_WC_REM_ACCESS_ERR);
	REQUIRE(readable(context->async_fd, WAIT_MS) && ibv_get_async_event(context, &event) == 0 &&
			ibv_get_async_event(context, &other) == 0,
		"the events of both handles");
	pid = fork();
	REQUIRE(pid >= 0, "fork");
	if (pid == 0) {
		runner_become_peer();
		alarm(10 * (unsigned int)patience());
		REQUIRE(ibv_destroy_qp(handle) == 0 && ibv_destroy_qp(b->side->qp[0]) == 0,
			"ibv_destroy_qp in the child");
		_exit(0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid && status == 0, "the child: status 0x%x", status);
	ibv_ack_async_event(&event);
	ibv_ack_async_event(&other);
	REQUIRE(ibv_destroy_qp(handle) == 0, "ibv_destroy_qp");
}

static void rule_09_xrc_bad_arguments(struct pair *pair)
{
	struct op_target target = connect_xrc(pair, 1, WITH(.qps = 0));
	struct side *a = pair->a.side, *b = pair->b.side;
	struct ibv_srq_init_attr_ex srq = { .attr = { .max_wr = 4, .max_sge = 1 },
					    .comp_mask =
						    IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					    .srq_type = IBV_SRQT_XRC,
					    .pd = b->pd };
	struct ibv_qp_init_attr_ex qp = { .qp_type = IBV_QPT_XRC_RECV,
					  .comp_mask = IBV_QP_INIT_ATTR_PD,
					  .pd = b->pd };
	struct ibv_qp_init_attr rc = { .qp_type = IBV_QPT_RC,
				       .send_cq = b->cq[0],
				       .recv_cq = b->cq[0],
				       .srq = target.xrc->srq[0] };
	struct ibv_srq_init_attr basic_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_recv_wr receive = { 0 }, *bad_receive;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_srq *basic = ibv_create_srq(b->pd, &basic_init);
	uint32_t number;

	REQUIRE(!ibv_create_srq_ex(b->context, &srq), "an XRC SRQ without domain and CQ");
	REQUIRE(!ibv_create_qp_ex(b->context, &qp), "an XRC_RECV QP without domain");
	REQUIRE(!ibv_create_qp(b->pd, &rc), "an RC QP with an XRC SRQ");
	REQUIRE(basic && ibv_get_srq_num(basic, &number) != 0, "the number of a basic SRQ");
	REQUIRE(ibv_post_recv(a->qp[0], &receive, &bad_receive) != 0, "a receive on XRC_SEND");
	REQUIRE(ibv_post_recv(b->qp[0], &receive, &bad_receive) != 0, "a receive on XRC_RECV");
	REQUIRE(ibv_post_send(b->qp[0], &send, &bad_send) != 0, "a send on XRC_RECV");
}

static const struct test tests[] = {
	EVERY(rule_09_xrc_send),
	PAIR(rule_09_xrc_memory),
	PAIR(rule_17_xrc_pd_of_the_srq),
	PAIR(rule_17_xrc_unknown_srq),
	PAIR(rule_17_xrc_srq_of_another_domain),
	PAIR(rule_17_xrc_srq_of_the_sender),
	PAIR(rule_21_xrc_empty_srq_is_rnr),
	PAIR(rule_18_xrc_receive_too_short),
	PAIR(rule_09_xrc_destroy_srq),
	PAIR(rule_14_xrc_reset_and_again),
	HERE(rule_09_xrc_domain_by_file),
	HERE(rule_09_xrc_open_qp),
	HERE(rule_31_xrc_events_of_each_handle),
	HERE(rule_32_xrc_handles_of_a_child),
	HERE(rule_09_xrc_bad_arguments),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
