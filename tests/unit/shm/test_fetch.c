/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long messages that the responder fetches from the requester's memory: what it copies and refuses,
 * when it has a hazard, and how much one turn takes.
 */
#include "rendezvous_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "execute/execute.h"
#include "execute/receive.h"
#include "memory/heap.h"
#include "object/mw.h"
#include "shm/progress.h"

static void (*during_copy)(void);
/* wrong: calls with a hazard too few or too many; counted, as locks are held there */
static uint32_t copies, maps, wrong;

static unsigned hazards(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < ARENA_HAZARDS; i++) {
		uint64_t what = arena_hazard(rig.arena, i)->what;

		count += what == ((uint64_t)FAR_SLOT << 32 | FAR_KEY);
	}
	return count;
}

enum verdict __real_receive_deliver(struct qp *qp, size_t offset, const void *from, size_t bytes,
				    enum cause *cause);
enum verdict __wrap_receive_deliver(struct qp *qp, size_t offset, const void *from, size_t bytes,
				    enum cause *cause);

/* What is not in the ring is copied under a hazard. */
static void on_copy(const void *from)
{
	const char *at = from;
	bool in_ring =
		at >= far.link->rx.data && at < far.link->rx.data + RING_BYTES + RECORD_BYTES_MAX;

	wrong += hazards() != (in_ring ? 0 : 1);
	copies += !in_ring;
	if (during_copy)
		during_copy();
}

enum verdict __wrap_receive_deliver(struct qp *of, size_t offset, const void *from, size_t bytes,
				    enum cause *cause)
{
	on_copy(from);
	return __real_receive_deliver(of, offset, from, bytes, cause);
}

enum verdict __real_execute_write(struct qp *of, const struct remote_range *range,
				  const struct iovec *pieces, int count, uint32_t bytes,
				  enum cause *cause);
enum verdict __wrap_execute_write(struct qp *of, const struct remote_range *range,
				  const struct iovec *pieces, int count, uint32_t bytes,
				  enum cause *cause);

enum verdict __wrap_execute_write(struct qp *of, const struct remote_range *range,
				  const struct iovec *pieces, int count, uint32_t bytes,
				  enum cause *cause)
{
	on_copy(pieces->iov_base);
	return __real_execute_write(of, range, pieces, count, bytes, cause);
}

void __real_receive_complete(struct qp *of, const struct receive_end *end);
void __wrap_receive_complete(struct qp *of, const struct receive_end *end);

/* A requester that knows of success may end its key at once. */
void __wrap_receive_complete(struct qp *of, const struct receive_end *end)
{
	wrong += hazards() != 0;
	__real_receive_complete(of, end);
}

char *__real_heap_map(struct heap *of, uint64_t offset, size_t *bytes);
char *__wrap_heap_map(struct heap *of, uint64_t offset, size_t *bytes);

/* The source's key is checked under the hazard. */
char *__wrap_heap_map(struct heap *of, uint64_t offset, size_t *bytes)
{
	if (of == &far.link->heap) {
		wrong += hazards() != 1;
		maps++;
	}
	return __real_heap_map(of, offset, bytes);
}

static void begin(void)
{
	during_copy = NULL;
	copies = maps = wrong = 0;
}

static int setup(void **state)
{
	begin();
	return rendezvous_setup(IBV_QPT_RC, false);
}

static int setup_uc(void **state)
{
	begin();
	return rendezvous_setup(IBV_QPT_UC, false);
}

static int setup_srq(void **state)
{
	begin();
	return rendezvous_setup(IBV_QPT_RC, true);
}

static int teardown(void **state)
{
	rendezvous_teardown();
	assert_int_equal(wrong, 0);
	return 0;
}

static void post_receive(void)
{
	rig_post_receive(qp, 7, &(struct ibv_sge){ (uintptr_t)memory, BYTES, mr->ib.lkey });
}

static void queue_source(enum operation operation, uint32_t flags, uint32_t msn, uint32_t total,
			 struct record_source source)
{
	static uint8_t payload[RECORD_PAYLOAD_MAX];
	uint32_t room = rendezvous_room(source.bytes);
	const struct record_header header = {
		.dst_qpn = qp->ib.qp_num,
		.src_qpn = FAR_QPN,
		.msn = PSN + msn,
		.total = total,
		.bytes = (uint16_t)(room < sizeof(payload) ? room : sizeof(payload)),
		.imm = 77,
		.rkey = mr->ib.rkey,
		.remote_addr = (uintptr_t)memory,
	};

	if (qp->type == IBV_QPT_UC)
		flags |= RECORD_UNACKED;
	memcpy(payload, &source, sizeof(source));
	far_send(&far, operation, flags | RECORD_BY_KEY, header, payload);
}

