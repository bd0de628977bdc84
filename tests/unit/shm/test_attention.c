/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the other process polls: by what comes of it, small WRITEs and READs of its private
 * memory go as messages or through the kernel, and messages wake it or do not.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/eventfd.h"
#include "memory/bounce.h"
#include "shm/attention.h"
#include "shm/doorbell.h"
#include "shm/progress.h"

#define FAR_SLOT 9
#define FAR_PD	 77
#define FAR_KEY	 0x12000134u
#define RIGHTS	 (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define LONG	 (16 * 1024)

enum way { DIRECT, AS_MESSAGE };

static struct rig rig;
static struct far far;
static struct qp *qp;
static struct mr *mr;
static uint8_t memory[LONG], theirs[LONG]; /* theirs is ours, too, but the link does not know */

static void seem_to_poll(bool polls)
{
	((struct arena_header *)far.arena)->need_wakeup = !polls;
}

static int setup(void **state)
{
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	far.link->xcopy = XCOPY_VM;
	far.link->pid = getpid();
	far.link->xcopy_id = far.link->pid;
	seem_to_poll(true);
	mr = rig_mr(&rig, memory, LONG, IBV_ACCESS_LOCAL_WRITE);
	qp = rig_qp(&rig, IBV_QPT_RC);
	rig_connect(qp, &(struct rig_connection){ .slot = FAR_SLOT, .psn = 1234 });
	arena_qps(far.arena)[1] = (struct arena_qp){ .word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RTS),
						     .dest_qpn = qp->ib.qp_num,
						     .pd = FAR_PD,
						     .access = RIGHTS,
						     .rq_psn = 1234 };
	arena_keys(far.arena)[KEY_INDEX(FAR_KEY)] = (struct arena_key){ .key = FAR_KEY,
									.access = RIGHTS,
									.start = (uintptr_t)theirs,
									.length = LONG,
									.addr = (uintptr_t)theirs,
									.pd = FAR_PD };
	return 0;
}

static int teardown(void **state)
{
	rig_reset(qp);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mr_destroy(mr), 0);
	far_destroy(&far);
	rig_destroy(&rig);
	return 0;
}

/* Wake-ups since the last time. */
static uint32_t notices(void)
{
	return eventfd_withdraw(far.link->wake_fd, 1000);
}

static void post(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)memory, bytes, mr->ib.lkey };
	struct ibv_send_wr wr = { .opcode = opcode,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { (uintptr_t)theirs, FAR_KEY } };

	rig_post_send(qp, &wr);
}

/* A thread that arms a CQ next looks at the link again, and finds the record. */
static void test_records_at_a_cold_link_ring(void **state)
{
	int heap = memfd_create("heap", MFD_CLOEXEC);

	assert_int_equal(ftruncate(heap, DOORBELL_BYTES), 0);
	doorbell_init(heap, rig.arena, RIG_SLOT);
	post(IBV_WR_SEND, 8);
	assert_false(doorbell_is_rung());
	doorbell_set_cold(FAR_SLOT, true);
	post(IBV_WR_SEND, 8);
	assert_true(doorbell_is_rung());
	doorbell_unmap(doorbell_own);
	doorbell_reset_after_fork();
	close(heap);
}

static bool completes(void)
{
	struct ibv_wc wc;
	int n = cq_pop(rig.cq, 1, &wc);

	assert_true(n >= 0 && (!n || wc.status == IBV_WC_SUCCESS));
	return n;
}

/* The other process executes what it has got. */
static unsigned answer(void)
{
	struct record_header header;
	unsigned requests = 0;

	while (far_next(&far, &header)) {
		struct record_header response = { .dst_qpn = header.src_qpn,
						  .src_qpn = header.dst_qpn,
						  .msn = header.msn,
						  .bytes = 8 };

		if (record_kind(&header) == RECORD_MIGRATE)
			continue;
		requests++;
		if (record_kind(&header) == OPERATION_READ)
			far_send(&far, RECORD_READ_RESPONSE, RECORD_FIRST | RECORD_LAST, response,
				 theirs);
	}
	far_acknowledge(&far);
	return requests;
}

