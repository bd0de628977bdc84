/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs that wait for room in a ring: their turns, the cost of a look, and a QP that is destroyed. */
#include "rig.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/eventfd.h"
#include "shm/backoff.h"
#include "shm/progress.h"
#include "shm/requester.h"
#include "shm/waiting.h"
#include "shm/retry.h"
#include "object/ah.h"

#define FAR_SLOT 9
#define FAR_QPN	 (FAR_SLOT << ARENA_QP_BITS | 1)
#define QPS	 100

static struct rig rig;
static struct far far;
static char memory[RECORD_PAYLOAD_MAX];
static struct mr *mr;
static unsigned tries;

enum issue_result __real_shm_requester_issue(struct shm_qp *lq);
enum issue_result __wrap_shm_requester_issue(struct shm_qp *lq);
enum issue_result __wrap_shm_requester_issue(struct shm_qp *lq)
{
	tries++;
	return __real_shm_requester_issue(lq);
}

static int setup(void **state)
{
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	mr = rig_mr(&rig, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(mr_destroy(mr), 0);
	far_destroy(&far);
	rig_destroy(&rig);
	return 0;
}

static struct qp *connected(enum ibv_qp_type type)
{
	struct qp *qp = rig_qp(&rig, type);

	rig_connect(qp, &(struct rig_connection){
				.slot = FAR_SLOT, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 });
	return qp;
}

static void post(struct qp *qp, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)memory, bytes, mr->ib.lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	struct ibv_wc wc;

	rig_post_send(qp, &wr);
	while (cq_pop(rig.cq, 1, &wc)) /* their places in the queue are free again */
		;
}

/* Posts until a request finds no room. Returns how many found room. */
static unsigned fill_ring(struct qp *qp)
{
	unsigned count = 0;

	while (!shm_of(qp)->blocked_on) {
		post(qp, RECORD_PAYLOAD_MAX);
		count++;
	}
	return count - 1;
}

/* Takes all records from the ring, and returns their senders. */
static unsigned drain(uint32_t *from, unsigned max)
{
	struct record_header header;
	unsigned count = 0;

	while (count < max && far_next(&far, &header))
		from[count++] = header.src_qpn;
	far_acknowledge(&far);
	return count;
}

static unsigned tries_of_a_look(void)
{
	tries = 0;
	progress_link(far.link);
	return tries;
}

static void test_a_look_in_vain_is_one_try(void **state)
{
	struct qp *filler = connected(IBV_QPT_UC), *qps[QPS];

	fill_ring(filler);
	for (int i = 0; i < QPS; i++) {
		qps[i] = connected(IBV_QPT_RC);
		post(qps[i], RECORD_PAYLOAD_MAX);
		assert_ptr_equal(shm_of(qps[i])->blocked_on, far.link);
	}
	for (int looks = 0; looks < 10; looks++)
		assert_int_equal(tries_of_a_look(), 1);
	for (int i = 0; i < QPS; i++)
		assert_int_equal(qp_destroy(qps[i]), 0);
	assert_int_equal(qp_destroy(filler), 0);
	assert_int_equal(far.link->blocked_count, 0);
}

/* Each QP has a turn before any has another, however much each has to send. */
static void test_room_goes_round(void **state)
{
	enum { FEW = 10, EACH = 6 };
	struct qp *filler = connected(IBV_QPT_UC), *qps[FEW];
	uint32_t from[64];
	unsigned got[FEW] = { 0 }, total = 0;

	fill_ring(filler);
	for (int i = 0; i < FEW; i++) {
		qps[i] = connected(IBV_QPT_UC);
		for (int n = 0; n < EACH; n++)
			post(qps[i], RECORD_PAYLOAD_MAX);
	}
	for (int round = 0; round < 1000 && total < FEW * EACH; round++) {
		unsigned count = drain(from, 2), most = 0, least = EACH;

		for (unsigned n = 0; n < count; n++)
			for (int i = 0; i < FEW; i++)
				if (from[n] == qps[i]->ib.qp_num) {
					got[i]++;
					total++;
				}
		for (int i = 0; i < FEW; i++) {
			most = got[i] > most ? got[i] : most;
			least = got[i] < least ? got[i] : least;
		}
		assert_in_range(most - least, 0, 3);
		tries_of_a_look();
	}
	assert_int_equal(total, FEW * EACH);
	for (int i = 0; i < FEW; i++)
		assert_int_equal(qp_destroy(qps[i]), 0);
	assert_int_equal(qp_destroy(filler), 0);
}

