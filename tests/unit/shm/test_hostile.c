/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that breaks the rules, one by one. test_hostile_fuzz has the fuzzer. */
#include "rig.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cause.h"
#include "base/eventfd.h"
#include "shm/doorbell.h"
#include "shm/progress.h"
#include "shm/retry.h"

#define FAR_SLOT   9
#define OTHER_SLOT 10
#define FAR_QPN	   (FAR_SLOT << ARENA_QP_BITS | 1)
#define BYTES	   4096
#define SHORT	   64 /* bytes of a receive */

static struct rig rig;
static struct far far, other;
static struct qp *qp, *bystander;
static struct mr *mr;
static uint8_t memory[BYTES] __attribute__((aligned(4096)));
static uint8_t payload[RECORD_PAYLOAD_MAX];

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static void post_receive(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = SHORT, .lkey = mr->ib.lkey };

	rig_post_receive(qp, 3, &sge);
}

static int setup_of(enum ibv_qp_type type)
{
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	far_create(&other, OTHER_SLOT);
	mr = rig_mr(&rig, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | REMOTE);
	qp = rig_qp(&rig, type);
	bystander = rig_qp(&rig, IBV_QPT_RC);
	rig_connect(qp, &(struct rig_connection){ .slot = FAR_SLOT,
						  .access = REMOTE,
						  .timeout = 14,
						  .retry_cnt = 7,
						  .rnr_retry = 7 });
	rig_connect(bystander, &(struct rig_connection){ .slot = OTHER_SLOT, .access = REMOTE });
	memset(memory, 0, sizeof(memory));
	memset(payload, 0x77, sizeof(payload));
	return 0;
}

static int setup(void **state)
{
	return setup_of(IBV_QPT_RC);
}

static int setup_uc(void **state)
{
	return setup_of(IBV_QPT_UC);
}

static int teardown(void **state)
{
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(qp_destroy(bystander), 0);
	assert_int_equal(mr_destroy(mr), 0);
	far_destroy(&far);
	far_destroy(&other);
	rig_destroy(&rig);
	return 0;
}

/* The header of a message to our QP, in order. */
static struct record_header header_of(uint32_t msn, uint32_t total, uint32_t bytes)
{
	return (struct record_header){
		.dst_qpn = qp->ib.qp_num,
		.src_qpn = FAR_QPN,
		.msn = msn,
		.total = total,
		.bytes = bytes,
		.rkey = mr->ib.rkey,
		.remote_addr = (uintptr_t)memory + 1024,
	};
}

static void send_record(uint32_t kind, uint32_t flags, struct record_header header)
{
	/* of the QP's service, or the QP would drop it */
	if (qp->type == IBV_QPT_UC)
		flags |= RECORD_UNACKED;
	far_send(&far, kind, flags, header, payload);
	rig_progress(far.link);
}

/* The next record of ours; its enum nak, or 0. */
static uint32_t next_nak(void)
{
	struct record_header header;

	while (far_next(&far, &header))
		if (record_kind(&header) == RECORD_NAK)
			return header.imm;
	return 0;
}

static void expect_no_wc(void)
{
	struct ibv_wc wc;

	assert_int_equal(cq_pop(rig.cq, 1, &wc), 0);
}

/* The QP still receives a message. */
static void expect_alive(uint32_t msn)
{
	struct ibv_wc wc;

	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	post_receive();
	send_record(OPERATION_SEND, RECORD_FIRST | RECORD_LAST, header_of(msn, 5, 5));
	assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 5);
}

/*
 * A message changes its kind after FIRST, so the checks of FIRST do not hold. A completion must
 * never have more bytes than the receive.
 */
static void change_kind(uint32_t then)
{
	struct ibv_wc wc;

	post_receive();
	send_record(OPERATION_SEND, RECORD_FIRST, header_of(0, SHORT, 0));
	send_record(then, RECORD_FIRST, header_of(0, 2048, 0));
	send_record(OPERATION_SEND, RECORD_LAST, header_of(0, 2048, 2000));
	while (cq_pop(rig.cq, 1, &wc))
		if (wc.status == IBV_WC_SUCCESS)
			assert_in_range(wc.byte_len, 0, SHORT);
	for (int i = SHORT; i < BYTES; i++)
		assert_int_equal(memory[i], 0);
}

static void test_send_behind_the_first_of_a_write(void **state)
{
	change_kind(OPERATION_WRITE);
	assert_int_equal(next_nak(), NAK_INVALID_REQUEST);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
}

static void test_send_behind_the_first_of_a_read(void **state)
{
	change_kind(OPERATION_READ);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
}

