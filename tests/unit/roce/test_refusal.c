/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that a responder refuses: NAK, both completions, both states, the async event (CONTRACT
 * 15 to 21).
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "roce/refusal.h"

#define BYTES 65536
#define RIGHTS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define MS 1000000ull

static struct rig rig;
static struct qp *a, *b;
static uint8_t here[BYTES] __attribute__((aligned(4096))),
	there[BYTES] __attribute__((aligned(4096)));
static struct mr *here_mr, *there_mr;

static void connect(enum ibv_qp_type type, uint32_t access)
{
	a = rig_qp(&rig, type);
	b = rig_qp(&rig, type);
	rig_connect(a, b,
		    &(struct rig_options){ .access = access,
					   .timeout = 12,
					   .retry_cnt = 1,
					   .rnr_retry = 7,
					   .min_rnr_timer = 12,
					   .rd_atomic = 2,
					   .psn = 77 });
}

static int setup(void **state)
{
	rig_create(&rig);
	memset(here, 0x11, BYTES);
	memset(there, 0xee, BYTES);
	here_mr = rig_mr(&rig, here, BYTES, RIGHTS);
	there_mr = rig_mr(&rig, there, BYTES, RIGHTS);
	return 0;
}

static void drop_qps(void)
{
	assert_int_equal(qp_destroy(a), 0);
	assert_int_equal(qp_destroy(b), 0);
}

static int teardown(void **state)
{
	assert_int_equal(mr_destroy(here_mr), 0);
	assert_int_equal(mr_destroy(there_mr), 0);
	rig_destroy(&rig);
	return 0;
}

/* The async event of a QP that was raised, or -1. */
static int take_event(struct qp *qp)
{
	struct list *pos, *after;
	int type = -1;

	lock_acquire(&rig.context->async_lock);
	list_for_each_safe(pos, after, &rig.context->async_pending) {
		struct async_event *event = list_entry(pos, struct async_event, link);

		if (event->event.element.qp == &qp->ib)
			type = (int)event->event.event_type;
	}
	lock_release(&rig.context->async_lock);
	return type;
}

struct request {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t bytes, offset; /* at the responder */
	uint32_t rkey;		/* added to the right one */
	uint32_t lkey;		/* likewise */
	uint32_t access;	/* of the responder's QP, taken away */
	uint32_t receive_bytes, receive_lkey;
	int status, receive_status, event;
};

#define NO_EVENT -1

static const struct request requests[] = {
	{ "write, key", IBV_WR_RDMA_WRITE, 8, 0, 1, 0, 0, 0, 0, IBV_WC_REM_ACCESS_ERR, 0,
	  IBV_EVENT_QP_ACCESS_ERR },
	{ "write, range", IBV_WR_RDMA_WRITE, 5000, BYTES - 4999, 0, 0, 0, 0, 0,
	  IBV_WC_REM_ACCESS_ERR, 0, IBV_EVENT_QP_ACCESS_ERR },
	{ "write, right", IBV_WR_RDMA_WRITE, 8, 0, 0, 0, IBV_ACCESS_REMOTE_WRITE, 0, 0,
	  IBV_WC_REM_ACCESS_ERR, 0, IBV_EVENT_QP_ACCESS_ERR },
	{ "read, key", IBV_WR_RDMA_READ, 8, 0, 1, 0, 0, 0, 0, IBV_WC_REM_ACCESS_ERR, 0,
	  IBV_EVENT_QP_ACCESS_ERR },
	{ "read, range", IBV_WR_RDMA_READ, 9000, BYTES - 8999, 0, 0, 0, 0, 0, IBV_WC_REM_ACCESS_ERR,
	  0, IBV_EVENT_QP_ACCESS_ERR },
	{ "read, right", IBV_WR_RDMA_READ, 8, 0, 0, 0, IBV_ACCESS_REMOTE_READ, 0, 0,
	  IBV_WC_REM_ACCESS_ERR, 0, IBV_EVENT_QP_ACCESS_ERR },
	{ "atomic, right", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, 0, 0, IBV_ACCESS_REMOTE_ATOMIC, 0, 0,
	  IBV_WC_REM_ACCESS_ERR, 0, IBV_EVENT_QP_ACCESS_ERR },
	{ "atomic, unaligned", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4, 0, 0, 0, 0, 0,
	  IBV_WC_REM_INV_REQ_ERR, 0, IBV_EVENT_QP_REQ_ERR },
	{ "send, receive too short", IBV_WR_SEND, 3000, 0, 0, 0, 0, 2999, 0, IBV_WC_REM_INV_REQ_ERR,
	  IBV_WC_LOC_LEN_ERR, NO_EVENT },
	{ "send, receive's key", IBV_WR_SEND, 3000, 0, 0, 0, 0, 3000, 1, IBV_WC_REM_OP_ERR,
	  IBV_WC_LOC_PROT_ERR, NO_EVENT },
	/* the responder says nothing (IBA 9.9.6.3, class J) */
	{ "send with invalidate", IBV_WR_SEND_WITH_INV, 8, 0, 0, 0, 0, 3000, 0,
	  IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_INV_REQ_ERR, NO_EVENT },
	{ "write with immediate, key", IBV_WR_RDMA_WRITE_WITH_IMM, 8, 0, 1, 0, 0, 3000, 0,
	  IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
	{ "send, own key", IBV_WR_SEND, 8, 0, 0, 1, 0, 3000, 0, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS,
	  NO_EVENT },
	{ "long send, own key", IBV_WR_SEND, 8000, 0, 0, 1, 0, 9000, 0, IBV_WC_LOC_PROT_ERR,
	  IBV_WC_SUCCESS, NO_EVENT },
	{ "read, own key", IBV_WR_RDMA_READ, 8, 0, 0, 1, 0, 0, 0, IBV_WC_LOC_PROT_ERR, 0,
	  NO_EVENT },
};

static void post(const struct request *request)
{
	struct ibv_sge sge = { (uintptr_t)here, request->bytes, here_mr->ib.lkey + request->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 3,
		.opcode = request->opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.invalidate_rkey = there_mr->ib.rkey,
	};

	if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)there + request->offset;
		wr.wr.atomic.rkey = there_mr->ib.rkey + request->rkey;
	} else if (request->opcode != IBV_WR_SEND_WITH_INV) {
		wr.wr.rdma.remote_addr = (uintptr_t)there + request->offset;
		wr.wr.rdma.rkey = there_mr->ib.rkey + request->rkey;
	}
	rig_post_send(a, &wr);
}