/* A QP whose turn is over continues, whether there is room in the ring or not. */
static void test_turns_do_not_wait_for_room(void **state)
{
	struct qp *filler = connected(IBV_QPT_UC), *waits = connected(IBV_QPT_RC),
		  *turned = connected(IBV_QPT_RC);

	fill_ring(filler);
	post(waits, RECORD_PAYLOAD_MAX);
	lock_acquire(&turned->lock);
	shm_waiting_for_turn(shm_of(turned), far.link);
	lock_release(&turned->lock);
	assert_int_equal(far.link->turned_count, 1);
	assert_int_equal(tries_of_a_look(), 2);
	assert_null(shm_of(turned)->blocked_on);
	assert_int_equal(far.link->turned_count, 0);
	assert_int_equal(qp_destroy(turned), 0);
	assert_int_equal(qp_destroy(waits), 0);
	assert_int_equal(qp_destroy(filler), 0);
}

/* The peer sleeps, and is woken for the next part of a response, however little room there is. */
static void test_parts_of_an_answer_call_the_sleeper(void **state)
{
	enum { LENGTH = 1 << 20 };
	char *region = calloc(1, LENGTH);
	struct mr *readable = rig_mr(&rig, region, LENGTH, IBV_ACCESS_REMOTE_READ);
	struct qp *qp = rig_qp(&rig, IBV_QPT_RC);
	struct record_header header = { .src_qpn = FAR_QPN,
					.total = LENGTH,
					.rkey = readable->ib.rkey,
					.remote_addr = (uintptr_t)region };
	uint64_t got = 0;

	((struct arena_header *)far.arena)->need_wakeup = true;
	rig_connect(qp,
		    &(struct rig_connection){ .slot = FAR_SLOT, .access = IBV_ACCESS_REMOTE_READ });
	header.dst_qpn = qp->ib.qp_num;
	far_send(&far, OPERATION_READ, RECORD_FIRST | RECORD_LAST, header, NULL);
	for (int parts = 0; got < LENGTH; parts++) {
		progress_link(far.link);
		assert_true(parts < 100);
		assert_true(eventfd_withdraw(far.link->wake_fd, 100) >= 1);
		while (far_next(&far, &header))
			got += header.bytes;
		far_acknowledge(&far);
	}
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mr_destroy(readable), 0);
	free(region);
}

static void send_to(struct qp *qp, uint32_t msn)
{
	struct record_header header = {
		.dst_qpn = qp->ib.qp_num, .src_qpn = FAR_QPN, .msn = msn, .total = 8, .bytes = 8
	};
	static const char payload[8];

	far_send(&far, OPERATION_SEND, RECORD_FIRST | RECORD_LAST, header, payload);
}

static uint64_t acked(void)
{
	return atomic_load(&far.control[1].acked);
}

/* Fills the room reserved for NAKs, too. */
static void fill_with_naks(void)
{
	struct record_header header = { .dst_qpn = RIG_SLOT << ARENA_QP_BITS | 0x3000,
					.src_qpn = FAR_QPN };

	for (int i = 0; i < RING_FOR_NAKS / RECORD_UNIT + 1000; i++) {
		far_send(&far, OPERATION_SEND, RECORD_FIRST | RECORD_LAST, header, NULL);
		progress_link(far.link);
		if (far.link->rx.head != far.tx.tail)
			break; /* its refusal found no room */
	}
	assert_true(far.link->rx.head != far.tx.tail);
}

