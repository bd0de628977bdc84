/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data - moves patterns with one operation, many messages at a time, and compares every byte.
 *
 * The end that was given a host is the initiator. Each message has a slot in both ends' memory, of
 * the same place and size: a guard, the message (its local SGEs apart from each other, at an odd
 * address), a guard. Memory outside of messages must stay blank.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "endpoint.h"
#include "meet.h"
#include "pattern.h"
#include "post.h"

#define GUARD	     64u /* bytes before and after a message; room for a GRH */
#define GAP	     3u	 /* bytes between two SGEs */
#define GRH	     40u
#define MEMORY_MAX   (64u << 20)
#define DEPTH_MAX    256u
#define UC_ARRIVE_NS INT64_C(2000000000)

/* Some messages of one size, outstanding together. */
struct batch {
	struct endpoint *e;
	size_t size;
	size_t slot; /* bytes of a slot */
	unsigned first;
	unsigned count;
};

struct spread {
	struct ibv_sge pieces[ENDPOINT_PIECES_MAX];
	int count;
};

static size_t slot_bytes(const struct options *options, size_t size)
{
	size_t bytes = 2 * GUARD + size + (size_t)options->pieces * GAP + 8;

	return (bytes + 63) / 64 * 64;
}

static unsigned batch_count(const struct options *options, size_t size)
{
	size_t room = MEMORY_MAX / slot_bytes(options, size);

	if (room < 1)
		return 1;
	return room < options->depth ? (unsigned)room : options->depth;
}

static uint8_t *slot_start(const struct batch *b, unsigned i)
{
	return b->e->memory + i * b->slot;
}

static bool is_aligned(enum operation operation)
{
	return op_is_atomic(operation) || operation == OP_ATOMIC_WRITE;
}

/* Where the message begins in its slot, at both ends. */
static size_t message_offset(const struct batch *b, unsigned i)
{
	return i * b->slot + GUARD + (is_aligned(b->e->options->operation) ? 0 : i % 5);
}

/* The message in one piece, for the end that an R_Key names. */
static struct spread whole_of(const struct batch *b, unsigned i)
{
	return (struct spread){
		.pieces = { { .addr = (uintptr_t)b->e->memory + message_offset(b, i),
			      .length = (uint32_t)b->size,
			      .lkey = b->e->mr->lkey } },
		.count = b->size ? 1 : 0,
	};
}

/* The message in several pieces, for the end that SGEs name. */
static struct spread pieces_of(const struct batch *b, unsigned i)
{
	size_t pieces = (size_t)b->e->options->pieces, left = b->size;
	uint64_t at = (uintptr_t)b->e->memory + message_offset(b, i);
	struct spread out = { .count = 0 };

	if (pieces > b->size)
		pieces = b->size;
	for (size_t k = 0; k < pieces; k++) {
		size_t len = k + 1 < pieces ? b->size / pieces : left;

		out.pieces[out.count++] = (struct ibv_sge){ .addr = at,
							    .length = (uint32_t)len,
							    .lkey = b->e->mr->lkey };
		at += len + GAP;
		left -= len;
	}
	return out;
}

static uint64_t seed_of(const struct batch *b, unsigned i)
{
	return pattern_seed(b->e->options->seed, b->size, b->first + i);
}

static uint32_t imm_of(const struct batch *b, unsigned i)
{
	return (uint32_t)seed_of(b, i);
}

/* What atomics do to message i: the word before, the operands, the word after. */
struct atomic_plan {
	uint64_t before, compare_add, swap, after;
};

static struct atomic_plan atomic_plan(const struct batch *b, unsigned i)
{
	struct atomic_plan plan = { .before = seed_of(b, i), .swap = ~seed_of(b, i) };
	bool matches = i % 2 == 0;

	if (b->e->options->operation == OP_FAA) {
		plan.compare_add = plan.before * 3;
		plan.after = plan.before + plan.compare_add;
	} else {
		plan.compare_add = matches ? plan.before : plan.before + 1;
		plan.after = matches ? plan.swap : plan.before;
	}
	return plan;
}

