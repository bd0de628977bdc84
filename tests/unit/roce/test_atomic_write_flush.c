/* SPDX-License-Identifier: BSD-2-Clause */
/* ATOMIC WRITE and FLUSH (IBA annex A19): packets, answers, losses, refusals. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/compat.h"

#define BYTES  65536
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | COMPAT_ACCESS_FLUSH_GLOBAL)
#define MS     1000000ull
#define PSN    0xfffffe

#define RESOURCES 8 /* of the responder */

#define FLUSH_OPCODE	    0x1c
#define ATOMIC_WRITE_OPCODE 0x1d
#define READ_OPCODE	    0x0c
#define ATOMIC_RESPONSE	    0x12
#define FETCH_ADD_OPCODE    0x14
#define RESPONSE_ONLY	    0x10
#define ACKNOWLEDGE	    0x11

static uint64_t here[BYTES / 8], there[BYTES / 8];
static unsigned responses, naks; /* that came to `a` */

static void connect(uint32_t access)
{
	pair_connect(IBV_QPT_RC, &(struct rig_options){ .access = access,
							.timeout = 14,
							.retry_cnt = 7,
							.rnr_retry = 7,
							.min_rnr_timer = 12,
							.rd_atomic = RESOURCES,
							.psn = PSN });
}

static int setup(void **state)
{
	pair_regions(here, there, BYTES,
		     ACCESS | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	for (unsigned i = 0; i < BYTES / 8; i++)
		here[i] = UINT64_C(0x0101010101010101) * (i + 1);
	memset(there, 0, BYTES);
	responses = naks = 0;
	return 0;
}

static uint64_t address_of(unsigned word)
{
	return (uintptr_t)&there[word];
}

static void post_write(enum ibv_wr_opcode opcode, unsigned word, uint32_t bytes, uint64_t wr_id,
		       unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)&here[word], bytes, here_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = flags,
		.wr.rdma = { .remote_addr = address_of(word), .rkey = there_mr->ib.rkey },
	};

	rig_post_send(a, &wr);
}

static void run(void)
{
	rig_run(rig_now_ns + 1000 * MS);
}

static void test_atomic_write(void **state)
{
	struct packet packet;

	connect(ACCESS);
	post_write(IBV_WR_ATOMIC_WRITE, 3, 8, 1, 0);
	post_write(IBV_WR_ATOMIC_WRITE, 4, 8, 2, IBV_SEND_INLINE);
	packet = rig_peek(0);
	assert_int_equal(packet.opcode, ATOMIC_WRITE_OPCODE);
	assert_int_equal(packet.va, address_of(3));
	assert_int_equal(packet.rkey, there_mr->ib.rkey);
	assert_int_equal(packet.length, 8);
	assert_int_equal(packet.payload_bytes, 8);
	assert_memory_equal(packet.payload, &here[3], 8);
	assert_int_equal(rig_peek(1).psn.number, PSN + 1);
	rig_step();
	rig_step();
	roce_flush();
	packet = rig_peek(0);
	assert_int_equal(packet.opcode, RESPONSE_ONLY);
	assert_int_equal(packet.psn.number, PSN);
	assert_int_equal(packet.msn, 1);
	assert_int_equal(packet.payload_bytes, 0);
	assert_int_equal(rig_peek(1).psn.number, PSN + 1);
	assert_true(rig_is_quiet(&rig));
	run();
	assert_int_equal(pair_expect(1, IBV_WC_SUCCESS).opcode, IBV_WC_ATOMIC_WRITE);
	pair_expect(2, IBV_WC_SUCCESS);
	assert_int_equal(there[3], here[3]);
	assert_int_equal(there[4], here[4]);
	assert_int_equal(there[2] | there[5], 0);
}

/* Its range is longer than a packet, but it is one. */
static void test_flush(void **state)
{
	struct packet packet;

	connect(ACCESS);
	post_write(IBV_WR_RDMA_WRITE, 0, 5000, 1, 0);
	rig_post_flush(a, 2, address_of(0), there_mr->ib.rkey, BYTES, COMPAT_FLUSH_GLOBAL,
		       COMPAT_FLUSH_RANGE);
	rig_post_flush(a, 3, 0, there_mr->ib.rkey, 0, COMPAT_FLUSH_GLOBAL, COMPAT_FLUSH_MR);
	packet = rig_peek(5);
	assert_int_equal(packet.opcode, FLUSH_OPCODE);
	assert_int_equal(packet.psn.number, (PSN + 5) & PSN_MASK);
	assert_int_equal(packet.length, BYTES);
	assert_int_equal(packet.flush_types, COMPAT_FLUSH_GLOBAL);
	assert_int_equal(packet.flush_level, COMPAT_FLUSH_RANGE);
	assert_int_equal(packet.payload_bytes, 0);
	assert_int_equal(rig_peek(6).psn.number, (PSN + 6) & PSN_MASK);
	assert_int_equal(rig_peek(6).flush_level, COMPAT_FLUSH_MR);
	run();
	pair_expect(1, IBV_WC_SUCCESS);
	assert_int_equal(pair_expect(2, IBV_WC_SUCCESS).opcode, COMPAT_WC_FLUSH);
	pair_expect(3, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 5000);
}