/* Then there is no room for a NAK either. */
static void fill_to_the_brim(void)
{
	struct ring_producer *tx = &far.link->tx;
	struct record *record;

	while ((record = ring_reserve(tx, 0, 0))) {
		record->header = (struct record_header){ 0 };
		ring_publish(tx, record, record_word(RECORD_NAK, 0, 0));
	}
}

/*
 * The NAK of a QP that goes before there is room for it: the request is not acknowledged until it
 * was sent, and it is sent as soon as there is room.
 */
static void nak_outlives(bool destroy)
{
	struct qp *qp = connected(IBV_QPT_RC), *filler = connected(IBV_QPT_UC);
	struct record_header header;
	uint64_t position;
	unsigned naks = 0;

	fill_ring(filler);
	position = far.tx.tail;
	fill_to_the_brim();
	send_to(qp, 0); /* there is no receive */
	rig_progress(far.link);
	assert_true(far.link->rx.head == far.tx.tail);
	assert_true(acked() <= position);
	if (destroy)
		assert_int_equal(qp_destroy(qp), 0);
	else
		rig_reset(qp);
	rig_progress(far.link);
	assert_true(acked() <= position);
	while (far_next(&far, &header))
		;
	far_acknowledge(&far);
	rig_progress(far.link);
	while (far_next(&far, &header))
		naks += record_kind(&header) == RECORD_NAK && header.imm == NAK_RNR &&
			header.dst_qpn == FAR_QPN;
	assert_int_equal(naks, 1);
	progress_link(far.link);
	assert_true(acked() == far.tx.tail);
	assert_true(list_empty(&far.link->orphans));
	if (!destroy)
		assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(qp_destroy(filler), 0);
}

static void read_from(struct qp *qp, struct mr *readable, uint32_t bytes)
{
	struct record_header header = { .dst_qpn = qp->ib.qp_num,
					.src_qpn = FAR_QPN,
					.total = bytes,
					.rkey = readable->ib.rkey,
					.remote_addr = (uintptr_t)readable->ib.addr };

	far_send(&far, OPERATION_READ, RECORD_FIRST | RECORD_LAST, header, NULL);
}

/*
 * A NAK behind a response that waits for room holds acknowledgements only until it has left, though
 * other QPs of the link owe responses all the time.
 */
static void test_acks_do_not_wait_for_answers_of_others(void **state)
{
	enum { LENGTH = 1 << 20 };
	const struct rig_connection to_far = { .slot = FAR_SLOT, .access = IBV_ACCESS_REMOTE_READ };
	char *region = calloc(1, LENGTH);
	struct mr *readable = rig_mr(&rig, region, LENGTH, IBV_ACCESS_REMOTE_READ);
	struct qp *refuses = rig_qp(&rig, IBV_QPT_RC), *responds = rig_qp(&rig, IBV_QPT_RC),
		  *filler = connected(IBV_QPT_UC);
	uint32_t from[1024];
	uint64_t position;

	rig_connect(refuses, &to_far);
	rig_connect(responds, &to_far);
	fill_ring(filler);
	read_from(refuses, readable, RECORD_PAYLOAD_MAX);
	rig_progress(far.link);
	position = far.tx.tail;
	send_to(refuses, 1); /* there is no receive */
	read_from(responds, readable, LENGTH);
	rig_progress(far.link);
	assert_true(far.link->rx.head == far.tx.tail);
	assert_true(acked() == position);
	while (drain(from, 1024))
		;
	rig_progress(far.link);
	assert_int_equal(far.link->answering_count, 1); /* `responds` has more to send */
	progress_link(far.link);
	assert_true(acked() == far.tx.tail);
	for (int rounds = 0; far.link->answering_count; rounds++) {
		assert_true(rounds < 100);
		while (drain(from, 1024))
			;
		rig_progress(far.link);
	}
	assert_int_equal(qp_destroy(refuses), 0);
	assert_int_equal(qp_destroy(responds), 0);
	assert_int_equal(qp_destroy(filler), 0);
	assert_int_equal(mr_destroy(readable), 0);
	free(region);
}

