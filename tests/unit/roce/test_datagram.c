/* SPDX-License-Identifier: BSD-2-Clause */
/* UD: datagrams that arrive, with their GRH, and datagrams that are dropped. */
#include "pair.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/counter.h"
#include "object/ah.h"
#include "packet/grh.h"
#include "roce/datagram.h"

#define CNP    0x81
#define BYTES  65536
#define ACCESS IBV_ACCESS_LOCAL_WRITE

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
static struct ah *ah;
static uint32_t remote_qpn; /* 0: that of b */

static const union ibv_gid v4 = { .raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 } };
static const union ibv_gid v4_group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
static const union ibv_gid v6 = { .raw = { 0xfd, 1, [15] = 1 } };

static void make_ah(const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = *gid, .hop_limit = 64 } };

	assert_int_equal(ah_create(rig.pd, &attr, &v4, false, &ah), 0);
}

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	pair_connect(IBV_QPT_UD, &(struct rig_options){ .psn = 0 });
	make_ah(&v4);
	return 0;
}

static int teardown(void **state)
{
	ah_destroy(ah);
	return pair_teardown(state);
}

static void post_receive(uint64_t wr_id, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)there, bytes, there_mr->ib.lkey };

	rig_post_receive(b, wr_id, &sge);
}

static enum wire_result send_with(uint32_t bytes, uint32_t qkey, enum ibv_wr_opcode opcode,
				  uint32_t lkey, enum cause *cause)
{
	struct ibv_sge sge = { (uintptr_t)here, bytes, lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.imm_data = 0xabcd,
		.wr.ud = { .ah = &ah->ib,
			   .remote_qpn = remote_qpn ? remote_qpn : b->ib.qp_num,
			   .remote_qkey = qkey },
	};
	enum wire_result result;
	unsigned sent;

	lock_acquire(&a->lock);
	assert_int_equal(sq_push(&a->sq, &wr), 0);
	result = datagram_transmit(a, a->sq.tail - 1, 1, &sent, cause);
	sq_roll_back(&a->sq, a->sq.tail - 1);
	lock_release(&a->lock);
	rig_run(rig_now_ns);
	return result;
}

static enum wire_result send(uint32_t bytes, uint32_t qkey)
{
	enum cause cause;

	return send_with(bytes, qkey, IBV_WR_SEND, here_mr->ib.lkey, &cause);
}

/* Posts datagrams, each with its number as the first byte; sends from the first on. */
static enum wire_result send_many(const uint32_t *lengths, unsigned count, unsigned most,
				  unsigned *sent, enum cause *cause)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.num_sge = 1,
		.wr.ud = { .ah = &ah->ib, .remote_qpn = b->ib.qp_num, .remote_qkey = 0x11 },
	};
	uint64_t now = rig_now_ns;
	enum wire_result result;
	uint32_t first;

	lock_acquire(&a->lock);
	first = a->sq.tail;
	for (unsigned i = 0; i < count; i++) {
		struct ibv_sge sge = { (uintptr_t)here + i, lengths[i], here_mr->ib.lkey };

		wr.sg_list = &sge;
		assert_int_equal(sq_push(&a->sq, &wr), 0);
	}
	result = datagram_transmit(a, first, most, sent, cause);
	sq_roll_back(&a->sq, first);
	lock_release(&a->lock);
	rig_run(now);
	rig_now_ns = now; /* deliveries take some time, but the pace is to be exact */
	return result;
}

static void test_many_leave_in_one_call(void **state)
{
	uint32_t lengths[62];
	unsigned sent;
	enum cause cause;

	for (unsigned i = 0; i < 62; i++) {
		lengths[i] = 512;
		post_receive(i, 2000);
	}
	assert_int_equal(send_many(lengths, 62, 40, &sent, &cause), WIRE_SENT);
	assert_int_equal(sent, 40);
	assert_int_equal(rig_calls, 1);
	assert_int_equal(rig_call_packets[0], 40);
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(rig_completion(&rig).byte_len, 40 + 512);
	assert_memory_equal(there + 40, here + 39, 512); /* all receives are one buffer */
	assert_true(rig_is_quiet(&rig));
	/* 64 KiB fill the pace of a small buffer */
	assert_int_equal(send_many(lengths, 62, 62, &sent, &cause), WIRE_SENT);
	assert_int_equal(sent, PACE_BURST_BYTES / (512 + 512) - 40);
	assert_int_equal(send_many(lengths, 62, 62, &sent, &cause), WIRE_FULL);
	rig_now_ns += PACE_INTERVAL_NS / 4;
	assert_int_equal(send_many(lengths, 62, 62, &sent, &cause), WIRE_SENT);
	assert_int_equal(sent, 16);
}