static void blank(const struct batch *b)
{
	memset(b->e->memory, PATTERN_BLANK, b->count * b->slot);
}

static uint64_t word_at(const void *address)
{
	uint64_t word;

	memcpy(&word, address, sizeof(word));
	return word;
}

static void check_word(const struct batch *b, unsigned i, uint64_t wanted, const char *what)
{
	uint64_t word = word_at(b->e->memory + message_offset(b, i));

	if (word != wanted)
		fail("%s of atomic %u is %#llx, not %#llx", what, b->first + i,
		     (unsigned long long)word, (unsigned long long)wanted);
}

/* The message is there, and the rest of the slot is blank, except its first `skip` bytes. */
static void check_slot(const struct batch *b, unsigned i, const struct spread *spread, size_t skip)
{
	const uint8_t *cursor = slot_start(b, i) + skip, *end = slot_start(b, i) + b->slot;
	int64_t wrong = pattern_check(spread->pieces, spread->count, seed_of(b, i));

	if (wrong >= 0)
		fail("message %u of %zu bytes differs at byte %lld", b->first + i, b->size,
		     (long long)wrong);
	for (int k = 0; k <= spread->count; k++) {
		const uint8_t *next = k < spread->count
					      ? (const uint8_t *)(uintptr_t)spread->pieces[k].addr
					      : end;

		if (pattern_check_blank(cursor, (size_t)(next - cursor)) >= 0)
			fail("message %u of %zu bytes: written outside of it", b->first + i,
			     b->size);
		if (k < spread->count)
			cursor = next + spread->pieces[k].length;
	}
}

static void prepare_initiator(const struct batch *b)
{
	blank(b);
	if (b->e->options->operation == OP_READ || op_is_atomic(b->e->options->operation))
		return;
	for (unsigned i = 0; i < b->count; i++) {
		struct spread spread = pieces_of(b, i);

		pattern_fill(spread.pieces, spread.count, seed_of(b, i));
	}
}

static void post_batch(const struct batch *b)
{
	const struct endpoint_info *theirs = &b->e->theirs;
	struct request requests[DEPTH_MAX];
	struct spread spreads[DEPTH_MAX];

	for (unsigned i = 0; i < b->count; i++) {
		struct atomic_plan plan = atomic_plan(b, i);

		spreads[i] = pieces_of(b, i);
		requests[i] = (struct request){
			.wr_id = b->first + i,
			.operation = b->e->options->operation,
			.pieces = spreads[i].pieces,
			.piece_count = spreads[i].count,
			.imm = imm_of(b, i),
			.remote_addr = theirs->addr + message_offset(b, i),
			.rkey = theirs->rkey,
			.compare_add = plan.compare_add,
			.swap = plan.swap,
		};
	}
	post_send_chain(b->e, requests, b->count);
	/* The post has copied inline data and SGE lists. */
	memset(spreads, 0xff, sizeof(spreads));
	if (b->e->options->use_inline)
		blank(b);
}

static void wait_sends(const struct batch *b)
{
	enum operation operation = b->e->options->operation;
	struct ibv_wc wc;

	for (unsigned i = 0; i < b->count; i++) {
		endpoint_wait_success(b->e, b->e->send_cq, &wc);
		if (wc.wr_id != b->first + i)
			fail("send completion %llu, expected %u", (unsigned long long)wc.wr_id,
			     b->first + i);
		if (wc.opcode != post_wc_opcode(operation) || wc.qp_num != b->e->qp->qp_num)
			fail("send completion: opcode %d of QP %u", wc.opcode, wc.qp_num);
		if ((operation == OP_READ || op_is_atomic(operation)) && wc.byte_len != b->size)
			fail("completion of %zu bytes says %u", b->size, wc.byte_len);
		if (operation != OP_WRITE_FLUSH)
			continue;
		endpoint_wait_success(b->e, b->e->send_cq, &wc);
		if ((int)wc.opcode != ENDPOINT_WC_FLUSH)
			fail("completion of a FLUSH: opcode %d", wc.opcode);
	}
}

