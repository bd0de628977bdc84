/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The iWARP engine with any bytes of a peer, any posted requests, and streams that end at any time:
 * it stores to no memory without a valid key, each request completes once, and each stream ends
 * once.
 *
 * The input is a program: each step posts, reads, makes room, forges a segment or changes the
 * stream. Forged segments mostly have the queue, the MSN and the key that are right, which chance
 * would not find.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/iwarp/rig.h"
#include "iwarp/bytes.h"
#include "iwarp/crc32c.h"

#define STEPS_MAX  300
#define OPEN_BYTES 65536 /* of each region: no key that the input knows is of the rest */
#define FILLER	   0xee
#define ALL	   (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	const uint8_t *at;
	size_t left;
} input;

static struct mr *open_mr[2];
static unsigned posted[2], received[2]; /* and not completed */

static uint8_t take(void)
{
	if (!input.left)
		return 0;
	input.left--;
	return *input.at++;
}

static uint32_t take32(void)
{
	uint32_t value = take();

	value = value << 8 | take();
	value = value << 8 | take();
	return value << 8 | take();
}

/* Mostly small. */
static uint32_t take_length(void)
{
	uint8_t kind = take();

	return kind < 128 ? kind : kind < 250 ? (kind & 63u) * 200u : take32() % OPEN_BYTES;
}

static void poll(unsigned end)
{
	struct ibv_wc wc;

	while (cq_pop(rig[end].cq, 1, &wc) == 1) {
		unsigned *count = wc.wr_id & 1 ? &received[end] : &posted[end];

		assert_true(*count > 0);
		--*count;
	}
}

static struct ibv_sge take_sge(unsigned end)
{
	uint8_t how = take();

	return (struct ibv_sge){
		.addr = (uintptr_t)rig[end].memory + (how & 15u) * 4096u,
		.length = take_length(),
		.lkey = open_mr[end]->ib.lkey ^ (how > 250),
	};
}

static void post(unsigned end)
{
	static const enum ibv_wr_opcode wr_opcodes[] = { IBV_WR_SEND,
							 IBV_WR_RDMA_WRITE,
							 IBV_WR_RDMA_READ,
							 IBV_WR_RDMA_WRITE_WITH_IMM,
							 IBV_WR_ATOMIC_FETCH_AND_ADD,
							 IBV_WR_ATOMIC_CMP_AND_SWP,
							 IBV_WR_SEND_WITH_INV,
							 IBV_WR_LOCAL_INV };
	uint8_t how = take();
	struct ibv_sge sges[2] = { take_sge(end), take_sge(end) };
	struct ibv_send_wr wr = {
		.opcode = wr_opcodes[how & 7],
		.sg_list = sges,
		.num_sge = how & 8 ? 2 : 1,
		.send_flags = (how & 16 ? IBV_SEND_FENCE : 0) | (how & 32 ? IBV_SEND_SOLICITED : 0),
		.wr.rdma = { (uintptr_t)rig[!end].memory + take() * 256u,
			     open_mr[!end]->ib.rkey ^ (how > 250) },
	};

	if (posted[end] >= 60)
		return;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		sges[0].length = 8;
		wr.num_sge = 1;
		wr.wr.atomic.remote_addr = (uintptr_t)rig[!end].memory + (how & 64u);
		wr.wr.atomic.rkey = open_mr[!end]->ib.rkey;
	}
	posted[end]++;
	rig_post_wr(end, &wr);
}

static void post_receive(unsigned end)
{
	struct ibv_sge sge = take_sge(end);
	struct ibv_recv_wr *bad, wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
	struct qp *qp = rig[end].qp;

	if (received[end] >= 60)
		return;
	received[end]++;
	assert_int_equal(rq_post(qp->rq, &wr, &bad), 0);
	lock_acquire(&qp->lock);
	if (qp_state(qp) == IBV_QPS_ERR)
		qp_flush(qp);
	lock_release(&qp->lock);
}

static void make_control(const struct segment *segment, unsigned to, uint8_t *payload)
{
	uint64_t address = (uintptr_t)rig[to].memory + take() * 300u;

	if (segment->opcode == RDMAP_READ_REQUEST)
		read_request_encode(&(struct read_request){ take(), open_mr[to]->ib.rkey,
							    take_length(), take(), address },
				    payload);
	if (segment->opcode == RDMAP_ATOMIC_REQUEST)
		atomic_request_encode(&(struct atomic_request){ .code = take() & 3,
								.stag = open_mr[to]->ib.rkey,
								.to = address & ~7ull,
								.swap_mask = UINT64_MAX,
								.compare_mask = UINT64_MAX },
				      payload);
	if (segment->opcode == RDMAP_ATOMIC_RESPONSE)
		put32(payload, iwarp_of(rig[to].qp)->sending.request_msn - 1 - (take() & 1u));
}