static void test_pace_by_buffer(void **state)
{
	assert_int_equal(pace_burst(0), PACE_BURST_BYTES);
	assert_int_equal(pace_burst(208 * 1024), PACE_BURST_BYTES);
	assert_int_equal(pace_burst(8 * PACE_BURST_BYTES + 8), PACE_BURST_BYTES + 1);
	assert_int_equal(pace_burst(16 << 20), PACE_BURST_MAX_BYTES);
}

/* A mark halves the rate, whatever came before, and each interval gives some of it back. */
static void test_pace_after_marks(void **state)
{
	const uint32_t burst = PACE_BURST_BYTES, share = burst / PACE_SHARES;
	struct pace pace = { 0 };
	uint64_t now = 1000 * PACE_INTERVAL_NS;

	pace_use(&pace, pace_allows(&pace, burst, now));
	pace_on_mark(&pace, now);
	now += PACE_INTERVAL_NS - 1;
	assert_in_range(pace_allows(&pace, burst, now), burst / 2 - 2, burst / 2);
	now++;
	pace_use(&pace, pace_allows(&pace, burst, now));
	pace_on_mark(&pace, now);
	pace_on_mark(&pace, now); /* of another receiver */
	assert_in_range(pace.withheld, PACE_SHARES * 3 / 4 - 4, PACE_SHARES * 3 / 4);
	for (unsigned i = 0; i < 20; i++) {
		now += PACE_INTERVAL_NS;
		pace_on_mark(&pace, now);
	}
	pace_use(&pace, pace_allows(&pace, burst, now));
	now += PACE_INTERVAL_NS - 1;
	assert_in_range(pace_allows(&pace, burst, now), PACE_SHARES_MIN * share - 2,
			PACE_SHARES_MIN * share);
	for (unsigned i = PACE_SHARES_MIN; i < PACE_SHARES; i += PACE_REGROWTH)
		now += PACE_INTERVAL_NS;
	pace_use(&pace, pace_allows(&pace, burst, now));
	now += PACE_INTERVAL_NS;
	assert_int_equal(pace_allows(&pace, burst, now), burst);
}

static unsigned notifications;

static bool count_notifications(struct rig_packet *packet, struct packet *decoded)
{
	if (decoded->opcode != CNP)
		return true;
	assert_int_equal(decoded->dest_qpn, a->ib.qp_num);
	assert_true(decoded->becn);
	assert_int_equal(packet->flow.traffic_class & WIRE_ECN_MASK, 0);
	notifications++;
	return true;
}

static bool mark(struct rig_packet *packet, struct packet *decoded)
{
	if (decoded->opcode != CNP)
		packet->flow.traffic_class |= WIRE_ECN_CE;
	return count_notifications(packet, decoded);
}

/*
 * Datagrams come faster than they are received, or were marked: their sender gets a notification,
 * one in 50 us at most, and is slower.
 */
static void test_congestion(void **state)
{
	uint64_t handled = counter_read(COUNTER_RP_CNP_HANDLED);

	notifications = 0;
	rig_on_packet = count_notifications;
	send(100, 0x11);
	assert_int_equal(notifications, 0);
	rig_backlogged = true;
	for (unsigned i = 0; i < 3; i++)
		send(100, 0x11); /* also where there is no receive for it */
	rig_backlogged = false;
	assert_int_equal(notifications, 1);
	assert_int_equal(counter_read(COUNTER_RP_CNP_HANDLED) - handled, 1);
	assert_in_range(a->datagram_pace.withheld, PACE_SHARES / 2 - 1, PACE_SHARES / 2);
	assert_int_equal(b->datagram_pace.withheld, 0);
	rig_now_ns += 60000;
	rig_on_packet = mark;
	send(100, 0x11);
	assert_int_equal(notifications, 2);
}

/* Those before a bad one leave; its own turn finds what is wrong with it. */
static void test_a_bad_one_behind_others(void **state)
{
	static const uint32_t lengths[] = { 8, 8, 1025, 8 };
	unsigned sent;
	enum cause cause;

	post_receive(1, 2000);
	post_receive(2, 2000);
	assert_int_equal(send_many(lengths, 4, 4, &sent, &cause), WIRE_SENT);
	assert_int_equal(sent, 2);
	assert_int_equal(cause, CAUSE_NONE);
	assert_int_equal(rig_completion(&rig).wr_id, 1);
	assert_int_equal(rig_completion(&rig).wr_id, 2);
	assert_int_equal(send_many(lengths + 2, 2, 2, &sent, &cause), WIRE_FAULT);
	assert_int_equal(cause, CAUSE_MESSAGE_TOO_LONG);
}