static void test_send_behind_the_first_of_a_write_uc(void **state)
{
	change_kind(OPERATION_WRITE);
	expect_alive(1);
}

static void test_more_than_the_message_has(void **state)
{
	post_receive();
	send_record(OPERATION_SEND, RECORD_FIRST, header_of(0, 10, 8));
	send_record(OPERATION_SEND, RECORD_LAST, header_of(0, 10, 3));
	assert_int_equal(next_nak(), NAK_INVALID_REQUEST);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	for (int i = 8; i < BYTES; i++)
		assert_int_equal(memory[i], 0);
}

static void test_write_outside_the_region(void **state)
{
	static const int64_t addresses[] = { -1025, BYTES - 1024 - 99, 1 << 20, INT64_MIN,
					     INT64_MAX };

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		struct record_header header = header_of(0, 100, 100);

		header.remote_addr += (uint64_t)addresses[i];
		send_record(OPERATION_WRITE, RECORD_FIRST | RECORD_LAST, header);
		assert_int_equal(next_nak(), NAK_REMOTE_ACCESS);
		assert_int_equal(qp_state(qp), IBV_QPS_ERR);
		for (int n = 0; n < BYTES; n++)
			assert_int_equal(memory[n], 0);
		rig_reset(qp);
		rig_connect(qp, &(struct rig_connection){ .slot = FAR_SLOT, .access = REMOTE });
	}
}

static void test_rest_of_a_message_without_its_first(void **state)
{
	post_receive();
	send_record(OPERATION_SEND, RECORD_LAST, header_of(0, 10, 10));
	send_record(OPERATION_WRITE, 0, header_of(0, 10, 10));
	/* refused once: the sender must not complete it with success */
	assert_int_equal(next_nak(), NAK_SILENCE);
	assert_int_equal(next_nak(), 0);
	expect_no_wc();
	expect_alive(0);
	assert_int_equal(memory[1024], 0);
}

static void test_from_the_wrong_qp_or_process(void **state)
{
	struct record_header header = header_of(0, 10, 10);

	post_receive();
	header.src_qpn++;
	send_record(OPERATION_SEND, RECORD_FIRST | RECORD_LAST, header);
	assert_int_equal(next_nak(), NAK_SILENCE);
	far_send(&other, OPERATION_SEND, RECORD_FIRST | RECORD_LAST, header_of(0, 10, 10), payload);
	far_send(&other, RECORD_NAK, 0, header_of(0, 0, 0), NULL);
	rig_progress(other.link);
	expect_no_wc();
	assert_int_equal(memory[0], 0);
	assert_int_equal(shm_of(qp)->expected_msn, 0);
	expect_alive(0);
}

static void test_to_nobody(void **state)
{
	static const uint32_t qpns[] = { 0,
					 1,
					 0xffffff,
					 UINT32_MAX,
					 RIG_SLOT << ARENA_QP_BITS,
					 RIG_SLOT << ARENA_QP_BITS | 0x3fff };

	for (size_t i = 0; i < sizeof(qpns) / sizeof(qpns[0]); i++)
		for (uint32_t kind = OPERATION_SEND; kind < RECORD_KINDS; kind++) {
			struct record_header header = header_of(0, 64, 64);

			header.dst_qpn = qpns[i];
			send_record(kind, RECORD_FIRST | RECORD_LAST, header);
		}
	post_receive();
	send_record(OPERATION_SEND, RECORD_FIRST | RECORD_LAST, header_of(0, 5, 5));
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
}

static void test_answers_that_nobody_waits_for(void **state)
{
	for (uint32_t nak = 0; nak < 8; nak++) {
		struct record_header header = header_of(0, 31, 0);

		header.imm = nak;
		header.rkey = nak % 2 ? UINT32_MAX : CAUSE_COUNT;
		send_record(RECORD_NAK, 0, header);
	}
	send_record(RECORD_READ_RESPONSE, RECORD_FIRST | RECORD_LAST, header_of(0, 64, 64));
	send_record(RECORD_ATOMIC_RESPONSE, RECORD_FIRST | RECORD_LAST, header_of(0, 8, 8));
	expect_no_wc();
	expect_alive(0);
}

