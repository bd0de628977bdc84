/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Passive - the listening end, once connected, never calls a verb again; requests to it still
 * complete.
 *
 * The initiator writes, reads back and compares; atomics increment a word, the last eight bytes of
 * the target's memory.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "endpoint.h"
#include "pattern.h"
#include "post.h"

#define TARGET_BYTES (9u << 20)
#define WORD_AT	     (TARGET_BYTES - 8)

/* One request of one SGE in our memory at `local`, on the target's at `remote`. */
static void carry_out(struct endpoint *e, enum operation operation, size_t local, size_t len,
		      uint64_t remote, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge piece = { .addr = (uintptr_t)e->memory + local,
				 .length = (uint32_t)len,
				 .lkey = e->mr->lkey };
	struct request request = {
		.operation = operation,
		.pieces = &piece,
		.piece_count = 1,
		.remote_addr = e->theirs.addr + remote,
		.rkey = e->theirs.rkey,
		.compare_add = compare_add,
		.swap = swap,
	};
	struct ibv_wc wc;

	post_send_chain(e, &request, 1);
	endpoint_wait_success(e, e->send_cq, &wc);
}

static uint64_t result(const struct endpoint *e)
{
	uint64_t word;

	memcpy(&word, e->memory, sizeof(word));
	return word;
}

/* Our memory: a word for results, then what is written, then what is read back. */
static void write_and_read(struct endpoint *e, size_t size, unsigned round)
{
	uint64_t seed = pattern_seed(e->options->seed, size, round);
	size_t source = 64, sink = 64 + size + 64;
	uint64_t remote = seed % (TARGET_BYTES - 64 - size);
	struct ibv_sge piece = { .addr = (uintptr_t)e->memory + source, .length = (uint32_t)size };
	int64_t wrong;

	pattern_fill(&piece, 1, seed);
	carry_out(e, OP_WRITE, source, size, remote, 0, 0);
	memset(e->memory + sink, PATTERN_BLANK, size);
	carry_out(e, OP_READ, sink, size, remote, 0, 0);
	piece.addr = (uintptr_t)e->memory + sink;
	wrong = pattern_check(&piece, 1, seed);
	if (wrong >= 0)
		fail("round %u: read back differs at byte %lld of %zu", round, (long long)wrong,
		     size);
}

static void count_up(struct endpoint *e, uint64_t value)
{
	carry_out(e, OP_FAA, 0, 8, WORD_AT, 1, 0);
	if (result(e) != value)
		fail("fetch-and-add gave %llu, not %llu", (unsigned long long)result(e),
		     (unsigned long long)value);
	carry_out(e, OP_CAS, 0, 8, WORD_AT, value + 1, value + 2);
	if (result(e) != value + 1)
		fail("compare-and-swap gave %llu, not %llu", (unsigned long long)result(e),
		     (unsigned long long)value + 1);
}

int run_passive(const struct options *options)
{
	struct endpoint e;
	unsigned round = 0;

	for (int k = 0; k < options->size_count; k++) {
		if (options->sizes[k] < 1 || options->sizes[k] > 8u << 20)
			fail("sizes 1..8 MiB");
	}
	endpoint_open(&e, options, options->host ? 2 * TARGET_BYTES : TARGET_BYTES);
	endpoint_connect(&e);
	if (!options->host) {
		printf("passive\n");
		for (;;)
			pause();
	}
	for (; round < options->count; round++) {
		write_and_read(&e, options->sizes[round % (unsigned)options->size_count], round);
		count_up(&e, 2 * (uint64_t)round);
	}
	endpoint_close(&e);
	printf("served %u rounds\n", round);
	return 0;
}