static void check_initiator(const struct batch *b)
{
	for (unsigned i = 0; i < b->count; i++) {
		if (op_is_atomic(b->e->options->operation)) {
			check_word(b, i, atomic_plan(b, i).before, "the result");
		} else if (b->e->options->operation == OP_READ) {
			struct spread spread = pieces_of(b, i);

			check_slot(b, i, &spread, 0);
		}
	}
}

static void run_initiator(const struct batch *b)
{
	prepare_initiator(b);
	meet_barrier(b->e->fd);
	post_batch(b);
	wait_sends(b);
	meet_barrier(b->e->fd);
	check_initiator(b);
}

static void post_receives(const struct batch *b)
{
	for (unsigned i = 0; i < b->count; i++) {
		struct spread spread = pieces_of(b, i);
		struct ibv_sge pieces[ENDPOINT_PIECES_MAX + 1];
		int count = 0;

		if (b->e->options->service == IBV_QPT_UD)
			pieces[count++] = (struct ibv_sge){ .addr = (uintptr_t)slot_start(b, i),
							    .length = GRH,
							    .lkey = b->e->mr->lkey };
		memcpy(&pieces[count], spread.pieces, sizeof(spread.pieces));
		count += spread.count;
		if (b->e->options->operation == OP_WRITE_IMM)
			count = 0;
		post_receive(b->e, b->first + i, pieces, count);
	}
}

static void prepare_target(const struct batch *b)
{
	enum operation operation = b->e->options->operation;

	blank(b);
	for (unsigned i = 0; i < b->count; i++) {
		struct spread spread = whole_of(b, i);
		uint64_t before = atomic_plan(b, i).before;

		if (op_is_atomic(operation))
			memcpy(b->e->memory + message_offset(b, i), &before, sizeof(before));
		else if (operation == OP_READ)
			pattern_fill(spread.pieces, spread.count, seed_of(b, i));
	}
	if (op_has_receive(operation))
		post_receives(b);
}

/*
 * An IPv6 header, or an IPv4 header in the last 20 of the 40 bytes, to and from the addresses of
 * the GIDs.
 */
static void check_grh(const struct batch *b, unsigned i)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const uint8_t *source = b->e->theirs.gid.raw, *target = b->e->ours.gid.raw;
	bool is_ipv4 = memcmp(target, mapped, sizeof(mapped)) == 0;
	const uint8_t *header = slot_start(b, i) + (is_ipv4 ? 20 : 0);
	bool good;

	if (header[0] >> 4 != (is_ipv4 ? 4 : 6))
		fail("message %u: GRH holds no IPv%d header (%#x)", b->first + i, is_ipv4 ? 4 : 6,
		     header[0]);
	if (is_ipv4)
		good = !memcmp(header + 12, source + 12, 4) && !memcmp(header + 16, target + 12, 4);
	else
		good = !memcmp(header + 8, source, 16) && !memcmp(header + 24, target, 16);
	if (!good)
		fail("message %u: wrong addresses in the GRH", b->first + i);
}

static void check_receive(const struct batch *b, unsigned i, const struct ibv_wc *wc)
{
	enum operation operation = b->e->options->operation;
	bool is_ud = b->e->options->service == IBV_QPT_UD;
	bool has_imm = operation == OP_SEND_IMM || operation == OP_WRITE_IMM;
	unsigned flags = (has_imm ? IBV_WC_WITH_IMM : 0) | (is_ud ? IBV_WC_GRH : 0);

	if (wc->wr_id != b->first + i)
		fail("receive %llu, expected %u", (unsigned long long)wc->wr_id, b->first + i);
	if (wc->opcode != post_receive_wc_opcode(operation) || wc->qp_num != b->e->qp->qp_num)
		fail("receive %u: opcode %d of QP %u", b->first + i, wc->opcode, wc->qp_num);
	if (wc->byte_len != b->size + (is_ud ? GRH : 0))
		fail("receive %u: byte_len %u of %zu", b->first + i, wc->byte_len, b->size);
	if (!is_ud) /* UD requests have no remote address */
		flags |= wc->wc_flags & IBV_WC_GRH;
	if (wc->wc_flags != flags)
		fail("receive %u: wc_flags %#x, not %#x", b->first + i, wc->wc_flags, flags);
	if (has_imm && ntohl(wc->imm_data) != imm_of(b, i))
		fail("receive %u: wrong immediate", b->first + i);
	if (is_ud && wc->src_qp != b->e->theirs.qpn)
		fail("receive %u: src_qp %u, not %u", b->first + i, wc->src_qp, b->e->theirs.qpn);
	if (is_ud)
		check_grh(b, i);
}