/* A segment for end `to`. With a CRC it is right, as CRCs are no secret. */
static void forge(unsigned to)
{
	static uint8_t fpdu[OPEN_BYTES + 256];
	const struct iwarp_qp *iq = iwarp_of(rig[to].qp);
	uint8_t how = take(), opcode = take() & 15;
	const struct outstanding *oldest = outstanding_at(iq, iq->outstanding_head);
	struct segment segment = {
		.opcode = opcode,
		.tagged = (opcode == RDMAP_WRITE || opcode == RDMAP_READ_RESPONSE) != (how == 1),
		.last = how & 2,
		.stag = how & 4 ? open_mr[to]->ib.rkey : take32(),
		.to = (uintptr_t)rig[to].memory + (how & 8 ? take_length() : 0),
	};
	static const uint8_t queues[16] = { [RDMAP_READ_REQUEST] = 1,
					    [RDMAP_TERMINATE] = 2,
					    [RDMAP_ATOMIC_REQUEST] = 1,
					    [RDMAP_ATOMIC_RESPONSE] = 3 };
	uint32_t bytes = take_length(), raw;
	unsigned header;

	segment.queue = queues[opcode] ^ (how == 3);
	segment.msn = iq->expected_msn[segment.queue & 3] + (how == 5);
	segment.mo = how & 16 ? iq->received : 0;
	if (opcode == RDMAP_READ_RESPONSE && how & 32) {
		segment.stag = oldest->stag;
		segment.to = oldest->to + oldest->received;
		bytes = how & 64 ? oldest->length - oldest->received : bytes;
		if (bytes > OPEN_BYTES)
			bytes = OPEN_BYTES;
	}
	header = segment_encode(&segment, fpdu + 2);
	if (how & 128) {
		bytes = opcode == RDMAP_READ_REQUEST	  ? READ_REQUEST_BYTES
			: opcode == RDMAP_ATOMIC_REQUEST  ? ATOMIC_REQUEST_BYTES
			: opcode == RDMAP_ATOMIC_RESPONSE ? ATOMIC_RESPONSE_BYTES
							  : bytes % 64;
		make_control(&segment, to, fpdu + 2 + header);
	}
	if (header + bytes > FPDU_ULPDU_MAX)
		bytes = FPDU_ULPDU_MAX - header;
	put16(fpdu, (uint16_t)(header + bytes));
	raw = fpdu_bytes(header + bytes);
	if (iq->options.mpa.crc)
		crc32c_put(fpdu + raw - 4, crc32c(fpdu, raw - 4));
	if (rig[!to].tail + raw < RIG_STREAM_BYTES / 2)
		rig_inject(!to, fpdu, raw);
}

static void change(unsigned end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct rig_end *it = &rig[end];
	uint8_t how = take(), raw[32];

	if (how < 128 && it->head != it->tail) {
		it->bytes[it->head + take32() % (it->tail - it->head)] ^= (uint8_t)(how | 1);
	} else if (how < 200) {
		for (unsigned i = 0; i < sizeof(raw); i++)
			raw[i] = take();
		rig_inject(end, raw, how % sizeof(raw));
	} else if (how < 220) {
		lock_acquire(&it->qp->lock);
		iwarp_disconnect(it->qp);
		lock_release(&it->qp->lock);
	} else if (how < 235) {
		qp_modify(it->qp, &attr, IBV_QP_STATE);
	} else if (how < 240) {
		it->broken = it->peer->broken = true;
	} else if (how < 245) {
		lock_acquire(&it->qp->lock);
		iwarp_give_up(it->qp);
		lock_release(&it->qp->lock);
	}
}

static void step(void)
{
	uint8_t what = take();
	unsigned end = what & 1;

	rig[end].room = what & 128 ? SIZE_MAX : take() * 64u;
	rig[end].piece = what & 64 ? SIZE_MAX : 1u + take();
	switch (what >> 1 & 7) {
	case 0:
	case 1:
		post(end);
		break;
	case 2:
		post_receive(end);
		break;
	case 3:
	case 4:
		forge(end);
		break;
	case 5:
		change(end);
		break;
	default:
		rig_make_room(end);
		rig_read(end);
		poll(end);
	}
}

static void open_regions(void)
{
	for (int i = 0; i < 2; i++) {
		struct mr_spec spec = { .pd = rig[i].qp->pd,
					.addr = rig[i].memory,
					.length = OPEN_BYTES,
					.iova = (uintptr_t)rig[i].memory,
					.access = ALL | IBV_ACCESS_LOCAL_WRITE };

		assert_int_equal(mr_create(&spec, &open_mr[i]), 0);
		memset(rig[i].memory + OPEN_BYTES, FILLER, OPEN_BYTES);
		posted[i] = received[i] = 0;
	}
}

/* Both streams end; then all is complete, and nothing was stored elsewhere. */
static void finish(void)
{
	static uint8_t filler[OPEN_BYTES];
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	memset(filler, FILLER, sizeof(filler));
	for (int i = 0; i < 2; i++)
		rig[i].room = rig[i].piece = SIZE_MAX;
	rig_run();
	for (unsigned i = 0; i < 2; i++)
		qp_modify(rig[i].qp, &attr, IBV_QP_STATE);
	rig_run();
	for (unsigned i = 0; i < 2; i++) {
		rig[i].broken = true;
		rig_read(i);
		poll(i);
		assert_int_equal(posted[i], 0);
		assert_int_equal(received[i], 0);
		assert_int_equal(rig[i].ends, 1);
		assert_memory_equal(rig[i].memory + OPEN_BYTES, filler, OPEN_BYTES);
		assert_int_equal(mr_destroy(open_mr[i]), 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct iwarp_options options = rig_options();
	uint8_t how;

	input.at = data;
	input.left = size;
	rig_create(ALL);
	open_regions();
	how = take();
	options.mpa.crc = how & 1;
	options.mpa.gets_markers = (how & 6) == 6;
	options.mpa.sends_markers = (how & 10) == 10;
	options.mpa.extensions = how & 16;
	options.mpa.rtr = (enum mpa_rtr)(how >> 5 & 3);
	options.mpa.ird = take() & 7;
	options.mpa.ord = take() & 7;
	options.mulpdu = 128 + take() * 257u;
	if (options.mulpdu > 65535)
		options.mulpdu = 65535;
	rig_connect(&options);
	for (int steps = 0; input.left && steps < STEPS_MAX; steps++)
		step();
	finish();
	rig_destroy(NULL);
	return 0;
}