static void run_one(const struct request *request)
{
	bool local = request->status == IBV_WC_LOC_PROT_ERR;
	struct ibv_sge receive = { (uintptr_t)there, request->receive_bytes,
				   there_mr->ib.lkey + request->receive_lkey };
	struct ibv_send_wr empty = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_wc wc, sends[3] = { 0 };
	int received = -1;

	print_message("%s\n", request->name);
	memset(there, 0xee, BYTES);
	connect(IBV_QPT_RC, RIGHTS & ~request->access);
	if (request->receive_bytes)
		rig_post_receive(b, 9, &receive);
	if (!(request->access & IBV_ACCESS_REMOTE_WRITE))
		rig_post_send(a, &empty); /* what is before it is not disturbed */
	post(request);
	empty.wr_id = 4;
	rig_post_send(a, &empty);
	rig_run(rig_now_ns + 500 * MS);
	for (unsigned n = 0; !rig_is_quiet(&rig);) {
		wc = rig_completion(&rig);
		if (wc.wr_id == 9)
			received = (int)wc.status;
		else
			sends[n++] = wc;
	}
	if (!(request->access & IBV_ACCESS_REMOTE_WRITE)) {
		assert_int_equal(sends[0].wr_id, 1);
		assert_int_equal(sends[0].status, IBV_WC_SUCCESS);
		memmove(sends, sends + 1, 2 * sizeof(*sends));
	}
	assert_int_equal(sends[0].wr_id, 3);
	assert_int_equal(sends[0].status, request->status);
	assert_int_not_equal(sends[0].vendor_err, 0);
	assert_int_equal(sends[1].wr_id, 4);
	assert_int_equal(sends[1].status, IBV_WC_WR_FLUSH_ERR);
	if (request->receive_bytes && !local)
		assert_int_equal(received, request->receive_status);
	assert_int_equal(qp_state(a), IBV_QPS_ERR);
	assert_int_equal(qp_state(b), local ? IBV_QPS_RTS : IBV_QPS_ERR);
	assert_int_equal(take_event(a), NO_EVENT);
	assert_int_equal(take_event(b), request->event);
	if (request->opcode != IBV_WR_SEND && request->opcode != IBV_WR_SEND_WITH_INV)
		for (uint32_t i = 0; i < BYTES; i++)
			assert_int_equal(there[i], 0xee); /* nothing was written */
	drop_qps();
}

static void test_refusals(void **state)
{
	for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		run_one(&requests[i]);
}

/* Packets that no requester sends, at the responder of an RC and of a UC QP. */
struct oddity {
	const char *name;
	struct {
		uint8_t opcode; /* of RC; 0xff: end */
		uint16_t payload;
		uint32_t length; /* RETH */
	} packets[5];
	bool refused;  /* RC: NAK invalid request */
	bool received; /* UC: the receive completes */
};

#define END                                                                                        \
	{                                                                                          \
		0xff, 0, 0                                                                         \
	}