static void send_source(uint32_t flags, uint32_t msn, uint32_t total, struct record_source source)
{
	queue_source(OPERATION_SEND, flags, msn, total, source);
	rig_progress(far.link);
}

static void expect_message(uint32_t bytes)
{
	struct ibv_wc wc;

	assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, bytes);
	assert_memory_equal(memory, heap + HEAP_LEAD, bytes);
	for (unsigned i = 0; i < ARENA_HAZARDS; i++)
		assert_int_equal(arena_hazard(rig.arena, i)->what, 0);
}

/* The next record of ours is this NAK. */
static void expect_nak(enum nak nak, uint32_t timer)
{
	struct record_header header = { 0 };

	assert_true(far_next(&far, &header));
	assert_int_equal(record_kind(&header), RECORD_NAK);
	assert_int_equal(header.imm, nak);
	if (timer)
		assert_int_equal(header.total, timer);
	assert_int_equal(cq_pop(rig.cq, 1, &(struct ibv_wc){ 0 }), 0);
	for (unsigned i = 0; i < ARENA_HAZARDS; i++)
		assert_int_equal(arena_hazard(rig.arena, i)->what, 0);
}

static void test_fetches(void **state)
{
	uint64_t moved = shm_moved;

	post_receive();
	send_source(RECORD_FIRST, 0, 70000, SOURCE(0, 40000));
	send_source(RECORD_LAST, 0, 70000, SOURCE(40000, 30000));
	expect_message(70000);
	assert_int_equal(shm_moved - moved, 70000);
	assert_int_equal(copies, 2);
	assert_int_equal(maps, 2);
}

#define LOST_TIMER (NAK_UNCOUNTED | NAK_BY_RING | 1)
#define FIRST_LAST (RECORD_FIRST | RECORD_LAST)

static const struct record_source good = { FAR_ADDR, FAR_KEY, 40000, GENERATION, 0 };

/* The value makes the source one that cannot be reached; without it, it can be. */
#define expect_lost(place, bad)                                                                    \
	do {                                                                                       \
		uint64_t before = (place);                                                         \
                                                                                                   \
		(place) = (bad);                                                                   \
		send_source(FIRST_LAST, msn, 40000, good);                                         \
		expect_nak(NAK_RNR, LOST_TIMER);                                                   \
		assert_int_equal(memory[0], 0);                                                    \
		(place) = before;                                                                  \
		send_source(FIRST_LAST, msn++ | 1u << 24, 40000, good);                            \
		expect_message(40000);                                                             \
		memset(memory, 0, BYTES);                                                          \
		post_receive();                                                                    \
		far.tx.head = far.link->rx.head;                                                   \
	} while (0)

static void test_lost_sources(void **state)
{
	uint32_t msn = 0;

	post_receive();
	expect_lost(far_key->key, 0);
	expect_lost(far_key->pd, FAR_PD + 1);
	expect_lost(far_key->length, 39999);
	expect_lost(far_key->flags, KEY_MOVING);
	expect_lost(far_key->flags, KEY_NULL);
	expect_lost(far_key->heap, 0);
	expect_lost(far_key->heap, HEAP_PLACE + BYTES);
	expect_lost(far_key->heap_edges, 1);
	expect_lost(far_qp->word, 0);
	expect_lost(far_qp->word, ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_ERR));
	expect_lost(far_qp->dest_qpn, qp->ib.qp_num + 1);
	/* the requester was reset, and has another connection to us */
	expect_lost(far_qp->generation, GENERATION + 1);
}

/* The message was begun; it is sent again as a whole. */
static void test_lost_later_piece(void **state)
{
	post_receive();
	send_source(RECORD_FIRST, 0, 70000, SOURCE(0, 40000));
	far_key->flags = KEY_MOVING;
	send_source(RECORD_LAST, 0, 70000, SOURCE(40000, 30000));
	expect_nak(NAK_RNR, LOST_TIMER);
	far_key->flags = 0;
	memset(memory, 0, BYTES);
	send_source(RECORD_FIRST, 1u << 24, 70000, SOURCE(0, 40000));
	send_source(RECORD_LAST, 1u << 24, 70000, SOURCE(40000, 30000));
	expect_message(70000);
}