static int lost_opcode;

/*
 * Loses the first packet of that kind; the program writes to the word once the ATOMIC WRITE was
 * executed.
 */
static bool lose_first(struct rig_packet *packet, struct packet *decoded)
{
	if (decoded->opcode != lost_opcode)
		return true;
	lost_opcode = -1;
	if (decoded->opcode == RESPONSE_ONLY)
		there[7] = 42;
	return false;
}

static void test_request_is_lost(void **state)
{
	connect(ACCESS);
	lost_opcode = ATOMIC_WRITE_OPCODE;
	rig_on_packet = lose_first;
	post_write(IBV_WR_ATOMIC_WRITE, 7, 8, 1, 0);
	rig_post_flush(a, 2, address_of(0), there_mr->ib.rkey, 64, COMPAT_FLUSH_GLOBAL, 0);
	run();
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_SUCCESS);
	assert_int_equal(there[7], here[7]);
}

/* The request is repeated, and not executed again. */
static void test_response_is_lost(void **state)
{
	connect(ACCESS);
	lost_opcode = RESPONSE_ONLY;
	rig_on_packet = lose_first;
	post_write(IBV_WR_ATOMIC_WRITE, 7, 8, 1, 0);
	run();
	pair_expect(1, IBV_WC_SUCCESS);
	assert_int_equal(there[7], 42);
	lost_opcode = RESPONSE_ONLY;
	rig_post_flush(a, 2, address_of(0), there_mr->ib.rkey, 64, COMPAT_FLUSH_GLOBAL, 0);
	run();
	pair_expect(2, IBV_WC_SUCCESS);
	assert_int_equal(lost_opcode, -1);
}

/* A response after a missing one does not complete the earlier request. */
static void test_acknowledgement_is_no_response(void **state)
{
	connect(ACCESS);
	lost_opcode = RESPONSE_ONLY;
	rig_on_packet = lose_first;
	post_write(IBV_WR_ATOMIC_WRITE, 7, 8, 1, 0);
	post_write(IBV_WR_RDMA_WRITE, 100, 64, 2, 0);
	rig_step();
	rig_step();
	roce_flush();
	assert_int_equal(rig_peek(0).opcode, RESPONSE_ONLY);
	assert_int_equal(rig_peek(1).opcode, ACKNOWLEDGE);
	rig_step();
	rig_step();
	assert_true(rig_is_quiet(&rig));
	run();
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_SUCCESS);
}

static void refused(enum ibv_wc_status status)
{
	run();
	pair_expect(1, status);
	assert_int_equal(qp_state(a), IBV_QPS_ERR);
	assert_int_equal(qp_state(b), IBV_QPS_ERR);
	for (unsigned i = 0; i < BYTES / 8; i++)
		assert_int_equal(there[i], 0);
}

static void write_at(uint64_t address, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)here, 8, here_mr->ib.lkey };
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_ATOMIC_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { .remote_addr = address, .rkey = rkey } };

	rig_post_send(a, &wr);
}

static void test_unaligned(void **state)
{
	connect(ACCESS);
	write_at(address_of(1) + 4, there_mr->ib.rkey);
	refused(IBV_WC_REM_INV_REQ_ERR);
}

static void test_wrong_key(void **state)
{
	connect(ACCESS);
	write_at(address_of(1), there_mr->ib.rkey ^ 0x100);
	refused(IBV_WC_REM_ACCESS_ERR);
}

static void test_qp_without_right(void **state)
{
	connect(0);
	write_at(address_of(1), there_mr->ib.rkey);
	refused(IBV_WC_REM_ACCESS_ERR);
}

static void test_flush_without_right(void **state)
{
	connect(IBV_ACCESS_REMOTE_WRITE);
	rig_post_flush(a, 1, address_of(0), there_mr->ib.rkey, 64, COMPAT_FLUSH_GLOBAL, 0);
	refused(IBV_WC_REM_INV_REQ_ERR);
}

static void test_flush_out_of_range(void **state)
{
	connect(ACCESS);
	rig_post_flush(a, 1, address_of(0), there_mr->ib.rkey, BYTES + 1, COMPAT_FLUSH_GLOBAL, 0);
	refused(IBV_WC_REM_ACCESS_ERR);
}

static unsigned results; /* of atomics */

static bool count_answers(struct rig_packet *packet, struct packet *decoded)
{
	results += decoded->opcode == ATOMIC_RESPONSE;
	responses += decoded->opcode == RESPONSE_ONLY;
	naks += decoded->opcode == ACKNOWLEDGE && decoded->syndrome >> 5 == 3;
	return true;
}