static const struct oddity oddities[] = {
	{ "MIDDLE without FIRST", { { 0x01, 1024, 0 }, END }, true, false },
	{ "LAST without FIRST", { { 0x02, 4, 0 }, END }, true, false },
	{ "FIRST in a message",
	  { { 0x00, 1024, 0 }, { 0x00, 1024, 0 }, { 0x02, 4, 0 }, END },
	  true,
	  true },
	{ "ONLY in a message", { { 0x00, 1024, 0 }, { 0x04, 8, 0 }, END }, true, true },
	{ "WRITE in a SEND", { { 0x00, 1024, 0 }, { 0x08, 8, 0 }, END }, true, false },
	{ "FIRST not full", { { 0x00, 1020, 0 }, END }, true, false },
	{ "ONLY too full", { { 0x04, 1028, 0 }, END }, true, false },
	{ "empty LAST", { { 0x00, 1024, 0 }, { 0x02, 0, 0 }, END }, true, false },
	{ "WRITE shorter than told", { { 0x0a, 100, 104 }, END }, true, false },
	{ "WRITE longer than told", { { 0x06, 1024, 1028 }, { 0x08, 8, 0 }, END }, true, false },
	{ "WRITE of 2 GiB", { { 0x06, 1024, 0x80000000 }, END }, true, false },
	{ "READ in a message", { { 0x00, 1024, 0 }, { 0x0c, 0, 8 }, END }, true, false },
	{ "too many READs", { { 0x0c, 0, 8 }, { 0x0c, 0, 8 }, { 0x0c, 0, 8 }, END }, true, false },
};

static void send_oddity(const struct oddity *oddity, uint8_t service)
{
	static const uint8_t payload[2048];
	uint32_t psn = 77;

	for (unsigned i = 0; oddity->packets[i].opcode != 0xff; i++) {
		struct packet packet = {
			.opcode = (uint8_t)(oddity->packets[i].opcode | service << 5),
			.psn = psn_of(psn++),
			.va = (uintptr_t)there,
			.rkey = there_mr->ib.rkey,
			.length = oddity->packets[i].length,
			.payload_bytes = oddity->packets[i].payload,
		};

		rig_inject(a, &packet, payload);
	}
	while (rig_step())
		;
	roce_flush();
}

static void test_odd_packets(void **state)
{
	for (unsigned i = 0; i < sizeof(oddities) / sizeof(oddities[0]); i++) {
		const struct oddity *oddity = &oddities[i];
		struct ibv_sge receive = { (uintptr_t)there, 4096, there_mr->ib.lkey };
		struct packet last = { 0 };

		print_message("%s\n", oddity->name);
		connect(IBV_QPT_RC, RIGHTS);
		rig_post_receive(b, 9, &receive);
		send_oddity(oddity, PACKET_RC);
		assert_true(rig_waiting() > 0);
		last = rig_peek(rig_waiting() - 1);
		assert_int_equal(last.opcode, 0x11);
		assert_int_equal(last.syndrome, PACKET_SYNDROME_NAK | PACKET_NAK_INVALID_REQUEST);
		assert_int_equal(qp_state(b), IBV_QPS_ERR);
		assert_int_equal(take_event(b), IBV_EVENT_QP_REQ_ERR);
		rig_run(rig_now_ns + MS);
		while (!rig_is_quiet(&rig))
			rig_completion(&rig);
		drop_qps();

		if (oddity->packets[0].opcode == 0x0c)
			continue; /* UC has none */
		connect(IBV_QPT_UC, RIGHTS);
		rig_post_receive(b, 9, &receive);
		send_oddity(oddity, PACKET_UC);
		assert_int_equal(rig_waiting(), 0);
		assert_int_equal(qp_state(b), IBV_QPS_RTS);
		assert_int_equal(!rig_is_quiet(&rig), oddity->received);
		while (!rig_is_quiet(&rig))
			assert_int_equal(rig_completion(&rig).status, IBV_WC_SUCCESS);
		drop_qps();
	}
}

/* From another address, for another service, to no QP: ignored. */
static bool from_elsewhere(struct rig_packet *packet, struct packet *decoded)
{
	packet->flow.remote[15] ^= 1;
	return true;
}

static void test_strangers(void **state)
{
	struct packet packet = { .opcode = 0x0a,
				 .psn = { 77 },
				 .va = (uintptr_t)there,
				 .rkey = there_mr->ib.rkey,
				 .length = 8,
				 .payload_bytes = 8 };

	connect(IBV_QPT_RC, RIGHTS);
	rig_on_packet = from_elsewhere;
	rig_inject(a, &packet, here);
	rig_run(rig_now_ns + MS);
	rig_on_packet = NULL;
	packet.opcode = 0x2a;
	rig_inject(a, &packet, here);
	rig_run(rig_now_ns + MS);
	assert_int_equal(there[0], 0xee);
	packet.opcode = 0x0a;
	rig_inject(a, &packet, here);
	rig_run(rig_now_ns + MS);
	assert_int_equal(there[0], 0x11);
	drop_qps();
}

