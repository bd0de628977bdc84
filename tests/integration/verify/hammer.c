/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hammer - threads of the listening end use a region in all ways, while its pages migrate and leave
 * again. Nothing may be lost, and no system call may fail.
 *
 * In each round the initiator writes to all pages, after it has found there what it wrote in the
 * round before. Then the target ends the MR, so that the pages leave, and makes another one. Each
 * page has a word for each thread, and one for the initiator. With --polling all threads poll a CQ
 * between what they do, so that pages can migrate without userfaultfd: then they are no more than
 * the library asks to stand (memory/hold.h).
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "endpoint.h"
#include "meet.h"
#include "migrated.h"
#include "post.h"

#define PAGE	    4096u
#define PAGES	    64u
#define THEIRS	    256u /* the initiator's word of a page */
#define EVENTS	    64u	 /* from here on two words for each thread */
#define WRITES	    32u	 /* to each page in a round: peers ask for it to migrate */
#define WORKERS	    5u
#define POLLING	    3u /* workers */
#define PERIOD_NS   300000
#define EVENT_VALUE UINT64_C(0x123456789abcdef)

struct worker {
	pthread_t thread;
	struct endpoint *e;
	void (*work)(struct worker *worker);
	unsigned number, turn;
	uint64_t value, shadow[PAGES];
	int pipe[2], timer, event, epoll;
};

static _Atomic bool stop;

static volatile uint64_t *word_of(const struct endpoint *e, unsigned page, unsigned word)
{
	return (volatile uint64_t *)(e->memory + page % PAGES * PAGE) + word;
}

static void expect_eight(const char *what, ssize_t moved)
{
	if (moved != 8)
		fail("%s: %zd of 8 bytes, %s", what, moved, strerror(errno));
}

static void expect_value(const char *what, uint64_t is, uint64_t expected)
{
	if (is != expected)
		fail("%s: 0x%llx instead of 0x%llx", what, (unsigned long long)is,
		     (unsigned long long)expected);
}

static void load_and_store(struct worker *worker)
{
	unsigned page = worker->turn % PAGES;
	volatile uint64_t *word = word_of(worker->e, page, worker->number);

	expect_value("a word", *word, worker->shadow[page]);
	*word = ++worker->shadow[page];
}

/* Only the kernel touches the word. */
static void pass_through_a_pipe(struct worker *worker)
{
	void *word = (void *)word_of(worker->e, worker->turn, worker->number);
	uint64_t value = ++worker->value, back = 0;

	expect_eight("write", write(worker->pipe[1], &value, 8));
	expect_eight("read to the region", read(worker->pipe[0], word, 8));
	expect_eight("write from the region", write(worker->pipe[1], word, 8));
	expect_eight("read", read(worker->pipe[0], &back, 8));
	expect_value("what went through a pipe", back, value);
}

/* The kernel stores when the call ends. */
static void sleep_in_read(struct worker *worker)
{
	volatile uint64_t *word = word_of(worker->e, worker->turn, worker->number);

	*word = 0;
	expect_eight("read of a timer", read(worker->timer, (void *)word, 8));
	if (*word == 0)
		fail("what a timer's read stored is lost");
}

static void sleep_in_epoll(struct worker *worker)
{
	struct epoll_event *event =
		(void *)word_of(worker->e, worker->turn, EVENTS + 2 * worker->number);
	uint64_t one = 1;
	int n = epoll_wait(worker->epoll, event, 1, 1);

	if (n)
		fail("epoll_wait of nothing: %d, %s", n, strerror(errno));
	expect_eight("write", write(worker->event, &one, 8));
	n = epoll_wait(worker->epoll, event, 1, 5000);
	if (n != 1)
		fail("epoll_wait: %d, %s", n, strerror(errno));
	expect_value("an event", event->data.u64, EVENT_VALUE);
	expect_eight("read", read(worker->event, &one, 8));
}

static void poll_nothing(const struct endpoint *e)
{
	struct ibv_wc wc;

	if (e->options->polling && ibv_poll_cq(e->recv_cq, 1, &wc))
		fail("a completion of nothing");
}