static void look_in_vain(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		assert_false(progress_link(far.link));
}

/* Posts and, if it is a message, answers after so many looks. */
static void expect(enum way way, enum ibv_wr_opcode opcode, uint32_t bytes, uint32_t looks)
{
	post(opcode, bytes);
	if (way == DIRECT) {
		assert_true(completes());
		assert_int_equal(answer(), 0);
		return;
	}
	assert_false(completes());
	look_in_vain(looks);
	assert_int_equal(answer(), 1);
	rig_progress(far.link);
	assert_true(completes());
}

static void test_a_target_that_polls(void **state)
{
	for (int i = 0; i < 10; i++) {
		expect(AS_MESSAGE, IBV_WR_RDMA_WRITE, BOUNCE_BYTES, 10);
		expect(AS_MESSAGE, IBV_WR_RDMA_READ, 8, 10);
		expect(DIRECT, IBV_WR_RDMA_WRITE, BOUNCE_BYTES + 1, 0);
		expect(DIRECT, IBV_WR_RDMA_READ, LONG, 0);
	}
	assert_int_equal(notices(), 0);
}

static void test_a_target_that_sleeps(void **state)
{
	seem_to_poll(false);
	for (int i = 0; i < 200; i++)
		expect(DIRECT, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 8, 0);
	assert_int_equal(notices(), 0);
	seem_to_poll(true);
	expect(AS_MESSAGE, IBV_WR_RDMA_WRITE, 8, 10);
}

/* Nobody executes it before the wake-up, which comes after so many looks. */
static void disappoint(enum ibv_wr_opcode opcode, uint32_t looks)
{
	post(opcode, 8);
	look_in_vain(looks - 1);
	assert_int_equal(notices(), 0);
	look_in_vain(looks);
	assert_int_equal(notices(), 1);
	assert_int_equal(answer(), 1);
	rig_progress(far.link);
	assert_true(completes());
}

/* It has the lease, and spins on memory. */
static void test_a_target_that_does_not_look(void **state)
{
	uint32_t pause = ATTENTION_PAUSE;

	for (int round = 0; round < 3; round++, pause *= 2) {
		disappoint(IBV_WR_RDMA_WRITE, round ? ATTENTION_LOOKS : ATTENTION_PATIENCE);
		for (uint32_t i = 0; i < pause; i++)
			expect(DIRECT, IBV_WR_RDMA_WRITE, 8, 0);
		assert_int_equal(notices(), 0);
	}
	/* it polls again: the next one shows that */
	for (int i = 0; i < 3; i++)
		expect(AS_MESSAGE, IBV_WR_RDMA_WRITE, 8, 10);
	assert_int_equal(notices(), 0);
	disappoint(IBV_WR_RDMA_WRITE, ATTENTION_PATIENCE);
	assert_int_equal(far.link->attention.pause, ATTENTION_PAUSE);
}

/* Where the kernel copies nothing, a message wakes it if looks are in vain, and only then. */
static void test_messages_to_a_target_that_does_not_look(void **state)
{
	far.link->xcopy = XCOPY_NONE;
	for (int time = 0; time < 3; time++) {
		disappoint(IBV_WR_RDMA_READ, ATTENTION_PATIENCE);
		for (uint32_t i = 0; i < 20; i++)
			disappoint(i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_READ, ATTENTION_LOOKS);
		expect(AS_MESSAGE, IBV_WR_SEND, 8, 10);
		assert_int_equal(notices(), 0);
	}
}

/* It polls, but is slow, as on few processors: a wake-up would make it slower. */
static void test_a_target_that_is_slow(void **state)
{
	far.link->xcopy = XCOPY_NONE;
	for (uint32_t i = 0; i < 100; i++)
		expect(AS_MESSAGE, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_READ, 8,
		       ATTENTION_PATIENCE - 1);
	assert_int_equal(notices(), 0);
}