/* The rest of a call that the socket did not take is sent later, with the next PSNs. */
static void test_a_socket_that_takes_some(void **state)
{
	static const uint32_t lengths[] = { 8, 8, 8, 8 };
	unsigned sent;
	enum cause cause;

	for (unsigned i = 0; i < 4; i++)
		post_receive(i, 2000);
	rig_full_after = 3;
	assert_int_equal(send_many(lengths, 4, 4, &sent, &cause), WIRE_SENT);
	assert_int_equal(sent, 3);
	assert_int_equal(a->datagram_psn.number, 3);
	assert_int_equal(send_many(lengths + 3, 1, 1, &sent, &cause), WIRE_FULL);
	rig_full_after = UINT32_MAX;
	assert_int_equal(send_many(lengths + 3, 1, 1, &sent, &cause), WIRE_SENT);
	assert_int_equal(a->datagram_psn.number, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig_completion(&rig).wr_id, i);
}

/*
 * The program may change the data of a datagram that has not left. What a signal handler interrupts
 * may hold the allocator's lock, and perftest's handler allocates: copying does not.
 */
static void test_copies_without_allocating(void **state)
{
	struct ibv_sge sge = { (uintptr_t)here, 1024, here_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.ud = { .ah = &ah->ib, .remote_qpn = b->ib.qp_num, .remote_qkey = 0x11 },
	};
	struct mallinfo2 before = mallinfo2(), copied, sent_all;
	enum cause cause;
	unsigned sent;
	uint32_t first;

	lock_acquire(&a->lock);
	first = a->sq.tail;
	for (char i = 0; i < 4; i++) {
		here[0] = i;
		assert_int_equal(sq_push(&a->sq, &wr), 0);
		sq_keep_data(&a->sq, first, rig.pd->number, 1024);
	}
	here[0] = 4;
	copied = mallinfo2();
	for (unsigned i = 0; i < 4; i++)
		post_receive(i, 2000);
	assert_int_equal(datagram_transmit(a, first, 4, &sent, &cause), WIRE_SENT);
	assert_int_equal(sent, 4);
	sq_roll_back(&a->sq, first);
	sent_all = mallinfo2();
	lock_release(&a->lock);
	assert_int_equal(copied.uordblks, before.uordblks);
	assert_int_equal(sent_all.uordblks, before.uordblks);
	for (char i = 0; i < 4; i++) {
		rig_step();
		assert_int_equal(there[40], i);
	}
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig_completion(&rig).wr_id, i);
}

/* One that is too long for the path is lost alone. */
static void test_a_path_that_is_too_narrow(void **state)
{
	static const uint32_t lengths[] = { 8, 1000, 8 };
	unsigned sent;
	enum cause cause;

	post_receive(1, 2000);
	rig_full_after = 1;
	rig_refusal = WIRE_TOO_LONG;
	assert_int_equal(send_many(lengths, 3, 3, &sent, &cause), WIRE_SENT);
	assert_int_equal(sent, 2);
	assert_int_equal(rig_completion(&rig).wr_id, 1);
}

static void test_another_process_gets_its_own_call(void **state)
{
	struct ibv_sge sge = { (uintptr_t)here, 8, here_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.ud = { .ah = &ah->ib, .remote_qpn = b->ib.qp_num, .remote_qkey = 0x11 },
	};
	unsigned sent;
	enum cause cause;

	post_receive(1, 2000);
	lock_acquire(&a->lock);
	assert_int_equal(sq_push(&a->sq, &wr), 0);
	wr.wr.ud.remote_qpn += 1 << ARENA_QP_BITS;
	assert_int_equal(sq_push(&a->sq, &wr), 0);
	assert_int_equal(datagram_transmit(a, a->sq.tail - 2, 2, &sent, &cause), WIRE_SENT);
	assert_int_equal(sent, 1);
	sq_roll_back(&a->sq, a->sq.tail - 2);
	lock_release(&a->lock);
	rig_run(rig_now_ns);
	assert_int_equal(rig_completion(&rig).wr_id, 1);
}