/* A length that is not 8, in the RETH or of the payload; an unknown placement type. */
static void test_malformed(void **state)
{
	static const struct {
		uint8_t opcode, types, level;
		uint32_t length, payload_bytes;
	} rows[] = {
		{ ATOMIC_WRITE_OPCODE, 0, 0, 8, 4 },  { ATOMIC_WRITE_OPCODE, 0, 0, 16, 8 },
		{ ATOMIC_WRITE_OPCODE, 0, 0, 8, 12 }, { ATOMIC_WRITE_OPCODE, 0, 0, 8, 0 },
		{ FLUSH_OPCODE, 0, 0, 8, 0 },	      { FLUSH_OPCODE, 4, 0, 8, 0 },
		{ FLUSH_OPCODE, 1, 2, 8, 0 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct packet packet = { .opcode = rows[i].opcode,
					 .psn = { PSN },
					 .va = address_of(0),
					 .rkey = there_mr->ib.rkey,
					 .length = rows[i].length,
					 .payload_bytes = rows[i].payload_bytes,
					 .flush_types = rows[i].types,
					 .flush_level = rows[i].level };

		connect(ACCESS);
		rig_on_packet = count_answers;
		naks = 0;
		rig_inject(a, &packet, here);
		run();
		assert_int_equal(qp_state(b), IBV_QPS_ERR);
		assert_int_equal(naks, 1);
		assert_int_equal(there[0], 0);
		if (i + 1 < sizeof(rows) / sizeof(rows[0])) {
			assert_int_equal(qp_destroy(a), 0);
			assert_int_equal(qp_destroy(b), 0);
		}
	}
}

/* A READ, or an atomic. */
static void inject_one(uint8_t opcode, unsigned i)
{
	rig_inject(a,
		   &(struct packet){ .opcode = opcode,
				     .psn = psn_of(PSN + i),
				     .va = address_of(0),
				     .rkey = there_mr->ib.rkey,
				     .length = 8,
				     .swap_add = 1 },
		   NULL);
}

static void inject_flushes(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		rig_inject(a,
			   &(struct packet){ .opcode = FLUSH_OPCODE,
					     .psn = psn_of(PSN + i),
					     .va = address_of(0),
					     .rkey = there_mr->ib.rkey,
					     .length = 64,
					     .flush_types = COMPAT_FLUSH_GLOBAL },
			   NULL);
}

/* More at once than there are resources, from a peer that does not count them. */
static void test_many_flushes(void **state)
{
	connect(ACCESS);
	rig_on_packet = count_answers;
	inject_flushes(0, 3 * RESOURCES);
	for (unsigned i = 0; i < 3 * RESOURCES; i++)
		rig_step();
	run();
	assert_int_equal(responses, 3 * RESOURCES);
	assert_int_equal(naks, 0);
	/* the socket is full: FLUSHes without room count as lost, and are repeated */
	inject_flushes(3 * RESOURCES, 5 * RESOURCES);
	rig_full_after = 0;
	for (unsigned i = 0; i < 2 * RESOURCES; i++)
		rig_step();
	rig_full_after = UINT32_MAX;
	run();
	assert_int_equal(responses, 4 * RESOURCES);
	assert_int_equal(naks, 1);
	inject_flushes(4 * RESOURCES, 5 * RESOURCES);
	run();
	assert_int_equal(responses, 5 * RESOURCES);
	assert_int_equal(qp_state(b), IBV_QPS_RTS);
}

/* The same for duplicates: with few resources, too, all of them are answered at once. */
static void test_many_repeated_flushes(void **state)
{
	connect(ACCESS);
	rig_on_packet = count_answers;
	for (unsigned round = 1; round <= 2; round++) {
		inject_flushes(0, 3 * RESOURCES);
		for (unsigned i = 0; i < 3 * RESOURCES; i++)
			rig_step();
		roce_flush();
		run();
		assert_int_equal(responses, round * 3 * RESOURCES);
	}
	assert_int_equal(naks, 0);
	assert_int_equal(qp_state(b), IBV_QPS_RTS);
}

/* Behind as many FLUSHes as there are resources, new or repeated: a READ and an atomic. */
static void test_read_behind_flushes(void **state)
{
	static const uint8_t kinds[] = { READ_OPCODE, FETCH_ADD_OPCODE };

	connect(ACCESS | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	rig_on_packet = count_answers;
	results = 0;
	for (unsigned round = 0; round < 4; round++) {
		unsigned first = round % 2 * (RESOURCES + 1);

		inject_flushes(first, first + RESOURCES);
		inject_one(kinds[round % 2], first + RESOURCES);
		for (unsigned i = 0; i <= RESOURCES; i++)
			rig_step();
		roce_flush();
		run();
		assert_int_equal(results, (round + 1) / 2);
		assert_int_equal(naks, 0);
		assert_int_equal(qp_state(b), IBV_QPS_RTS);
	}
	assert_int_equal(responses, 4 * RESOURCES + 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_atomic_write),
		TEST(test_flush),
		TEST(test_request_is_lost),
		TEST(test_response_is_lost),
		TEST(test_acknowledgement_is_no_response),
		TEST(test_unaligned),
		TEST(test_wrong_key),
		TEST(test_qp_without_right),
		TEST(test_flush_without_right),
		TEST(test_flush_out_of_range),
		TEST(test_malformed),
		TEST(test_many_flushes),
		TEST(test_many_repeated_flushes),
		TEST(test_read_behind_flushes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