/* Past PSNs are easily guessed: a forbidden READ with such a PSN ends no connection. */
static void test_forged_repetition(void **state)
{
	const struct request read = { .opcode = IBV_WR_RDMA_READ, .bytes = 3000 };
	struct packet forged = { .opcode = 0x0c,
				 .psn = { 77 },
				 .va = (uintptr_t)there,
				 .rkey = there_mr->ib.rkey + 1,
				 .length = 8 };

	connect(IBV_QPT_RC, RIGHTS);
	post(&read);
	rig_run(rig_now_ns + MS);
	assert_int_equal(rig_completion(&rig).status, IBV_WC_SUCCESS);
	rig_inject(a, &forged, NULL);
	forged.rkey = there_mr->ib.rkey;
	forged.va += BYTES - 4;
	rig_inject(a, &forged, NULL);
	while (rig_step())
		;
	roce_flush();
	assert_int_equal(rig_waiting(), 0);
	assert_int_equal(qp_state(b), IBV_QPS_RTS);
	assert_int_equal(take_event(b), NO_EVENT);
	/* a permitted READ is repeated */
	forged.va = (uintptr_t)there;
	rig_inject(a, &forged, NULL);
	assert_true(rig_step());
	roce_flush();
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).opcode, 0x10);
	rig_run(rig_now_ns + MS);
	post(&read);
	rig_run(rig_now_ns + MS);
	assert_int_equal(rig_completion(&rig).status, IBV_WC_SUCCESS);
	drop_qps();
}

/* Each reaction that ends a connection sends a NAK, except class J; UC sends none. */
static void test_table(void **state)
{
	for (int v = 0; v < VERDICTS; v++) {
		const struct reaction *rc = verdict_reaction(v, VERDICT_RC);
		const struct reaction *uc = verdict_reaction(v, VERDICT_UC);

		enum ibv_wc_status status = verdict_requester_status(rc->refusal);

		assert_int_equal(uc->refusal, REFUSAL_SILENT);
		assert_int_equal(rc->fails_qp && v != VERDICT_INVALIDATE, status != IBV_WC_SUCCESS);
		if (status != IBV_WC_SUCCESS) {
			uint8_t syndrome = refusal_syndrome(rc->refusal);

			assert_int_equal(syndrome & PACKET_SYNDROME_MASK, PACKET_SYNDROME_NAK);
			assert_int_equal(refusal_status(syndrome), status);
		}
	}
	assert_int_equal(refusal_status(PACKET_SYNDROME_NAK | PACKET_NAK_SEQUENCE), IBV_WC_SUCCESS);
	assert_int_equal(refusal_status(PACKET_SYNDROME_NAK | 31), IBV_WC_SUCCESS);
}

static bool lose_all(struct rig_packet *packet, struct packet *decoded)
{
	return false;
}

/* rxe refuses a READ that it has begun to answer, as its key has ended, at the READ's first PSN. */
static void test_read_that_was_begun(void **state)
{
	const struct request read = { .opcode = IBV_WR_RDMA_READ, .bytes = 4096 };
	struct packet nak = { .opcode = 0x11,
			      .psn = { 77 },
			      .syndrome = PACKET_SYNDROME_NAK | PACKET_NAK_REMOTE_ACCESS };

	connect(IBV_QPT_RC, RIGHTS);
	post(&read);
	assert_true(rig_step()); /* b has the request */
	roce_flush();
	assert_int_equal(rig_waiting(), 4);
	assert_true(rig_step() && rig_step());
	assert_true(rig_is_quiet(&rig));
	rig_on_packet = lose_all;
	assert_true(rig_step() && rig_step());
	rig_on_packet = NULL;
	rig_inject(b, &nak, NULL);
	assert_true(rig_step());
	assert_int_equal(rig_completion(&rig).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(qp_state(a), IBV_QPS_ERR);
	drop_qps();
}

/* A QP that its program has moved to ERR owes no NAK any more: the other end would count it. */
static void test_refusal_of_a_moved_qp(void **state)
{
	const struct request send = { .opcode = IBV_WR_SEND, .bytes = 8 };

	connect(IBV_QPT_RC, RIGHTS);
	post(&send);
	assert_true(rig_step()); /* b has no receive */
	rig_modify(b, IBV_QPS_ERR);
	roce_flush();
	assert_int_equal(rig_waiting(), 0);
	drop_qps();
	assert_true(rig_is_quiet(&rig));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		TEST(refusals),
		TEST(odd_packets),
		TEST(strangers),
		TEST(forged_repetition),
		TEST(table),
		TEST(read_that_was_begun),
		TEST(refusal_of_a_moved_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