static void *run(void *arg)
{
	struct worker *worker = arg;

	for (; !stop; worker->turn++) {
		worker->work(worker);
		poll_nothing(worker->e);
	}
	return NULL;
}

static void start(struct worker *worker, struct endpoint *e, unsigned number)
{
	static void (*const works[WORKERS])(struct worker *) = {
		load_and_store, pass_through_a_pipe, sleep_in_read, sleep_in_epoll, load_and_store,
	};
	struct itimerspec period = { { .tv_nsec = PERIOD_NS }, { .tv_nsec = PERIOD_NS } };
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = EVENT_VALUE };

	*worker = (struct worker){ .e = e, .work = works[number], .number = number };
	worker->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	worker->event = eventfd(0, EFD_CLOEXEC);
	worker->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (pipe(worker->pipe) || timerfd_settime(worker->timer, 0, &period, NULL) ||
	    epoll_ctl(worker->epoll, EPOLL_CTL_ADD, worker->event, &event) ||
	    pthread_create(&worker->thread, NULL, run, worker))
		fail("a thread and its descriptors: %s", strerror(errno));
}

/* Without a sleep in a system call if this thread has to poll. */
static void wait_for_initiator(struct endpoint *e)
{
	char byte;

	while (e->options->polling && recv(e->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	       errno == EAGAIN)
		poll_nothing(e);
	meet_barrier(e->fd);
}

static void register_anew(struct endpoint *e)
{
	if (ibv_dereg_mr(e->mr))
		fail("ibv_dereg_mr");
	e->mr = ibv_reg_mr(e->pd, e->memory, e->bytes,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	if (!e->mr)
		fail("ibv_reg_mr");
}

static void be_the_target(struct endpoint *e)
{
	unsigned workers = e->options->polling ? POLLING : WORKERS, migrated = 0;
	struct worker worker[WORKERS];

	for (unsigned i = 0; i < workers; i++)
		start(&worker[i], e, i);
	for (unsigned round = 0; round < e->options->count; round++) {
		meet_exchange(e->fd, &e->mr->rkey, &e->theirs.rkey, sizeof(e->mr->rkey));
		wait_for_initiator(e);
		migrated += region_is_migrated(e->memory);
		register_anew(e);
	}
	stop = true;
	for (unsigned i = 0; i < workers; i++)
		pthread_join(worker[i].thread, NULL);
	printf("migrated %s, nothing lost\n", migrated ? "in some rounds" : "in no round");
}

static uint64_t carry_out(struct endpoint *e, enum operation operation, unsigned page,
			  uint64_t value)
{
	struct ibv_sge piece = { .addr = (uintptr_t)e->memory, .length = 8, .lkey = e->mr->lkey };
	struct request request = {
		.operation = operation,
		.pieces = &piece,
		.piece_count = 1,
		.remote_addr = e->theirs.addr + page * PAGE + THEIRS * 8,
		.rkey = e->theirs.rkey,
	};
	struct ibv_wc wc;

	*(uint64_t *)e->memory = value;
	post_send_chain(e, &request, 1);
	endpoint_wait_success(e, e->send_cq, &wc);
	return *(uint64_t *)e->memory;
}

static void be_the_initiator(struct endpoint *e)
{
	uint64_t written = 0;

	for (unsigned round = 0; round < e->options->count; round++) {
		meet_exchange(e->fd, &e->mr->rkey, &e->theirs.rkey, sizeof(e->mr->rkey));
		for (unsigned page = 0; page < PAGES; page++)
			expect_value("what was written before",
				     carry_out(e, OP_READ, page, UINT64_MAX), written);
		written++;
		for (unsigned i = 0; i < WRITES * PAGES; i++)
			carry_out(e, OP_WRITE, i % PAGES, written);
		meet_barrier(e->fd);
	}
	printf("wrote %u rounds\n", e->options->count);
}

int run_hammer(const struct options *options)
{
	struct endpoint e;

	endpoint_open(&e, options, PAGES * PAGE);
	memset(e.memory, 0, e.bytes);
	endpoint_connect(&e);
	if (options->host)
		be_the_initiator(&e);
	else
		be_the_target(&e);
	meet_barrier(e.fd);
	endpoint_close(&e);
	return 0;
}