static void test_a_nak_outlives_its_destroyed_qp(void **state)
{
	nak_outlives(true);
}

static void test_a_nak_outlives_a_reset(void **state)
{
	nak_outlives(false);
}

/* A request that no QP takes is not acknowledged before its NAK was sent. */
static void test_a_refusal_waits_for_room(void **state)
{
	struct qp *filler = connected(IBV_QPT_UC);
	uint32_t from[1024];
	uint64_t before;

	fill_ring(filler);
	fill_with_naks();
	before = far.link->rx.head;
	rig_progress(far.link);
	assert_true(far.link->rx.head == before);
	assert_true(acked() <= before);
	while (drain(from, 1024))
		;
	rig_progress(far.link);
	assert_true(far.link->rx.head == far.tx.tail);
	assert_int_equal(qp_destroy(filler), 0);
}

/*
 * Only the thread that reads the peer's ring stores its progress: a thread that destroys a QP
 * meanwhile could store an older value, and the peer marks a ring broken whose head goes backwards.
 */
static void test_who_ends_a_qp_does_not_touch_the_peers_ring(void **state)
{
	struct mr *readable = rig_mr(&rig, memory, sizeof(memory), IBV_ACCESS_REMOTE_READ);
	struct qp *qp = rig_qp(&rig, IBV_QPT_RC), *filler = connected(IBV_QPT_UC);
	struct record_header header = { .src_qpn = FAR_QPN,
					.total = sizeof(memory),
					.rkey = readable->ib.rkey,
					.remote_addr = (uintptr_t)memory };
	unsigned naks = 0;
	uint64_t told;

	rig_connect(qp,
		    &(struct rig_connection){ .slot = FAR_SLOT, .access = IBV_ACCESS_REMOTE_READ });
	header.dst_qpn = qp->ib.qp_num;
	fill_ring(filler);
	far_send(&far, OPERATION_READ, RECORD_FIRST | RECORD_LAST, header, NULL);
	rig_progress(far.link);
	fill_to_the_brim();
	told = atomic_load(&far.control[1].head);
	assert_true(told != far.link->rx.head);
	rig_reset(qp);
	assert_true(atomic_load(&far.control[1].head) == told);
	while (far_next(&far, &header))
		;
	far_acknowledge(&far);
	rig_progress(far.link);
	while (far_next(&far, &header))
		naks += record_kind(&header) == RECORD_NAK && header.imm == NAK_SILENCE &&
			header.dst_qpn == FAR_QPN;
	assert_int_equal(naks, 1);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(qp_destroy(filler), 0);
	assert_int_equal(mr_destroy(readable), 0);
}

/* Of a QP, and a filler that has left no room for it. */
struct datagrams {
	struct qp *filler, *qp;
	struct ah *ah;
};

/* So many datagrams that wait for room, with numbers from 1 on. */
static struct datagrams begin_datagrams(uint64_t count)
{
	const struct ibv_ah_attr to = { .is_global = 1 };
	const union ibv_gid own = { 0 };
	struct ibv_sge sge = { (uintptr_t)memory, 8, mr->ib.lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };
	struct datagrams d = { connected(IBV_QPT_UC), connected(IBV_QPT_UD), NULL };

	assert_int_equal(ah_create(rig.pd, &to, &own, true, &d.ah), 0);
	fill_ring(d.filler);
	fill_with_naks();
	wr.wr.ud.ah = &d.ah->ib;
	wr.wr.ud.remote_qpn = FAR_QPN;
	while (wr.wr_id++ < count)
		rig_post_send(d.qp, &wr);
	assert_int_equal(shm_of(d.qp)->state, REQUESTER_FULL_WAIT);
	return d;
}

static void drop_filler(struct datagrams *d)
{
	if (d->filler)
		assert_int_equal(qp_destroy(d->filler), 0);
	d->filler = NULL;
}

static void end_datagrams(struct datagrams *d)
{
	assert_int_equal(qp_destroy(d->qp), 0);
	drop_filler(d);
	ah_destroy(d->ah);
}

