/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Migrate - both ends write to the listening end's memory while its pages may be moved beneath
 * them.
 *
 * The initiator writes patterns to the first half of each page of the target, and reads them back.
 * A thread of the target increments the word after it with plain stores. At the end no write of
 * either may be lost, neither before nor after ibv_dereg_mr, and a child that was forked in between
 * has its own copy.
 *
 * With --polling the target polls, before it makes that thread, until its region has migrated.
 *
 * The pages leave for the fork. With --hold-ms the initiator goes on until they have come back, for
 * so long at most: when that is depends on when the target's progress thread gets a processor.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "endpoint.h"
#include "meet.h"
#include "migrated.h"
#include "pattern.h"
#include "post.h"

#define PAGE  4096u
#define PAGES 64u
#define OURS  2048u
#define WORD  (OURS + 64)

struct target {
	uint8_t *memory;
	_Atomic bool stop;
	uint64_t turns, seed;
};

static volatile uint64_t *word_of(struct target *target, unsigned page)
{
	return (volatile uint64_t *)(target->memory + page * PAGE + WORD);
}

static void *count(void *arg)
{
	struct target *target = arg;

	for (; !target->stop; target->turns++)
		for (unsigned page = 0; page < PAGES; page++)
			*word_of(target, page) = *word_of(target, page) + 1;
	return NULL;
}

static void check_words(struct target *target, const char *when)
{
	for (unsigned page = 0; page < PAGES; page++)
		if (*word_of(target, page) != target->turns)
			fail("%s: page %u counts %llu of %llu turns", when, page,
			     (unsigned long long)*word_of(target, page),
			     (unsigned long long)target->turns);
}

/* After so many rounds. */
static void check_patterns(struct target *target, unsigned rounds, const char *when)
{
	for (unsigned page = 0; page < PAGES; page++) {
		struct ibv_sge piece = { .addr = (uintptr_t)target->memory + page * PAGE,
					 .length = OURS };
		unsigned last = (rounds - 1 - page) / PAGES * PAGES + page;

		if (pattern_check(&piece, 1, pattern_seed(target->seed, OURS, last)) >= 0)
			fail("%s: page %u is not what was written last", when, page);
	}
}

static void fork_a_child(struct target *target)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		memset(target->memory, 0xcc, PAGES * PAGE);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		fail("the child ended with 0x%x", (unsigned)status);
}

/* The number of rounds that the initiator has done in the end. */
static unsigned let_it_go_on(struct endpoint *e)
{
	int64_t until = now_ns() + e->options->hold_ms * INT64_C(1000000);
	unsigned rounds;
	char more;

	do {
		if (read(e->fd, &rounds, sizeof(rounds)) != sizeof(rounds))
			fail("the initiator is gone");
		more = now_ns() < until && !region_is_migrated(e->memory);
		if (write(e->fd, &more, 1) != 1)
			fail("the initiator is gone");
	} while (more);
	return rounds;
}

/* The program's only thread is in a verb again and again: the region does migrate. */
static void poll_until_migrated(struct endpoint *e)
{
	int64_t until = now_ns() + INT64_C(10000000000);
	struct ibv_wc wc;

	while (!region_is_migrated(e->memory)) {
		if (ibv_poll_cq(e->recv_cq, 1, &wc) || now_ns() > until)
			fail("not migrated while the only thread polled");
	}
	printf("migrated while polling\n");
}

static int run_target(struct endpoint *e)
{
	struct target target = { .memory = e->memory, .seed = e->options->seed };
	pthread_t thread;
	unsigned rounds;
	bool migrated;
	char byte;

	if (region_is_migrated(target.memory))
		printf("migrated at registration\n");
	else if (e->options->polling)
		poll_until_migrated(e);
	if (pthread_create(&thread, NULL, count, &target))
		fail("no thread");
	if (read(e->fd, &byte, 1) != 1) /* the initiator has done half of its rounds */
		fail("the initiator is gone");
	fork_a_child(&target);
	if (write(e->fd, &byte, 1) != 1)
		fail("the initiator is gone");
	rounds = let_it_go_on(e);
	target.stop = true;
	pthread_join(thread, NULL);
	check_words(&target, "before ibv_dereg_mr");
	check_patterns(&target, rounds, "before ibv_dereg_mr");
	migrated = region_is_migrated(target.memory);
	if (ibv_dereg_mr(e->mr))
		fail("ibv_dereg_mr");
	e->mr = ibv_reg_mr(e->pd, e->memory, e->bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!e->mr)
		fail("ibv_reg_mr");
	check_words(&target, "after ibv_dereg_mr");
	check_patterns(&target, rounds, "after ibv_dereg_mr");
	if (region_is_migrated(target.memory))
		fail("still shared after ibv_dereg_mr");
	printf("%s, nothing lost\n", migrated ? "migrated" : "not migrated");
	return 0;
}

static void carry_out(struct endpoint *e, enum operation operation, size_t local, uint64_t remote)
{
	struct ibv_sge piece = { .addr = (uintptr_t)e->memory + local,
				 .length = OURS,
				 .lkey = e->mr->lkey };
	struct request request = {
		.operation = operation,
		.pieces = &piece,
		.piece_count = 1,
		.remote_addr = e->theirs.addr + remote,
		.rkey = e->theirs.rkey,
	};
	struct ibv_wc wc;

	post_send_chain(e, &request, 1);
	endpoint_wait_success(e, e->send_cq, &wc);
}

static void write_and_read(struct endpoint *e, unsigned round)
{
	uint64_t remote = round % PAGES * PAGE;
	uint64_t seed = pattern_seed(e->options->seed, OURS, round);
	struct ibv_sge source = { .addr = (uintptr_t)e->memory, .length = OURS };
	struct ibv_sge sink = { .addr = (uintptr_t)e->memory + OURS, .length = OURS };

	pattern_fill(&source, 1, seed);
	carry_out(e, OP_WRITE, 0, remote);
	carry_out(e, OP_READ, OURS, remote);
	if (pattern_check(&sink, 1, seed) >= 0)
		fail("round %u: read back differs", round);
}

static void run_initiator(struct endpoint *e)
{
	unsigned count = e->options->count, round = 0;
	char byte;

	if (read(e->fd, &byte, 1) != 1)
		fail("the target is gone");
	do {
		for (; round < count; round++) {
			if (round == e->options->count / 2 &&
			    (write(e->fd, &byte, 1) != 1 || read(e->fd, &byte, 1) != 1))
				fail("the target is gone");
			write_and_read(e, round);
		}
		count += PAGES;
		if (write(e->fd, &round, sizeof(round)) != sizeof(round) ||
		    read(e->fd, &byte, 1) != 1)
			fail("the target is gone");
	} while (byte);
	printf("wrote %u rounds\n", e->options->count);
	if (round > e->options->count)
		printf("and %u more\n", round - e->options->count);
}

int run_migrate(const struct options *options)
{
	struct endpoint e;
	char byte = 0;

	if (options->count < PAGES)
		fail("at least %u rounds", PAGES);
	endpoint_open(&e, options, PAGES * PAGE);
	endpoint_connect(&e);
	if (!options->host) {
		memset(e.memory, 0, e.bytes);
		if (write(e.fd, &byte, 1) != 1)
			fail("the initiator is gone");
		run_target(&e);
	} else {
		run_initiator(&e);
	}
	endpoint_close(&e);
	return 0;
}
