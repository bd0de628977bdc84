/* SPDX-License-Identifier: BSD-2-Clause */
/* The timers: how long each RNR code waits, which is due first, what ends a wait. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "shm/completer.h"
#include "shm/backoff.h"
#include "shm/requester.h"
#include "shm/retry.h"
#include "shm/timer.h"

#define FAR_SLOT 9

static struct rig rig;
static struct far far;

static int setup(void **state)
{
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	shm_timer_reset_after_fork(); /* no deadline is left of the test before */
	rig_deadlines = 0;
	return 0;
}

static int teardown(void **state)
{
	far_destroy(&far);
	rig_destroy(&rig);
	return 0;
}

/* Connected, with one SEND on its way. */
static struct qp *waiting_qp(uint8_t timeout, uint8_t retry_cnt, uint8_t rnr_retry)
{
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND };
	struct qp *qp = rig_qp(&rig, IBV_QPT_RC);

	rig_connect(qp, &(struct rig_connection){
				.slot = FAR_SLOT,
				.timeout = timeout,
				.retry_cnt = retry_cnt,
				.rnr_retry = rnr_retry,
			});
	rig_post_send(qp, &wr);
	assert_int_equal(qp->sq.issue, 1);
	return qp;
}

static void rnr_nak(struct qp *qp, uint8_t timer)
{
	lock_acquire(&qp->lock);
	shm_backoff_on_rnr_nak(shm_of(qp), qp->sq.head, timer);
	lock_release(&qp->lock);
}

static void silence(struct qp *qp)
{
	lock_acquire(&qp->lock);
	shm_backoff_on_silence(shm_of(qp), qp->sq.head, CAUSE_PEER_NOT_READY);
	lock_release(&qp->lock);
}

static void disarm(struct qp *qp)
{
	lock_acquire(&qp->lock);
	shm_timer_disarm(shm_of(qp));
	lock_release(&qp->lock);
}

static uint32_t records(void)
{
	struct record_header header;
	uint32_t count = 0;

	while (far_next(&far, &header))
		count++;
	far_acknowledge(&far);
	return count;
}

static void expect_status(enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, status);
	assert_int_equal(cq_pop(rig.cq, 1, &wc), 0);
}