/* A READ of 64 bytes is answered with more, in the wrong kind, or to the wrong number. */
static void test_response_longer_than_the_read(void **state)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory + 512, .length = 64, .lkey = mr->ib.lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc;

	rig_post_send(qp, &wr);
	send_record(RECORD_READ_RESPONSE, RECORD_FIRST, header_of(0, 64, 60));
	send_record(RECORD_READ_RESPONSE, RECORD_LAST, header_of(0, 64, 5));
	send_record(RECORD_READ_RESPONSE, RECORD_LAST, header_of(0, 64, RECORD_PAYLOAD_MAX));
	send_record(RECORD_READ_RESPONSE, RECORD_LAST, header_of(1, 64, 4));
	expect_no_wc();
	send_record(RECORD_READ_RESPONSE, RECORD_LAST, header_of(0, 64, 4));
	send_record(RECORD_READ_RESPONSE, RECORD_LAST, header_of(0, 64, 4));
	assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	for (int i = 0; i < BYTES; i++)
		assert_int_equal(memory[i], i >= 512 && i < 576 ? 0x77 : 0);
	expect_no_wc();
}

/* More READs than permitted, from a peer that does not take the responses. */
static void test_reads_without_end(void **state)
{
	for (uint32_t msn = 0; msn < 200; msn++)
		send_record(OPERATION_READ, RECORD_FIRST | RECORD_LAST, header_of(msn, 3000, 0));
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(bystander), IBV_QPS_RTS);
	while (next_nak() == 0)
		rig_progress(far.link), far_acknowledge(&far);
}

/* Atomics change what is there, or nothing; memory that cannot be changed is no signal. */
static void test_atomic_on_memory_that_is_read_only(void **state)
{
	uint8_t *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *on_demand =
		rig_mr(&rig, page, 4096, IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_ON_DEMAND);
	struct record_header header = header_of(0, 8, 16);

	header.rkey = on_demand->ib.rkey;
	header.remote_addr = (uintptr_t)page;
	send_record(OPERATION_FETCH_ADD, RECORD_FIRST | RECORD_LAST, header);
	assert_int_equal(next_nak(), NAK_REMOTE_ACCESS);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(mr_destroy(on_demand), 0);
	munmap(page, 4096);
}

/* A false acked index must not keep this process busy for ever. */
static void test_acknowledgement_of_what_was_never_sent(void **state)
{
	static const uint64_t lies[] = { UINT64_MAX, 64, 0, 1ull << 63, 1 };
	struct record_header header = header_of(0, 5, 5);

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		int turns = 0;

		atomic_store(&far.control[0].acked, lies[i]);
		while (progress_link(far.link) && turns < 100)
			turns++;
		assert_in_range(turns, 0, 2);
	}
	header.acked = UINT64_MAX;
	post_receive();
	send_record(OPERATION_SEND, RECORD_FIRST | RECORD_LAST, header);
	assert_false(progress_link(far.link));
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
}

/*
 * A broken ring is silent; the rest of the process goes on. Then the link ends, for the other end
 * as well.
 */
static void test_broken_ring(void **state)
{
	struct record_header header = { .dst_qpn = bystander->ib.qp_num,
					.src_qpn = OTHER_SLOT << ARENA_QP_BITS | 1 };
	struct ibv_wc wc;

	memset(far.tx.data, 0xff, RING_BYTES);
	rig_progress(far.link);
	assert_true(far.link->rx.broken);
	rig_post_receive(bystander, 1, NULL);
	far_send(&other, OPERATION_SEND, RECORD_FIRST | RECORD_LAST, header, NULL);
	rig_progress(other.link);
	assert_int_equal(cq_pop(rig.cq, 1, &(struct ibv_wc){ 0 }), 1);

	assert_true(link_is_broken(far.link));
	assert_false(link_is_broken(other.link));
	rig_post_send(qp, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND, .wr_id = 7 });
	progress_on_broken_ring(far.link);
	assert_false(link_is_broken(far.link));
	assert_false(far_next(&far, &header));
	assert_true(far.rx.broken);
	for (int i = 0; qp_state(qp) != IBV_QPS_ERR && i < 10000; i++) {
		usleep(1000);
		shm_retry_run(now_ns());
	}
	assert_int_equal(cq_pop(rig.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc.vendor_err, CAUSE_RING_OVERWRITTEN);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(qp_state(bystander), IBV_QPS_RTS);
}

/* A NAK that was lost does not make a success of what it refuses. */
static void test_nak_in_a_broken_ring(void **state)
{
	struct record_header header,
		nak = { .dst_qpn = qp->ib.qp_num, .src_qpn = FAR_QPN, .imm = NAK_REMOTE_ACCESS };
	uint64_t at = far.tx.tail;

	rig_post_send(qp, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND });
	assert_true(far_next(&far, &header));
	nak.msn = header.msn;
	far_send(&far, RECORD_NAK, 0, nak, NULL);
	((struct record *)(far.tx.data + at % RING_BYTES))->header.word = UINT32_MAX;
	far_acknowledge(&far);
	rig_progress(far.link);
	assert_true(link_is_broken(far.link));
	rig_progress(far.link);
	expect_no_wc();
}