/* Neither nothing nor more than a piece. */
static void test_length_of_source(void **state)
{
	const struct record_header short_one = { .dst_qpn = qp->ib.qp_num,
						 .src_qpn = FAR_QPN,
						 .msn = PSN | 3u << 24,
						 .total = 40000,
						 .bytes = 40000 / 16 - 1 };
	static uint8_t source[40000 / 16];

	post_receive();
	memcpy(source, &good, sizeof(good));
	far_send(&far, OPERATION_SEND, FIRST_LAST | RECORD_BY_KEY, short_one, source);
	rig_progress(far.link);
	expect_nak(NAK_RNR, LOST_TIMER);
	send_source(FIRST_LAST, 0, 0, SOURCE(0, 0));
	expect_nak(NAK_RNR, LOST_TIMER);
	send_source(FIRST_LAST, 1u << 24, RENDEZVOUS_PIECE + 1, SOURCE(0, RENDEZVOUS_PIECE + 1));
	expect_nak(NAK_RNR, LOST_TIMER);
	send_source(FIRST_LAST, 2u << 24, RENDEZVOUS_PIECE, SOURCE(0, RENDEZVOUS_PIECE));
	expect_message(RENDEZVOUS_PIECE);
}

static void test_write_with_imm(void **state)
{
	struct ibv_wc wc;

	rig_post_receive(qp, 7, NULL);
	queue_source(OPERATION_WRITE, RECORD_FIRST | RECORD_IMM, 0, 70000, SOURCE(0, 40000));
	queue_source(OPERATION_WRITE, RECORD_LAST | RECORD_IMM, 0, 70000, SOURCE(40000, 30000));
	rig_progress(far.link);
	assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 70000);
	assert_int_equal(wc.imm_data, 77);
	assert_memory_equal(memory, heap + HEAP_LEAD, 70000);
	assert_int_equal(copies, 2);
	assert_int_equal(hazards(), 0);
}

static void test_send_with_inv(void **state)
{
	static uint8_t source[40000 / 16];
	const struct ibv_mw_bind_info info = { .mr = &mr->ib,
					       .addr = (uintptr_t)memory,
					       .length = 4096,
					       .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct record_header header = { .dst_qpn = qp->ib.qp_num,
					.src_qpn = FAR_QPN,
					.msn = PSN,
					.total = 40000,
					.bytes = sizeof(source) };
	struct ibv_wc wc;
	struct mw *mw;

	assert_int_equal(mw_create(rig.pd, IBV_MW_TYPE_2, &mw), 0);
	assert_int_equal(
		mw_bind(mw->key, mr->ib.lkey, rig.pd->number, qp->ib.qp_num, mw->key, &info),
		CAUSE_NONE);
	header.imm = mw->key;
	post_receive();
	memcpy(source, &good, sizeof(good));
	far_send(&far, OPERATION_SEND, FIRST_LAST | RECORD_INV | RECORD_BY_KEY, header, source);
	rig_progress(far.link);
	assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(wc.wc_flags & IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, header.imm);
	assert_memory_equal(memory, heap + HEAP_LEAD, 40000);
	assert_int_equal(copies, 1);
	assert_int_equal(mw_destroy(mw), 0);
}

static void test_shared_receive(void **state)
{
	post_receive();
	send_source(FIRST_LAST, 0, 40000, SOURCE(0, 40000));
	expect_message(40000);
	/* a refused message keeps its receive */
	post_receive();
	far_key->flags = KEY_MOVING;
	send_source(FIRST_LAST, 1, 40000, good);
	expect_nak(NAK_RNR, LOST_TIMER);
	far_key->flags = 0;
	memset(memory, 0, BYTES);
	send_source(FIRST_LAST, 1 | 1u << 24, 40000, good);
	expect_message(40000);
}

static void fail_far_qp(void)
{
	far_qp->word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_ERR);
}

static void destroy_far_qp(void)
{
	far_qp->generation++;
}

static void drain_far_qp(void)
{
	far_qp->word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_SQD);
}

/* The requester's program has its memory back, and may write to it while we copy. */
static void test_requester_gives_up_meanwhile(void **state)
{
	post_receive();
	during_copy = fail_far_qp;
	send_source(FIRST_LAST, 0, 40000, good);
	expect_nak(NAK_RNR, LOST_TIMER);
}

static void test_requester_goes_meanwhile(void **state)
{
	post_receive();
	during_copy = destroy_far_qp;
	send_source(FIRST_LAST, 0, 40000, good);
	expect_nak(NAK_RNR, LOST_TIMER);
}

static void test_requester_drains_meanwhile(void **state)
{
	post_receive();
	during_copy = drain_far_qp;
	send_source(FIRST_LAST, 0, 40000, good);
	expect_message(40000);
}

static void test_no_receive(void **state)
{
	send_source(FIRST_LAST, 0, 40000, good);
	expect_nak(NAK_RNR, 12);
}

/* More than the message has, and a source that is none. */
static void test_too_much(void **state)
{
	struct ibv_wc wc;

	post_receive();
	send_source(FIRST_LAST, 0, 39999, good);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	expect_nak(NAK_INVALID_REQUEST, 0);
}