/* IBA table 45, in microseconds. */
static void test_rnr_timer_codes(void **state)
{
	static const uint32_t us[32] = {
		655360, 10,    20,    30,    40,    60,	    80,	    120,    160,    240,    320,
		480,	640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
		20480,	30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
	};
	struct qp *qp = waiting_qp(14, 7, 7);

	for (uint8_t code = 0; code < 32; code++) {
		uint64_t before = now_ns(), wait = us[code] * 1000ull;

		rnr_nak(qp, code);
		assert_int_equal(shm_of(qp)->state, REQUESTER_RNR_WAIT);
		assert_in_range(shm_of(qp)->deadline_ns - wait, before, now_ns());
		disarm(qp);
		assert_int_equal(shm_of(qp)->state, REQUESTER_READY);
	}
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_silence_waits_for_the_time_out(void **state)
{
	static const struct {
		uint8_t timeout;
		uint64_t wait_ns;
	} rows[] = {
		{ 1, 8192 },
		{ 14, 67108864 },
		{ 20, 4294967296 },
		{ 31, 8796093022208 },
		{ 0, 10000000 /* once in a while */ },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct qp *qp = waiting_qp(rows[i].timeout, 7, 7);
		uint64_t before = now_ns();

		silence(qp);
		assert_int_equal(shm_of(qp)->state, REQUESTER_RETRY_WAIT);
		assert_in_range(shm_of(qp)->deadline_ns - rows[i].wait_ns, before, now_ns());
		assert_int_equal(qp_destroy(qp), 0);
	}
}

static void test_the_earliest_deadline_counts(void **state)
{
	struct qp *slow = waiting_qp(14, 7, 7), *quick = waiting_qp(14, 7, 7),
		  *middle = waiting_qp(14, 7, 7);
	uint64_t due;

	assert_int_equal(shm_timer_deadline_ns(), SHM_TIMER_NEVER);
	rnr_nak(slow, 31);
	assert_int_equal(shm_timer_deadline_ns(), shm_of(slow)->deadline_ns);
	assert_int_equal(rig_deadlines, 1);
	rnr_nak(quick, 20);
	assert_int_equal(shm_timer_deadline_ns(), shm_of(quick)->deadline_ns);
	assert_int_equal(rig_deadline_ns, shm_of(quick)->deadline_ns);
	assert_int_equal(rig_deadlines, 2);
	rnr_nak(middle, 28);
	assert_int_equal(shm_timer_deadline_ns(), shm_of(quick)->deadline_ns);
	assert_int_equal(rig_deadlines, 2); /* it is not due before all others */

	records();
	due = shm_of(quick)->deadline_ns;
	shm_retry_run(due - 1);
	assert_int_equal(records(), 0);
	shm_retry_run(due);
	assert_int_equal(records(), 1);
	assert_int_equal(shm_of(quick)->state, REQUESTER_READY);
	assert_int_equal(shm_of(middle)->state, REQUESTER_RNR_WAIT);
	assert_int_equal(shm_of(slow)->state, REQUESTER_RNR_WAIT);
	assert_int_equal(shm_timer_deadline_ns(), shm_of(middle)->deadline_ns);
	assert_int_equal(rig_deadline_ns, shm_of(middle)->deadline_ns);

	shm_retry_run(shm_of(slow)->deadline_ns);
	assert_int_equal(records(), 2);
	assert_int_equal(shm_timer_deadline_ns(), SHM_TIMER_NEVER);
	assert_int_equal(qp_destroy(slow), 0);
	assert_int_equal(qp_destroy(quick), 0);
	assert_int_equal(qp_destroy(middle), 0);
}

static void test_armed_again_is_due_once(void **state)
{
	struct qp *qp = waiting_qp(14, 7, 7);
	uint64_t first;

	records();
	rnr_nak(qp, 14);
	first = shm_of(qp)->deadline_ns;
	rnr_nak(qp, 31);
	shm_retry_run(first);
	assert_int_equal(records(), 0);
	assert_int_equal(shm_timer_deadline_ns(), shm_of(qp)->deadline_ns);
	shm_retry_run(shm_of(qp)->deadline_ns);
	assert_int_equal(records(), 1);
	shm_retry_run(UINT64_MAX - 1);
	assert_int_equal(records(), 0);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_disarmed_never_fires(void **state)
{
	struct qp *stopped = waiting_qp(14, 7, 7), *destroyed = waiting_qp(14, 7, 7),
		  *reset = waiting_qp(14, 7, 7), *failed = waiting_qp(14, 7, 7);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	records();
	rnr_nak(stopped, 14);
	rnr_nak(destroyed, 15);
	rnr_nak(reset, 16);
	silence(failed);
	disarm(stopped);
	disarm(stopped); /* twice is as good as once */
	assert_int_equal(qp_destroy(destroyed), 0);
	rig_reset(reset);
	assert_int_equal(qp_modify(failed, &attr, IBV_QP_STATE), 0);
	shm_retry_run(UINT64_MAX - 1);
	assert_int_equal(records(), 0);
	assert_int_equal(shm_timer_deadline_ns(), SHM_TIMER_NEVER);
	assert_int_equal(qp_destroy(stopped), 0);
	assert_int_equal(qp_destroy(reset), 0);
	assert_int_equal(qp_destroy(failed), 0);
}

/* rnr_retry tries beyond the first, then the end; 7 is for ever. */
static void test_rnr_retries(void **state)
{
	for (uint8_t limit = 0; limit <= 7; limit++) {
		struct qp *qp = waiting_qp(14, 7, limit);

		for (uint32_t naks = 0; naks < (limit == 7 ? 50u : limit); naks++) {
			rnr_nak(qp, 1);
			assert_int_equal(qp_state(qp), IBV_QPS_RTS);
			shm_retry_run(UINT64_MAX - 1);
			assert_int_equal(qp->sq.issue, qp->sq.tail);
		}
		if (limit != 7) {
			rnr_nak(qp, 1);
			assert_int_equal(qp_state(qp), IBV_QPS_ERR);
			expect_status(IBV_WC_RNR_RETRY_EXC_ERR);
		}
		records();
		assert_int_equal(qp_destroy(qp), 0);
	}
}

static void test_time_out_retries(void **state)
{
	for (uint8_t limit = 0; limit <= 7; limit++) {
		struct qp *qp = waiting_qp(14, limit, 7);

		for (uint32_t tries = 0; tries <= limit; tries++) {
			assert_int_equal(qp_state(qp), IBV_QPS_RTS);
			assert_int_equal(qp->sq.issue, 1);
			silence(qp);
			shm_retry_run(UINT64_MAX - 1);
		}
		assert_int_equal(qp_state(qp), IBV_QPS_ERR);
		expect_status(IBV_WC_RETRY_EXC_ERR);
		records();
		assert_int_equal(qp_destroy(qp), 0);
	}
}

static void test_no_time_out_tries_for_ever(void **state)
{
	struct qp *qp = waiting_qp(0, 1, 7);

	for (uint32_t tries = 0; tries < 50; tries++) {
		silence(qp);
		shm_retry_run(UINT64_MAX - 1);
		assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	}
	records();
	assert_int_equal(qp_destroy(qp), 0);
}

/* Each try waits longer than the one before, to a limit; an acknowledgement starts anew. */
static void test_no_time_out_backs_off(void **state)
{
	struct qp *qp = waiting_qp(0, 1, 7);
	uint64_t wait_ns = BACKOFF_ENDLESS_NS;

	for (uint32_t tries = 0; tries < 10; tries++) {
		uint64_t before = now_ns();

		silence(qp);
		assert_in_range(shm_of(qp)->deadline_ns - wait_ns, before, now_ns());
		shm_retry_run(UINT64_MAX - 1);
		if (wait_ns < BACKOFF_ENDLESS_NS << BACKOFF_DOUBLINGS_MAX)
			wait_ns *= 2;
	}
	lock_acquire(&qp->lock);
	shm_backoff_on_ack(shm_of(qp));
	lock_release(&qp->lock);
	silence(qp);
	assert_true(shm_of(qp)->deadline_ns < now_ns() + 2 * BACKOFF_ENDLESS_NS);
	records();
	assert_int_equal(qp_destroy(qp), 0);
}

/* The next request fails at each turn, and is reported once a second at most. */
static void test_a_failure_behind_silence_is_reported_once(void **state)
{
	struct arena_header *header = rig.arena;
	struct ibv_sge sge = { 64, 8, 0x1234 }; /* no such key */
	struct ibv_send_wr wr = {
		.wr_id = 8, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
	};
	struct qp *qp = waiting_qp(0, 1, 7);
	uint64_t begin = now_ns(), seconds;

	cause_init(rig.arena);
	rig_post_send(qp, &wr);
	assert_int_equal(header->cause_next, 1);
	for (uint32_t tries = 0; tries < 1000; tries++) {
		silence(qp);
		shm_retry_run(UINT64_MAX - 1);
		assert_true(shm_of(qp)->failure.pending);
	}
	seconds = (now_ns() - begin) / 1000000000ull + 1;
	assert_in_range(header->cause_next, 1, 1 + seconds);
	cause_init(NULL);
	records();
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_an_acknowledgement_starts_the_counters_anew(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND };
	struct qp *qp = waiting_qp(14, 2, 2);

	for (uint32_t message = 0; message < 5; message++) {
		for (int i = 0; i < 2; i++) {
			rnr_nak(qp, 1);
			shm_retry_run(UINT64_MAX - 1);
			silence(qp);
			shm_retry_run(UINT64_MAX - 1);
		}
		assert_int_equal(qp_state(qp), IBV_QPS_RTS);
		lock_acquire(&qp->lock);
		shm_completer_on_ack(shm_of(qp), qp->sq.head);
		shm_requester_on_progress(shm_of(qp));
		lock_release(&qp->lock);
		expect_status(IBV_WC_SUCCESS);
		rig_post_send(qp, &wr);
	}
	assert_int_equal(qp_destroy(qp), 0);
}

/* A request waits for verbatimd's answer about its process; the thread that posts it does not. */
static void test_waits_for_what_verbatimd_says(void **state)
{
	enum { UNKNOWN_SLOT = 11 };
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND };
	struct qp *qp = rig_qp(&rig, IBV_QPT_RC);
	struct far late;

	rig_is_asked = true;
	rig_connect(qp, &(struct rig_connection){ .slot = UNKNOWN_SLOT, .timeout = 14 });
	rig_post_send(qp, &wr);
	assert_int_equal(shm_of(qp)->state, REQUESTER_PEER_WAIT);
	far_create(&late, UNKNOWN_SLOT);
	shm_retry_on_peers();
	assert_int_equal(shm_of(qp)->state, REQUESTER_READY);
	assert_ptr_equal(shm_of(qp)->link, late.link);
	assert_int_equal(shm_of(qp)->unacked, 1);
	assert_int_equal(qp_destroy(qp), 0);
	far_destroy(&late);

	/* the process does not exist: time-outs as on a wire */
	qp = rig_qp(&rig, IBV_QPT_RC);
	rig_connect(qp, &(struct rig_connection){ .slot = UNKNOWN_SLOT, .timeout = 14 });
	rig_post_send(qp, &wr);
	assert_int_equal(shm_of(qp)->state, REQUESTER_PEER_WAIT);
	rig_is_asked = false;
	shm_retry_on_peers();
	assert_int_equal(shm_of(qp)->state, REQUESTER_RETRY_WAIT);
	assert_int_equal(qp_destroy(qp), 0);

	/* verbatimd does not answer: the wait is bounded */
	rig_is_asked = true;
	qp = rig_qp(&rig, IBV_QPT_RC);
	rig_connect(qp, &(struct rig_connection){ .slot = UNKNOWN_SLOT, .timeout = 19 });
	rig_post_send(qp, &wr);
	assert_int_equal(shm_of(qp)->state, REQUESTER_PEER_WAIT);
	shm_retry_run(shm_of(qp)->deadline_ns);
	assert_int_equal(shm_of(qp)->state, REQUESTER_RETRY_WAIT);
	shm_retry_run(shm_of(qp)->deadline_ns);
	expect_status(IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(qp_destroy(qp), 0);
	rig_is_asked = false;
}

/* Of a QP that has failed as its peer is missing. FLUSHED is reported behind that. */
static bool reports_own_number(const struct qp *qp)
{
	uint32_t count = arena_header(rig.arena)->cause_next;
	struct arena_cause copy = { 0 };

	for (uint32_t i = 0; i < count && copy.cause != CAUSE_PEER_QP_MISSING; i++) {
		assert_true(cause_read(&arena_causes(rig.arena)[i], &copy));
		if (copy.qpn != qp->ib.qp_num)
			copy.cause = CAUSE_NONE;
	}
	assert_int_equal(copy.cause, CAUSE_PEER_QP_MISSING);
	assert_non_null(strstr(copy.text, "is this host itself"));
	return strstr(copy.text, "the QP number one of this process's own");
}

/*
 * The QP number of another user's process leads to a process of this user, or to this one: then the
 * report says so.
 */
static void test_a_missing_qp_may_be_another_users(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND };
	struct qp *qp;

	cause_init(rig.arena);
	qp = waiting_qp(14, 0, 7);
	lock_acquire(&qp->lock);
	shm_backoff_on_loss(shm_of(qp), qp->sq.head, CAUSE_PEER_QP_MISSING);
	lock_release(&qp->lock);
	shm_retry_run(UINT64_MAX - 1);
	expect_status(IBV_WC_RETRY_EXC_ERR);
	assert_false(reports_own_number(qp));
	records();
	assert_int_equal(qp_destroy(qp), 0);

	qp = rig_qp(&rig, IBV_QPT_RC);
	rig_connect(qp, &(struct rig_connection){ .slot = RIG_SLOT,
						  .qpn = RIG_SLOT << ARENA_QP_BITS | 999,
						  .timeout = 14 });
	rig_post_send(qp, &wr);
	rig_progress(rig.self);
	shm_retry_run(UINT64_MAX - 1);
	expect_status(IBV_WC_RETRY_EXC_ERR);
	assert_true(reports_own_number(qp));
	assert_non_null(strstr(cause_remedy(CAUSE_PEER_QP_MISSING), "UID"));
	assert_non_null(strstr(cause_remedy(CAUSE_PEER_UNKNOWN), "UID"));
	assert_int_equal(qp_destroy(qp), 0);
	cause_init(NULL);
}

enum { LATE_SLOT = 12 };
static struct far late;

/* The request waits for the rest of its time. */
static void test_answers_about_others_end_no_wait(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND };
	struct qp *qp = rig_qp(&rig, IBV_QPT_RC);
	uint64_t due;

	rig_is_asked = true;
	rig_connect(qp, &(struct rig_connection){ .slot = LATE_SLOT, .timeout = 19 });
	rig_post_send(qp, &wr);
	due = shm_of(qp)->deadline_ns;
	for (int i = 0; i < 10; i++) {
		shm_retry_on_peers();
		assert_int_equal(shm_of(qp)->state, REQUESTER_PEER_WAIT);
		assert_int_equal(shm_of(qp)->deadline_ns, due);
	}
	shm_retry_run(due);
	assert_int_equal(shm_of(qp)->state, REQUESTER_RETRY_WAIT);
	assert_int_equal(qp_destroy(qp), 0);
	rig_is_asked = false;
}

