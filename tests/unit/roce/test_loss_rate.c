/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a lossy path costs: messages of 64 KiB over a path that loses packets at random take hardly
 * longer than over one that does not.
 *
 * Two hosts, each with a processor that needs some time for each packet and each call, and a delay
 * between them. All time is virtual, so the ratios are the same on every machine.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES	 (64 * 1024)
#define DEPTH	 60
#define POLL	 64 /* packets that a host takes at once */
#define QUEUE	 8192
#define MESSAGES 1000
#define DELAY_NS 20000
#define CALL_NS	 3000
#define ACCESS	 (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;

struct flight {
	uint64_t when_ns;
	struct wire_flow flow;
	uint32_t length;
	uint8_t bytes[RIG_BYTES_MAX];
};

static struct host {
	uint64_t now_ns;
	uint32_t head, tail;
	struct flight queue[QUEUE]; /* packets to it, in order of arrival */
} hosts[2];

static struct host *acting; /* whose processor runs */
static unsigned loss_ppm, random_state;

static uint64_t now(void)
{
	return rig_now_ns;
}

static void spend(uint64_t ns)
{
	acting->now_ns += ns;
}

static uint64_t packet_ns(uint32_t length)
{
	return 300 + length / 3;
}

static bool is_lost(void)
{
	return loss_ppm && (unsigned)(rand_r(&random_state) % 1000000) < loss_ppm;
}

static struct host *host_of(const uint8_t *header)
{
	uint32_t qpn = (uint32_t)header[5] << 16 | (uint32_t)header[6] << 8 | header[7];

	return qpn == a->ib.qp_num ? &hosts[0] : &hosts[1];
}

/* Timers of both fire in one call: who sends has the processor. */
static void act_as_sender(const uint8_t *header)
{
	acting = host_of(header) == &hosts[0] ? &hosts[1] : &hosts[0];
	if (acting->now_ns < rig_now_ns)
		acting->now_ns = rig_now_ns;
}

static enum wire_result send_packets(const struct wire_flow *flow,
				     const struct wire_packet *packets, unsigned count,
				     unsigned *sent)
{
	struct host *before = acting;

	act_as_sender(packets->header);
	spend(CALL_NS);
	for (*sent = 0; *sent < count; (*sent)++) {
		const struct wire_packet *from = &packets[*sent];
		struct host *to = host_of(from->header);
		struct flight *flight = &to->queue[to->tail % QUEUE];
		uint32_t at = from->header_bytes;

		spend(packet_ns(from->header_bytes + from->payload_bytes));
		if (is_lost())
			continue;
		assert_true(to->tail - to->head < QUEUE);
		to->tail++;
		flight->when_ns = acting->now_ns + DELAY_NS;
		flight->flow = *flow;
		memcpy(flight->bytes, from->header, from->header_bytes);
		for (unsigned i = 0; i < from->pieces; i++) {
			memcpy(flight->bytes + at, from->piece[i].iov_base, from->piece[i].iov_len);
			at += (uint32_t)from->piece[i].iov_len;
		}
		memset(flight->bytes + at, 0, from->pad_bytes);
		flight->length = at + from->pad_bytes;
	}
	acting = before;
	return WIRE_SENT;
}

static bool sends_gso(const struct wire_flow *flow)
{
	return true;
}

static void deadline(uint64_t ns)
{
}

static void receive(struct host *host)
{
	unsigned count = 0;

	while (count < POLL && host->head + count != host->tail &&
	       host->queue[(host->head + count) % QUEUE].when_ns <= host->now_ns)
		count++;
	if (count)
		spend(CALL_NS);
	for (unsigned i = 0; i < count; i++) {
		struct flight *flight = &host->queue[host->head++ % QUEUE];
		struct wire_arrival arrival = { &flight->flow, flight->bytes, flight->length,
						rig_now_ns, i + 1 < count };

		spend(packet_ns(flight->length));
		roce_receive(&arrival);
	}
}

/* When the host has something to do. */
static uint64_t next_ns(const struct host *host)
{
	uint64_t next = host == &hosts[0] ? roce_deadline_ns() : TRANSPORT_NEVER;

	if (host->head != host->tail && host->queue[host->head % QUEUE].when_ns < next)
		next = host->queue[host->head % QUEUE].when_ns;
	return next > host->now_ns ? next : host->now_ns;
}

static void post(enum ibv_wr_opcode opcode, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)there, BYTES, there_mr->ib.lkey };

	if (opcode == IBV_WR_SEND)
		rig_post_receive(b, UINT64_MAX, &sge);
	pair_post(opcode, BYTES, wr_id);
}