/* The other end has read all, and nothing that is posted later hides the end from it. */
static void test_broken_ring_of_a_reader(void **state)
{
	struct record_header header;

	rig_post_send(qp, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND });
	while (far_next(&far, &header))
		;
	assert_false(far.rx.broken);
	far.tx.data[0] = 1;
	rig_progress(far.link);
	progress_on_broken_ring(far.link);
	rig_post_send(qp, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND });
	assert_false(far_next(&far, &header));
	assert_true(far.rx.broken);
}

/* It has broken the ring, to say that it saw one broken, and ended before this end looked. */
static void test_death_behind_a_broken_ring(void **state)
{
	memset(far.tx.data, 0xff, RING_BYTES);
	progress_on_death(far.link);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	progress_on_death(other.link); /* whose QP had not reached RTS */
	assert_int_equal(qp_state(bystander), IBV_QPS_RTS);
}

/* Nobody can tell whether the other QP had reached RTS: this one does not wait for it. */
static void test_death_of_one_that_cannot_be_looked_up(void **state)
{
	uint32_t place = ARENA_QP_OFFSET + (bystander->attr.dest_qp_num & (ARENA_QPS - 1)) *
						   (uint32_t)sizeof(struct arena_qp);

	atomic_store(&other.link->arena.windows[place / PEER_WINDOW_BYTES], NULL);
	other.link->arena.view.not_before_ns = UINT64_MAX;
	progress_on_death(other.link);
	assert_int_equal(qp_state(bystander), IBV_QPS_ERR);
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
}

/* Zeros are no record: what was sent rests. */
static void test_ring_of_zeros(void **state)
{
	struct record_header header;

	assert_false(link_is_broken(far.link));
	rig_post_send(qp, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND });
	assert_false(link_is_broken(far.link));
	assert_false(link_is_broken(far.link));
	memset(far.link->tx.data, 0, RING_BYTES);
	assert_false(far_next(&far, &header));
	assert_true(link_is_broken(far.link));
	assert_true(ring_has_head(&far.tx));
	progress_on_broken_ring(far.link);
	assert_false(ring_has_head(&far.tx)); /* where nothing is read, and nothing rests, too */
	assert_false(link_is_broken(far.link));
}

/* The other end does not read any more. */
static void test_head_that_cannot_be(void **state)
{
	assert_false(link_is_broken(far.link));
	far.control[0].head = UINT64_MAX;
	assert_true(link_is_broken(far.link));
}

#define TEST(name)    cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_UC(name) cmocka_unit_test_setup_teardown(name, setup_uc, teardown)

/* The heap is sealed, as verbatimd demands, and shorter than the doorbell. Nobody reads there. */
static void test_heap_without_a_doorbell(void **state)
{
	int arena_fd = memfd_create("arena", MFD_CLOEXEC);
	int heap = memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct peer_arena arena;
	struct link *link;

	assert_int_equal(ftruncate(arena_fd, ARENA_BYTES), 0);
	assert_int_equal(peer_arena_open(&arena, arena_fd), 0);
	close(arena_fd);
	assert_int_equal(fcntl(heap, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	link = link_create(OTHER_SLOT + 1, getpid(), 0, far.shared_fd, &arena, eventfd_create(),
			   heap);
	assert_non_null(link);
	link_wake(link);
	assert_int_equal(eventfd_withdraw(link->wake_fd, 2), 1);
	link_ring(link);
	assert_int_equal(eventfd_withdraw(link->wake_fd, 2), 1);
	link_close(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_send_behind_the_first_of_a_write),
		TEST(test_send_behind_the_first_of_a_read),
		TEST_UC(test_send_behind_the_first_of_a_write_uc),
		TEST(test_more_than_the_message_has),
		TEST(test_write_outside_the_region),
		TEST(test_rest_of_a_message_without_its_first),
		TEST(test_from_the_wrong_qp_or_process),
		TEST(test_to_nobody),
		TEST(test_answers_that_nobody_waits_for),
		TEST(test_response_longer_than_the_read),
		TEST(test_reads_without_end),
		TEST(test_atomic_on_memory_that_is_read_only),
		TEST(test_acknowledgement_of_what_was_never_sent),
		TEST(test_broken_ring),
		TEST(test_nak_in_a_broken_ring),
		TEST(test_broken_ring_of_a_reader),
		TEST(test_death_behind_a_broken_ring),
		TEST(test_death_of_one_that_cannot_be_looked_up),
		TEST(test_ring_of_zeros),
		TEST(test_head_that_cannot_be),
		TEST(test_heap_without_a_doorbell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
