/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guard - memory that no peer may write to, beside traffic that has to continue whatever packets
 * arrive.
 *
 * The end with a host writes and reads back, again and again, until its standard input ends. For
 * each byte there it prints its number of rounds; after a 'w' it waits for the next byte. The other
 * end prints where it can be attacked, and sleeps; the first half of its memory has a key, and has
 * to be unchanged at the end, whatever became of the connection.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "endpoint.h"
#include "meet.h"
#include "pattern.h"
#include "post.h"

#define HALF_BYTES (1u << 20)

static void carry_out(struct endpoint *e, enum operation operation, size_t local, size_t size)
{
	struct ibv_sge piece = { .addr = (uintptr_t)e->memory + local,
				 .length = (uint32_t)size,
				 .lkey = e->mr->lkey };
	struct request request = {
		.operation = operation,
		.pieces = &piece,
		.piece_count = 1,
		.remote_addr = e->theirs.addr + HALF_BYTES,
		.rkey = e->theirs.rkey,
	};
	struct ibv_wc wc;

	post_send_chain(e, &request, 1);
	endpoint_wait_success(e, e->send_cq, &wc);
}

static void write_and_read(struct endpoint *e, size_t size, unsigned round)
{
	uint64_t seed = pattern_seed(e->options->seed, size, round);
	struct ibv_sge piece = { .addr = (uintptr_t)e->memory, .length = (uint32_t)size };
	int64_t wrong;

	pattern_fill(&piece, 1, seed);
	carry_out(e, OP_WRITE, 0, size);
	memset(e->memory + HALF_BYTES, PATTERN_BLANK, size);
	carry_out(e, OP_READ, HALF_BYTES, size);
	piece.addr += HALF_BYTES;
	wrong = pattern_check(&piece, 1, seed);
	if (wrong >= 0)
		fail("round %u: read back differs at byte %lld of %zu", round, (long long)wrong,
		     size);
}

/* False: the input ended. */
static bool obey(unsigned rounds)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char byte = 0;

	while (byte == 'w' || poll(&input, 1, 0) > 0) {
		if (read(STDIN_FILENO, &byte, 1) <= 0)
			return false;
		printf("so far %u\n", rounds);
	}
	return true;
}

static void keep_traffic_up(struct endpoint *e)
{
	unsigned rounds = 0;

	do {
		write_and_read(e, e->options->sizes[rounds % (unsigned)e->options->size_count],
			       rounds);
		if (rounds++ == 0)
			printf("running\n");
	} while (obey(rounds));
	printf("rounds %u\n", rounds);
}

int run_guard(const struct options *options)
{
	struct endpoint e;

	for (int k = 0; k < options->size_count; k++) {
		if (options->sizes[k] > HALF_BYTES)
			fail("sizes up to %u", HALF_BYTES);
	}
	endpoint_open(&e, options, 2 * HALF_BYTES);
	memset(e.memory, PATTERN_BLANK, 2 * HALF_BYTES);
	endpoint_connect(&e);
	if (options->host)
		keep_traffic_up(&e);
	else
		printf("guard qpn=%u peer=%u psn=%u rkey=%u addr=%llu bytes=%u\n", e.qp->qp_num,
		       e.theirs.qpn, e.theirs.psn, e.mr->rkey,
		       (unsigned long long)(uintptr_t)e.memory, HALF_BYTES);
	meet_end(e.fd);
	if (!options->host) {
		if (pattern_check_blank(e.memory, HALF_BYTES) >= 0)
			fail("guarded memory was written to");
		printf("untouched\n");
	}
	endpoint_close(&e);
	return 0;
}
