/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Latency - how long one request takes, from its post to its completion, while the listening end
 * polls, sleeps, or spins on memory.
 *
 * With --sleeper both ends have a thread more, which sleeps outside of verbs all the time.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "endpoint.h"
#include "meet.h"
#include "post.h"

#define WORD_AT	     (1u << 20)
#define TARGET_BYTES (WORD_AT + 4096)
#define RECEIVES     16u
#define TURNS	     4096u /* of a target that spins, between two polls: some microseconds */
#define WARM_UP	     1000u

static void *sleep_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void receive_one(struct endpoint *e)
{
	struct ibv_sge piece = { .addr = (uintptr_t)e->memory,
				 .length = WORD_AT,
				 .lkey = e->mr->lkey };

	post_receive(e, 0, &piece, 1);
}

/* The initiator's last WRITE. */
static bool is_over(const struct endpoint *e)
{
	return *(volatile uint64_t *)(e->memory + WORD_AT) != 0;
}

static void poll_once(struct endpoint *e)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(e->recv_cq, 1, &wc);

	if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
		fail("a receive ended with status %d", n < 0 ? n : (int)wc.status);
	if (n)
		receive_one(e);
}

static void be_the_target(struct endpoint *e)
{
	switch (e->options->target) {
	case TARGET_POLLS:
		while (!is_over(e))
			poll_once(e);
		break;
	case TARGET_SPINS:
		for (unsigned turn = 0; !is_over(e); turn++)
			if (turn % TURNS == 0)
				poll_once(e);
		break;
	case TARGET_SLEEPS:
		break;
	}
}

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t carry_out(struct endpoint *e, enum operation operation, size_t bytes,
			 uint64_t remote)
{
	struct ibv_sge piece = { .addr = (uintptr_t)e->memory,
				 .length = (uint32_t)bytes,
				 .lkey = e->mr->lkey };
	struct request request = {
		.operation = operation,
		.pieces = &piece,
		.piece_count = 1,
		.remote_addr = e->theirs.addr + remote,
		.rkey = e->theirs.rkey,
		.compare_add = 1,
	};
	struct ibv_wc wc;
	int64_t begin = now_ns();
	int n;

	post_send_chain(e, &request, 1);
	while ((n = ibv_poll_cq(e->send_cq, 1, &wc)) == 0)
		if (now_ns() - begin > INT64_C(20000000000))
			fail("no completion in 20 s");
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		fail("a request ended with status %d", n < 0 ? n : (int)wc.status);
	return now_ns() - begin;
}

static void measure(struct endpoint *e, size_t bytes)
{
	unsigned count = e->options->count;
	int64_t *times = malloc(count * sizeof(*times));

	if (!times)
		fail("no memory");
	for (unsigned i = 0; i < WARM_UP && i < count; i++)
		carry_out(e, e->options->operation, bytes, 0);
	for (unsigned i = 0; i < count; i++)
		times[i] = carry_out(e, e->options->operation, bytes, 0);
	qsort(times, count, sizeof(*times), by_time);
	printf("%zu bytes: 10 %% %lld ns, median %lld ns, 99 %% %lld ns, most %lld ns\n", bytes,
	       (long long)times[count / 10], (long long)times[count / 2],
	       (long long)times[count - 1 - count / 100], (long long)times[count - 1]);
	free(times);
}

int run_latency(const struct options *options)
{
	struct endpoint e;
	pthread_t thread;

	if (options->sleeper && pthread_create(&thread, NULL, sleep_for_ever, NULL))
		fail("no thread");
	endpoint_open(&e, options, TARGET_BYTES);
	for (unsigned i = 0; !options->host && i < RECEIVES; i++)
		receive_one(&e);
	endpoint_connect(&e);
	if (options->host) {
		for (int k = 0; k < options->size_count; k++)
			measure(&e, options->sizes[k]);
		*(uint64_t *)e.memory = 1;
		carry_out(&e, OP_WRITE, 8, WORD_AT);
	} else {
		be_the_target(&e);
	}
	meet_barrier(e.fd);
	endpoint_close(&e);
	return 0;
}