/* It was taken for one that does not look: one message in ever more shows that it does. */
static void test_a_target_that_becomes_slow(void **state)
{
	far.link->xcopy = XCOPY_NONE;
	for (uint32_t hasty = ATTENTION_PAUSE; hasty <= 2 * ATTENTION_PAUSE; hasty *= 2) {
		disappoint(IBV_WR_SEND, ATTENTION_PATIENCE);
		for (uint32_t i = 0; i < hasty; i++)
			disappoint(IBV_WR_SEND, ATTENTION_LOOKS);
	}
	for (uint32_t i = 0; i < 100; i++)
		expect(AS_MESSAGE, IBV_WR_SEND, 8, ATTENTION_PATIENCE - 1);
	assert_int_equal(notices(), 0);
}

/* Whoever sent the message has woken it. */
static void test_a_target_that_was_woken(void **state)
{
	far.link->xcopy = XCOPY_NONE;
	disappoint(IBV_WR_SEND, ATTENTION_PATIENCE);
	seem_to_poll(false);
	post(IBV_WR_SEND, 8);
	assert_int_equal(notices(), 1);
	look_in_vain(ATTENTION_LOOKS);
	seem_to_poll(true);
	look_in_vain(2 * ATTENTION_PATIENCE);
	assert_int_equal(notices(), 0);
	assert_int_equal(answer(), 1);
	rig_progress(far.link);
	assert_true(completes());
	disappoint(IBV_WR_SEND, ATTENTION_LOOKS);
}

/* What takes long to execute says nothing of who looks. */
static void test_long_messages(void **state)
{
	expect(AS_MESSAGE, IBV_WR_SEND, 8, 10);
	post(IBV_WR_SEND, LONG);
	look_in_vain(ATTENTION_PATIENCE);
	assert_int_equal(notices(), 1);
	assert_true(far.link->attention.polls);
	assert_int_equal(answer(), 1);
	rig_progress(far.link);
	assert_true(completes());
}

/* It sends, but does not look. */
static void test_a_target_that_sends(void **state)
{
	const struct record_header header = { .rkey = 1 };
	uint32_t looks = 0;

	far.link->xcopy = XCOPY_NONE;
	post(IBV_WR_SEND, 8);
	while (!notices()) {
		look_in_vain(ATTENTION_LOOKS - 1);
		looks += ATTENTION_LOOKS - 1;
		far_send(&far, RECORD_MIGRATE, RECORD_FIRST | RECORD_LAST, header, NULL);
		assert_true(progress_link(far.link));
		assert_true(looks <= ATTENTION_PATIENCE + ATTENTION_LOOKS);
	}
	assert_int_equal(answer(), 1);
	rig_progress(far.link);
	assert_true(completes());
}

/* It polls as far as is known, but has not looked lately. */
static void test_before_sleep_after_looks_in_vain(void **state)
{
	expect(AS_MESSAGE, IBV_WR_SEND, 8, 10);
	post(IBV_WR_SEND, LONG);
	look_in_vain(ATTENTION_LOOKS - 1);
	attention_before_sleep(far.link);
	assert_int_equal(notices(), 0);
	look_in_vain(1);
	attention_before_sleep(far.link);
	assert_int_equal(notices(), 1);
	assert_int_equal(answer(), 1);
	rig_progress(far.link);
	assert_true(completes());
}

static void test_before_sleep(void **state)
{
	attention_before_sleep(far.link);
	assert_int_equal(notices(), 0);
	post(IBV_WR_SEND, 8);
	attention_before_sleep(far.link);
	assert_int_equal(notices(), 1);
	assert_int_equal(answer(), 1);
	rig_progress(far.link);
	assert_true(completes());
	attention_before_sleep(far.link);
	assert_int_equal(notices(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_target_that_polls, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_target_that_sleeps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_target_that_does_not_look, setup, teardown),
		cmocka_unit_test_setup_teardown(test_messages_to_a_target_that_does_not_look, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_target_that_is_slow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_target_that_becomes_slow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_target_that_was_woken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_target_that_sends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_before_sleep_after_looks_in_vain, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_before_sleep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_records_at_a_cold_link_ring, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