/* Fewer bytes than the message has. */
static void test_too_little(void **state)
{
	post_receive();
	send_source(FIRST_LAST, 0, 40001, good);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(cq_pop(rig.cq, 1, &(struct ibv_wc){ 0 }), 1);
	expect_nak(NAK_INVALID_REQUEST, 0);
}

static void test_too_little_written(void **state)
{
	post_receive();
	queue_source(OPERATION_WRITE, FIRST_LAST | RECORD_IMM, 0, 40001, good);
	rig_progress(far.link);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(cq_pop(rig.cq, 1, &(struct ibv_wc){ 0 }), 1);
	expect_nak(NAK_INVALID_REQUEST, 0);
}

static void test_no_source(void **state)
{
	const struct record_header header = {
		.dst_qpn = qp->ib.qp_num, .src_qpn = FAR_QPN, .msn = PSN, .total = 5, .bytes = 5
	};

	post_receive();
	far_send(&far, OPERATION_SEND, FIRST_LAST | RECORD_BY_KEY, header, "12345");
	rig_progress(far.link);
	expect_nak(NAK_RNR, LOST_TIMER);
}

/*
 * ------------------------------------------------------------------------------------------
 * More than a turn.
 */

#define MESSAGES 3
#define PIECES	 (BYTES / RENDEZVOUS_PIECE)

static void queue_messages(uint32_t count)
{
	for (uint32_t msn = 0; msn < count; msn++) {
		post_receive();
		for (uint32_t i = 0; i < PIECES; i++)
			queue_source(OPERATION_SEND,
				     (i ? 0 : RECORD_FIRST) | (i == PIECES - 1 ? RECORD_LAST : 0),
				     msn, BYTES, SOURCE(i * RENDEZVOUS_PIECE, RENDEZVOUS_PIECE));
	}
}

static void test_turn_is_bounded(void **state)
{
	queue_messages(1);
	for (uint32_t i = 1; i <= PIECES; i++) {
		assert_true(progress_link(far.link));
		assert_int_equal(copies, i);
	}
	expect_message(BYTES);
}

/* An acknowledgement is taken with the last record, though that ended the turn. */
static void test_acknowledged_with_last_record(void **state)
{
	struct record_header header;
	struct ibv_wc wc[2];

	post_bytes(0, 8);
	assert_true(far_next(&far, &header));
	post_receive();
	queue_source(OPERATION_SEND, FIRST_LAST, 0, RENDEZVOUS_PIECE, SOURCE(0, RENDEZVOUS_PIECE));
	far_acknowledge(&far);
	progress_link(far.link);
	assert_int_equal(cq_pop(rig.cq, 2, wc), 2);
	assert_int_equal(wc[0].opcode, IBV_WC_RECV);
	assert_int_equal(wc[1].opcode, IBV_WC_SEND);
	assert_int_equal(wc[1].status, IBV_WC_SUCCESS);
}

static void expect_all(void)
{
	struct ibv_wc wc;

	assert_int_equal(copies, MESSAGES * PIECES);
	for (int i = 0; i < MESSAGES; i++) {
		assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, BYTES);
	}
}

static void test_catches_up(void **state)
{
	queue_messages(MESSAGES);
	progress_catch_up(far.link);
	expect_all();
}

static void test_sent_before_death(void **state)
{
	queue_messages(MESSAGES);
	progress_on_death(far.link);
	expect_all();
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
}

/* UC: the message is dropped. */
static void test_uc(void **state)
{
	struct record_header header = { 0 };

	post_receive();
	fail_far_qp();
	send_source(FIRST_LAST, 0, 40000, good);
	assert_false(far_next(&far, &header));
	assert_int_equal(cq_pop(rig.cq, 1, &(struct ibv_wc){ 0 }), 0);
}

int main(void)
{
#define TEST(name)     cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
#define UC_TEST(name)  cmocka_unit_test_setup_teardown(test_##name, setup_uc, teardown)
#define SRQ_TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup_srq, teardown)
	const struct CMUnitTest tests[] = {
		TEST(fetches),
		TEST(lost_sources),
		TEST(lost_later_piece),
		TEST(length_of_source),
		TEST(write_with_imm),
		TEST(send_with_inv),
		SRQ_TEST(shared_receive),
		TEST(requester_gives_up_meanwhile),
		TEST(requester_goes_meanwhile),
		TEST(requester_drains_meanwhile),
		TEST(no_receive),
		TEST(too_much),
		TEST(too_little),
		TEST(too_little_written),
		TEST(no_source),
		TEST(turn_is_bounded),
		TEST(acknowledged_with_last_record),
		TEST(catches_up),
		TEST(sent_before_death),
		UC_TEST(uc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