static void hear_of_late(void)
{
	far_create(&late, LATE_SLOT);
	shm_retry_on_peers();
}

/* The answer comes after the lookup, before the request waits. */
static void test_misses_no_answer(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND };
	struct qp *qp = rig_qp(&rig, IBV_QPT_RC);

	rig_is_asked = true;
	rig_connect(qp, &(struct rig_connection){ .slot = LATE_SLOT, .timeout = 19 });
	rig_meanwhile = hear_of_late;
	rig_post_send(qp, &wr);
	assert_true(shm_timer_deadline_ns() <= now_ns());
	shm_retry_run(now_ns());
	assert_ptr_equal(shm_of(qp)->link, late.link);
	assert_int_equal(shm_of(qp)->unacked, 1);
	assert_int_equal(qp_destroy(qp), 0);
	far_destroy(&late);
	rig_is_asked = false;
}

static void test_room_ends_the_wait_for_room_only(void **state)
{
	struct qp *qp = waiting_qp(14, 7, 7);

	lock_acquire(&qp->lock);
	/* as that of a request that was just posted */
	sq_wqe(&qp->sq, qp->sq.issue)->room_awaited = false;
	shm_backoff_on_full(shm_of(qp));
	assert_int_equal(shm_of(qp)->state, REQUESTER_FULL_WAIT);
	shm_backoff_on_room(shm_of(qp));
	assert_int_equal(shm_of(qp)->state, REQUESTER_READY);
	assert_true(shm_of(qp)->timer_armed); /* the time of this datagram goes on */
	shm_backoff_on_rnr_nak(shm_of(qp), qp->sq.head, 14);
	shm_backoff_on_room(shm_of(qp));
	assert_int_equal(shm_of(qp)->state, REQUESTER_RNR_WAIT);
	assert_true(shm_of(qp)->timer_armed);
	lock_release(&qp->lock);
	assert_int_equal(qp_destroy(qp), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rnr_timer_codes),
		TEST(test_silence_waits_for_the_time_out),
		TEST(test_the_earliest_deadline_counts),
		TEST(test_armed_again_is_due_once),
		TEST(test_disarmed_never_fires),
		TEST(test_rnr_retries),
		TEST(test_time_out_retries),
		TEST(test_no_time_out_tries_for_ever),
		TEST(test_no_time_out_backs_off),
		TEST(test_a_failure_behind_silence_is_reported_once),
		TEST(test_an_acknowledgement_starts_the_counters_anew),
		TEST(test_room_ends_the_wait_for_room_only),
		TEST(test_waits_for_what_verbatimd_says),
		TEST(test_a_missing_qp_may_be_another_users),
		TEST(test_answers_about_others_end_no_wait),
		TEST(test_misses_no_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