/* UC has no acknowledgements: a WRITE that has completed may not have arrived. */
static void wait_for_uc_write(const struct batch *b)
{
	struct spread spread = whole_of(b, b->count - 1);
	int64_t deadline = now_ns() + UC_ARRIVE_NS;

	while (pattern_check(spread.pieces, spread.count, seed_of(b, b->count - 1)) >= 0 &&
	       now_ns() < deadline)
		;
}

static void check_target(const struct batch *b)
{
	enum operation operation = b->e->options->operation;
	bool writes = operation == OP_WRITE || operation == OP_WRITE_IMM ||
		      operation == OP_ATOMIC_WRITE || operation == OP_WRITE_FLUSH;

	if (operation == OP_WRITE && b->e->options->service == IBV_QPT_UC)
		wait_for_uc_write(b);
	for (unsigned i = 0; i < b->count; i++) {
		struct spread spread = writes ? whole_of(b, i) : pieces_of(b, i);

		if (op_is_atomic(operation))
			check_word(b, i, atomic_plan(b, i).after, "the word");
		else if (operation != OP_READ)
			check_slot(b, i, &spread, b->e->options->service == IBV_QPT_UD ? GRH : 0);
	}
}

static void run_target(const struct batch *b)
{
	struct ibv_wc wc;

	prepare_target(b);
	meet_barrier(b->e->fd);
	if (op_has_receive(b->e->options->operation)) {
		for (unsigned i = 0; i < b->count; i++) {
			endpoint_wait_success(b->e, b->e->recv_cq, &wc);
			check_receive(b, i, &wc);
		}
	}
	meet_barrier(b->e->fd);
	check_target(b);
}

static size_t memory_bytes(const struct options *options)
{
	size_t bytes = 0;

	for (int i = 0; i < options->size_count; i++) {
		size_t size = options->sizes[i];
		size_t wanted = batch_count(options, size) * slot_bytes(options, size);

		if (wanted > bytes)
			bytes = wanted;
	}
	return bytes;
}

int run_data(const struct options *options)
{
	struct endpoint e;
	uint64_t messages = 0, bytes = 0;

	if (options->operation == OP_WRITE_FLUSH && !options->use_wr_api)
		fail("write_flush takes --wr-api");
	if (options->depth > DEPTH_MAX || options->pieces < 1 ||
	    options->pieces > ENDPOINT_PIECES_MAX)
		fail("depth 1..%u, pieces 1..%d", DEPTH_MAX, ENDPOINT_PIECES_MAX);
	endpoint_open(&e, options, memory_bytes(options));
	endpoint_connect(&e);
	for (int k = 0; k < options->size_count; k++) {
		struct batch b = { .e = &e, .size = options->sizes[k] };

		b.slot = slot_bytes(options, b.size);
		for (b.first = 0; b.first < options->count; b.first += b.count) {
			b.count = batch_count(options, b.size);
			if (b.count > options->count - b.first)
				b.count = options->count - b.first;
			if (options->host)
				run_initiator(&b);
			else
				run_target(&b);
			messages += b.count;
			bytes += b.count * b.size;
		}
	}
	meet_barrier(e.fd);
	endpoint_close(&e);
	printf("verified %llu messages, %llu bytes\n", (unsigned long long)messages,
	       (unsigned long long)bytes);
	return 0;
}