static void test_delivery(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 7, 1024 };
	struct ibv_wc wc;

	for (unsigned i = 0; i < 4; i++) {
		post_receive(i, 2000);
		assert_int_equal(send(sizes[i], 0x11), WIRE_SENT);
		wc = rig_completion(&rig);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 40 + sizes[i]);
		assert_int_equal(wc.src_qp, a->ib.qp_num);
		assert_int_equal(wc.wc_flags, IBV_WC_GRH);
		assert_int_equal(wc.pkey_index, 0);
		assert_memory_equal(there + 40, here, sizes[i]);
	}
}

/* 20 zeroes, then the IPv4 header with a correct checksum. */
static void test_v4_header(void **state)
{
	static const uint8_t zeroes[20], own[4] = { 10, 0, 0, 1 };
	uint32_t sum = 0;

	post_receive(1, 2000);
	send(100, 0x11);
	rig_completion(&rig);
	assert_memory_equal(there, zeroes, 20);
	assert_int_equal(there[20], 0x45);
	assert_int_equal(there[22] << 8 | there[23], 20 + 8 + 12 + 8 + 100 + 4);
	assert_int_equal(there[28], 64);
	assert_int_equal(there[29], 17);
	assert_memory_equal(there + 32, own, 4);
	assert_memory_equal(there + 36, own, 4);
	for (unsigned i = 20; i < 40; i += 2)
		sum += (uint32_t)(there[i] << 8 | there[i + 1]);
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
}

static bool as_v6(struct rig_packet *packet, struct packet *decoded)
{
	memcpy(packet->flow.local, v6.raw, 16);
	memcpy(packet->flow.remote, v6.raw, 16);
	return true;
}

static void test_v6_header(void **state)
{
	rig_on_packet = as_v6;
	post_receive(1, 2000);
	send(8, 0x11);
	rig_completion(&rig);
	assert_int_equal(there[0] >> 4, 6);
	assert_int_equal(there[4] << 8 | there[5], 8 + 12 + 8 + 8 + 4);
	assert_int_equal(there[6], 17);
	assert_memory_equal(there + 8, v6.raw, 16);
	assert_memory_equal(there + 24, v6.raw, 16);
}

static void test_immediate(void **state)
{
	enum cause cause;
	struct ibv_wc wc;

	post_receive(1, 2000);
	assert_int_equal(send_with(3, 0x11, IBV_WR_SEND_WITH_IMM, here_mr->ib.lkey, &cause),
			 WIRE_SENT);
	wc = rig_completion(&rig);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0xabcd);
	assert_int_equal(wc.byte_len, 43);
}

/* Dropped silently; the next one gets the receive. */
static void test_dropped(void **state)
{
	assert_int_equal(send(10, 0x11), WIRE_SENT); /* no receive */
	post_receive(1, 60);
	assert_int_equal(send(10, 0x12), WIRE_SENT); /* Q_Key */
	assert_int_equal(send(21, 0x11), WIRE_SENT); /* too long with the GRH */
	assert_true(rig_is_quiet(&rig));
	assert_int_equal(send(20, 0x80000000), WIRE_SENT); /* the QP's own Q_Key */
	assert_int_equal(rig_completion(&rig).byte_len, 60);
}

/* Its program may have unmapped the memory of the receives before it destroys the QP. */
static void test_none_for_a_qp_that_is_being_destroyed(void **state)
{
	post_receive(1, 2000);
	memset(there, 0, BYTES);
	b->closed = true;
	assert_int_equal(send(16, 0x11), WIRE_SENT);
	assert_true(rig_is_quiet(&rig));
	for (unsigned i = 0; i < 40 + 16; i++)
		assert_int_equal(there[i], 0);
	b->closed = false;
	assert_int_equal(send(16, 0x11), WIRE_SENT);
	assert_int_equal(rig_completion(&rig).byte_len, 40 + 16);
}

static void test_refused(void **state)
{
	enum cause cause;

	assert_int_equal(send_with(1025, 0x11, IBV_WR_SEND, here_mr->ib.lkey, &cause), WIRE_FAULT);
	assert_int_equal(cause, CAUSE_MESSAGE_TOO_LONG);
	assert_int_equal(send_with(10, 0x11, IBV_WR_SEND, here_mr->ib.lkey + 1, &cause),
			 WIRE_FAULT);
	assert_int_not_equal(cause, CAUSE_NONE);
	rig_full_after = 0;
	assert_int_equal(send(10, 0x11), WIRE_FULL);
	rig_refusal = WIRE_NO_ROUTE;
	assert_int_equal(send(10, 0x11), WIRE_SENT);
	assert_int_equal(rig_sent, 0);
}