/*
 * A waiting datagram is lost when its time is over, however often it was tried, and later ones are
 * sent.
 */
static void test_a_datagram_does_not_wait_for_ever(void **state)
{
	struct datagrams d = begin_datagrams(2);
	struct qp *qp = d.qp;
	struct ibv_wc wc;

	for (uint64_t id = 1; id <= 2; id++) {
		uint64_t due = shm_of(qp)->deadline_ns;

		assert_int_equal(shm_of(qp)->state, REQUESTER_FULL_WAIT);
		for (int looks = 0; looks < 10; looks++)
			tries_of_a_look();
		shm_retry_run(due - 1);
		assert_int_equal(cq_pop(rig.cq, 1, &wc), 0);
		shm_retry_run(due);
		assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, id);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	end_datagrams(&d);
}

/* The thread would look for ever, as the other process may have stopped. */
static void test_a_refusal_without_room_is_no_work(void **state)
{
	struct qp *filler = connected(IBV_QPT_UC);
	struct record_header header;

	fill_ring(filler);
	fill_with_naks();
	assert_int_equal(progress_link(far.link), 0);
	assert_true(far.link->rx.head != far.tx.tail);
	while (far_next(&far, &header))
		;
	far_acknowledge(&far);
	assert_int_equal(progress_link(far.link), 1);
	assert_true(far.link->rx.head == far.tx.tail);
	assert_int_equal(qp_destroy(filler), 0);
}

static void move(struct qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	assert_int_equal(qp_modify(qp, &attr, IBV_QP_STATE), 0);
}

/* Its time may be over while it may not be sent. Then it waits anew. */
static void test_a_drained_datagram_has_a_deadline(void **state)
{
	struct datagrams d = begin_datagrams(1);
	struct qp *qp = d.qp;
	struct ibv_wc wc;

	drop_filler(&d); /* it would be before the datagram's QP */
	move(qp, IBV_QPS_SQD);
	rig_progress(far.link);
	shm_retry_run(shm_of(qp)->deadline_ns);
	assert_int_equal(cq_pop(rig.cq, 1, &wc), 0);
	move(qp, IBV_QPS_RTS);
	assert_int_equal(shm_of(qp)->state, REQUESTER_FULL_WAIT);
	shm_retry_run(now_ns() + BACKOFF_FULL_NS);
	assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 1);
	end_datagrams(&d);
}

static uint64_t due_ns;

static void *run_what_is_due(void *arg)
{
	shm_retry_run(due_ns);
	return arg;
}

/*
 * A thread finds the time over, and waits for the QP. The thread that holds it finds the ring full
 * again.
 */
static void test_a_time_that_is_over_does_not_begin_again(void **state)
{
	struct datagrams d = begin_datagrams(1);
	struct shm_qp *lq = shm_of(d.qp);
	struct ibv_wc wc;
	pthread_t thread;

	due_ns = lq->deadline_ns;
	lock_acquire(&d.qp->lock);
	assert_int_equal(pthread_create(&thread, NULL, run_what_is_due, NULL), 0);
	while (*(volatile bool *)&lq->timer_armed)
		sched_yield();
	shm_backoff_on_full(lq);
	lock_release(&d.qp->lock);
	pthread_join(thread, NULL);
	assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 1);
	end_datagrams(&d);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_look_in_vain_is_one_try),
		TEST(test_room_goes_round),
		TEST(test_turns_do_not_wait_for_room),
		TEST(test_parts_of_an_answer_call_the_sleeper),
		TEST(test_acks_do_not_wait_for_answers_of_others),
		TEST(test_a_nak_outlives_its_destroyed_qp),
		TEST(test_a_nak_outlives_a_reset),
		TEST(test_a_refusal_waits_for_room),
		TEST(test_who_ends_a_qp_does_not_touch_the_peers_ring),
		TEST(test_a_refusal_without_room_is_no_work),
		TEST(test_a_datagram_does_not_wait_for_ever),
		TEST(test_a_drained_datagram_has_a_deadline),
		TEST(test_a_time_that_is_over_does_not_begin_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