/* The virtual time of so many messages. */
static uint64_t run(enum ibv_wr_opcode opcode, unsigned messages)
{
	unsigned posted = 0, done = 0;
	uint64_t start_ns = rig_now_ns;

	hosts[0].now_ns = hosts[1].now_ns = rig_now_ns;
	while (done < messages) {
		struct ibv_wc wc;

		acting = next_ns(&hosts[0]) <= next_ns(&hosts[1]) ? &hosts[0] : &hosts[1];
		if (posted < messages && posted - done < DEPTH)
			acting = &hosts[0];
		else
			acting->now_ns = next_ns(acting);
		if (acting->now_ns > rig_now_ns)
			rig_now_ns = acting->now_ns;
		receive(acting);
		if (acting == &hosts[0] && roce_deadline_ns() <= rig_now_ns) /* its timers */
			roce_run(rig_now_ns);
		roce_flush();
		while (cq_pop(rig.cq, 1, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			if (wc.wr_id == UINT64_MAX)
				continue;
			assert_int_equal(wc.wr_id, done);
			done++;
		}
		while (acting == &hosts[0] && posted < messages && posted - done < DEPTH)
			post(opcode, posted++);
	}
	return hosts[0].now_ns - start_ns;
}

static uint64_t measure(enum ibv_wr_opcode opcode, enum ibv_mtu mtu, unsigned ppm,
			unsigned messages)
{
	struct roce_env env;
	struct rig_options options = { .mtu = mtu,
				       .access = ACCESS,
				       .timeout = 18,
				       .retry_cnt = 7,
				       .rnr_retry = 7,
				       .min_rnr_timer = 12,
				       .rd_atomic = 16,
				       .psn = 0xfffff0 };
	uint64_t ns;

	pair_regions(here, there, BYTES, ACCESS);
	rig_buffer_bytes = 4 * 1024 * 1024;
	env = roce_env;
	env.now = now;
	env.send = send_packets;
	env.sends_gso = sends_gso;
	env.deadline = deadline;
	roce_init(&env);
	pair_connect(IBV_QPT_RC, &options);
	for (unsigned i = 0; i < 2; i++)
		hosts[i].head = hosts[i].tail = 0;
	loss_ppm = ppm;
	random_state = 7;
	ns = run(opcode, messages);
	if (opcode != IBV_WR_RDMA_READ)
		assert_memory_equal(here, there, BYTES);
	pair_teardown(NULL);
	return ns;
}

static const struct row {
	enum ibv_wr_opcode opcode;
	enum ibv_mtu mtu;
	unsigned loss_ppm;
	unsigned least; /* percent of what it is without loss */
} rows[] = {
	{ IBV_WR_RDMA_WRITE, IBV_MTU_4096, 1000, 97 },
	{ IBV_WR_RDMA_WRITE, IBV_MTU_4096, 10000, 90 },
	{ IBV_WR_RDMA_WRITE, IBV_MTU_4096, 50000, 55 },
	{ IBV_WR_RDMA_WRITE, IBV_MTU_1024, 1000, 97 },
	{ IBV_WR_RDMA_WRITE, IBV_MTU_1024, 10000, 85 },
	{ IBV_WR_RDMA_READ, IBV_MTU_4096, 1000, 95 },
	{ IBV_WR_RDMA_READ, IBV_MTU_4096, 10000, 82 },
	{ IBV_WR_RDMA_READ, IBV_MTU_4096, 50000, 38 },
	{ IBV_WR_RDMA_READ, IBV_MTU_1024, 1000, 95 },
	{ IBV_WR_RDMA_READ, IBV_MTU_1024, 10000, 80 },
	{ IBV_WR_SEND, IBV_MTU_4096, 1000, 97 },
	{ IBV_WR_SEND, IBV_MTU_4096, 10000, 88 },
	{ IBV_WR_SEND, IBV_MTU_1024, 1000, 97 },
};

static void test_rates(void **state)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		uint64_t without = measure(row->opcode, row->mtu, 0, MESSAGES);
		uint64_t with = measure(row->opcode, row->mtu, row->loss_ppm, MESSAGES);
		unsigned percent = (unsigned)(100 * without / with);

		print_message("opcode %d, MTU %u, %u of a million lost: %u %%\n", row->opcode,
			      128u << row->mtu, row->loss_ppm, percent);
		assert_in_range(percent, row->least, 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rates) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