/* The cause is reported once, until a datagram is sent again. */
static void test_no_route_is_told(void **state)
{
	_Atomic uint64_t *told = &arena_header(rig.arena)->cause_next;

	cause_init(rig.arena);
	rig_refusal = WIRE_NO_ROUTE;
	for (uint64_t times = 1; times <= 2; times++) {
		rig_full_after = 0;
		for (int i = 0; i < 3; i++) {
			assert_int_equal(send(10, 0x11), WIRE_SENT);
			assert_int_equal(*told, times);
		}
		rig_full_after = UINT32_MAX;
		post_receive(times, 60);
		assert_int_equal(send(10, 0x11), WIRE_SENT);
		assert_int_equal(rig_completion(&rig).wr_id, times);
	}
	cause_init(NULL);
}

/* A missing QP of this process is not reported; a QP of another process is. */
static void test_unknown_qps(void **state)
{
	struct qp *gone = rig_qp(&rig, IBV_QPT_UD);
	uint32_t gone_qpn = gone->ib.qp_num;
	_Atomic uint64_t *told = &arena_header(rig.arena)->cause_next;
	struct arena_cause cause;
	uint64_t before, misdelivered, destroyed;

	counter_init(rig.arena);
	before = counter_read(COUNTER_NO_QP);
	misdelivered = counter_read(COUNTER_MISDELIVERED);
	destroyed = counter_read(COUNTER_QP_DESTROYED);
	cause_init(rig.arena);
	post_receive(1, 200);
	remote_qpn = RIG_SLOT << ARENA_QP_BITS | 16000;
	assert_int_equal(send(10, 0x11), WIRE_SENT);
	assert_int_equal(counter_read(COUNTER_NO_QP), before + 1);
	assert_int_equal(counter_read(COUNTER_MISDELIVERED), misdelivered);
	assert_int_equal(counter_read(COUNTER_QP_DESTROYED), destroyed);
	assert_int_equal(qp_destroy(gone), 0);
	remote_qpn = gone_qpn;
	assert_int_equal(send(10, 0x11), WIRE_SENT);
	assert_int_equal(counter_read(COUNTER_QP_DESTROYED), destroyed + 1);
	assert_int_equal(counter_read(COUNTER_NO_QP), before + 1);
	assert_int_equal(*told, 0);
	remote_qpn = (RIG_SLOT + 1) << ARENA_QP_BITS | (b->ib.qp_num & (ARENA_QPS - 1));
	for (int i = 0; i < 3; i++)
		assert_int_equal(send(10, 0x11), WIRE_SENT);
	assert_int_equal(counter_read(COUNTER_NO_QP), before + 4);
	assert_int_equal(counter_read(COUNTER_MISDELIVERED), misdelivered + 3);
	assert_int_equal(*told, 1); /* of many, one a second */
	assert_true(cause_read(&arena_causes(rig.arena)[0], &cause));
	assert_int_equal(cause.cause, CAUSE_PACKET_MISDELIVERED);
	assert_true(rig_is_quiet(&rig));
	remote_qpn = 0;
	cause_init(NULL);
	counter_init(NULL);
}

static void test_multicast(void **state)
{
	ah_destroy(ah);
	make_ah(&v4_group);
	rig_set_member(0, a);
	rig_set_member(1, b);
	post_receive(1, 200);
	assert_int_equal(send(10, 0x11), WIRE_SENT); /* a has no receive */
	assert_int_equal(rig_completion(&rig).wr_id, 1);
	assert_memory_equal(there + 36, v4_group.raw + 12, 4);
	rig_set_member(1, NULL);
	post_receive(2, 200);
	assert_int_equal(send(10, 0x11), WIRE_SENT);
	assert_true(rig_is_quiet(&rig));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		TEST(delivery),
		TEST(v4_header),
		TEST(v6_header),
		TEST(immediate),
		TEST(dropped),
		TEST(none_for_a_qp_that_is_being_destroyed),
		TEST(refused),
		TEST(no_route_is_told),
		TEST(multicast),
		TEST(unknown_qps),
		TEST(many_leave_in_one_call),
		TEST(pace_by_buffer),
		TEST(pace_after_marks),
		TEST(congestion),
		TEST(a_bad_one_behind_others),
		TEST(a_socket_that_takes_some),
		TEST(copies_without_allocating),
		TEST(a_path_that_is_too_narrow),
		TEST(another_process_gets_its_own_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
