/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Where all wait for each other. */
enum stage { MADE, CONNECTED, DONE, CHECKED };

#define SETTLE_MS     2000u /* in which QPs to a dead peer have to fail */
#define SETTLE_STOPS  10u   /* so many times that, if processes are stopped meanwhile */
#define LOST_AFTER_MS 3000

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void worker_fail(const struct worker *worker, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "process %u (%s, %s): %s\n", worker->self,
		worker->by_events ? "events" : "polling", worker->use_srq ? "SRQ" : "RQ", text);
	atomic_store(&worker->board->failed, true);
	_exit(1);
}

/* The victim does not reach the later stages. */
static void wait_for_all(struct worker *worker, enum stage stage)
{
	const struct settings *settings = worker->settings;
	unsigned int needed = settings->procs - (stage >= DONE && settings->kill >= 0);

	atomic_fetch_add(&worker->board->arrived[stage], 1);
	while (atomic_load(&worker->board->arrived[stage]) < needed) {
		if (atomic_load(&worker->board->failed))
			_exit(1);
		usleep(500);
	}
}

static enum ibv_qp_state state_of(struct worker *worker, struct link *link)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(worker, ibv_query_qp(link->qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
	return attr.qp_state;
}

/* The time is up for a QP whose peer is dead. */
static void fail_unsettled(struct worker *worker, struct link *link)
{
	const struct pending *pending = &link->pending[link->first % DEPTH];

	worker_fail(worker,
		    "%u is dead for too long, and the QP to it has not settled: %s%sstate %d, %u "
		    "receives open, %u requests open, the first of kind %d with %u bytes, %s",
		    link->peer, link->failed ? "" : "no error, ",
		    worker->srq && !link->last_wqe ? "no LAST_WQE_REACHED, " : "",
		    state_of(worker, link), link->receive_count, link->count, pending->step.kind,
		    pending->step.size, pending->signalled ? "signalled" : "unsignalled");
}

static uint64_t settle_ms(const struct worker *worker)
{
	return SETTLE_MS * worker->settings->patience * (worker->settings->stop ? SETTLE_STOPS : 1);
}

/* No process is done before the victim is dead, because its QPs to the victim have to fail. */
static bool all_done(struct worker *worker)
{
	bool done = traffic_is_done(worker) &&
		    (worker->settings->kill < 0 || atomic_load(&worker->board->killed));

	oracle_poll_async(worker);
	for (unsigned int i = 0; i < worker->settings->procs; i++) {
		struct link *link = &worker->link[i];
		bool link_done = !link->qp || oracle_link_is_done(worker, link);

		done = done && link_done;
		if (!link_done && link_is_dead(worker, link) &&
		    now_ms() - atomic_load(&worker->board->killed_at_ms) > settle_ms(worker))
			fail_unsettled(worker, link);
	}
	return done;
}

/* When the run is out of time. Takes no locks: the thread that hangs may hold one. */
static void print_open(struct worker *worker)
{
	for (unsigned int i = 0; i < worker->settings->procs; i++) {
		struct link *link = &worker->link[i];

		if (link->qp && (link->count > 0 || link->expected < worker->settings->ops))
			fprintf(stderr,
				"process %u (%s, %s), to %u: %u requests open from %u on, step %u "
				"to be posted, step %u to be received\n",
				worker->self, worker->by_events ? "events" : "polling",
				worker->use_srq ? "SRQ" : "RQ", i, link->count,
				link->pending[link->first % DEPTH].number, link->next,
				link->expected);
	}
	if (!traffic_is_done(worker))
		fprintf(stderr, "process %u: UD: %u of %u, UC: %u of %u and %u of %u completed\n",
			worker->self, worker->ud_completed, worker->ud_sent,
			worker->uc[0].completed, worker->uc[0].sent, worker->uc[1].completed,
			worker->uc[1].sent);
}

static void arm(struct worker *worker)
{
	CHECK(worker, ibv_req_notify_cq(worker->sends, 0) == 0, "ibv_req_notify_cq");
	CHECK(worker, ibv_req_notify_cq(worker->receives, 0) == 0, "ibv_req_notify_cq");
}

static void take_events(struct worker *worker)
{
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(worker->channel, &cq, &context) == 0)
		ibv_ack_cq_events(cq, 1);
	CHECK(worker, errno == EAGAIN, "ibv_get_cq_event: %s", strerror(errno));
}

/*
 * Sleeps until a completion comes, or something that makes no event may have changed: the credit of
 * a peer, a death. When only completions can go on, sleeping for long without an event while there
 * are some means that an event was lost.
 */
static void sleep_for_event(struct worker *worker)
{
	struct pollfd ready = { .fd = worker->channel->fd, .events = POLLIN };
	bool only_events = traffic_is_posted(worker) && worker->settings->kill < 0;
	int timeout_ms = only_events ? LOST_AFTER_MS * (int)worker->settings->patience : 2;

	arm(worker);
	if (oracle_poll_sends(worker) + oracle_poll_receives(worker) > 0)
		return;
	if (poll(&ready, 1, timeout_ms) == 1) {
		take_events(worker);
		return;
	}
	if (only_events && !atomic_load(&worker->board->failed))
		CHECK(worker, oracle_poll_sends(worker) + oracle_poll_receives(worker) == 0,
		      "completions came without an event, although both CQs were armed");
}

struct hand {
	struct worker *worker;
	unsigned int number;
	_Atomic bool *stop;
};

static unsigned int turn(struct worker *worker, uint64_t *random)
{
	return oracle_poll_sends(worker) + oracle_poll_receives(worker) +
	       traffic_post(worker, random);
}

static void *helping_hand(void *argument)
{
	struct hand *hand = argument;
	uint64_t random =
		plan_mix(hand->worker->settings->seed + hand->worker->self * 100 + hand->number);

	while (!atomic_load(hand->stop)) {
		mishap_turn(hand->worker);
		if (turn(hand->worker, &random) == 0)
			sched_yield();
	}
	return NULL;
}

static void run_traffic(struct worker *worker)
{
	unsigned int helpers = worker->by_events ? 0 : worker->settings->threads - 1;
	bool victim = worker->settings->kill == (int)worker->self;
	uint64_t random = plan_mix(worker->settings->seed + worker->self * 100);
	pthread_t thread[64];
	struct hand hand[64];
	_Atomic bool stop = false;

	for (unsigned int i = 0; i < helpers; i++) {
		hand[i] = (struct hand){ worker, i + 1, &stop };
		CHECK(worker, pthread_create(&thread[i], NULL, helping_hand, &hand[i]) == 0,
		      "pthread_create");
	}
	for (;;) {
		if (atomic_load(&worker->board->failed)) {
			if (atomic_load(&worker->board->out_of_time))
				print_open(worker);
			_exit(1);
		}
		mishap_turn(worker);
		if (turn(worker, &random) > 0)
			continue;
		if (all_done(worker) && !victim)
			break;
		if (worker->by_events)
			sleep_for_event(worker);
		else
			sched_yield();
	}
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < helpers; i++)
		pthread_join(thread[i], NULL);
}

static uint64_t word(struct worker *worker, unsigned int whose, unsigned int which)
{
	return *(volatile uint64_t *)((char *)worker->words->addr + word_offset(whose, which));
}

/* The words that others worked on hold what they did. */
static void check_words(struct worker *worker)
{
	uint64_t added = 0, swapped = 0;

	for (unsigned int i = 0; i < worker->settings->procs; i++) {
		added += worker->board->seat[i].added[worker->self];
		swapped += worker->board->seat[i].swapped[worker->self];
	}
	CHECK(worker, word(worker, WORDS_SHARED, WORD_ADD) == added,
	      "the sum of all additions is %llu, the word holds %llu", (unsigned long long)added,
	      (unsigned long long)word(worker, WORDS_SHARED, WORD_ADD));
	CHECK(worker, word(worker, WORDS_SHARED, WORD_SWAP) == swapped,
	      "%llu swaps succeeded, the word holds %llu", (unsigned long long)swapped,
	      (unsigned long long)word(worker, WORDS_SHARED, WORD_SWAP));
}

/* No slot without an announced WRITE was written, and the source is unchanged. */
static void check_memory(struct worker *worker)
{
	const uint8_t *target = worker->target->addr;

	CHECK(worker,
	      pattern_check(worker->source->addr, SOURCE_BYTES,
			    worker->settings->seed + worker->self, 0) < 0,
	      "the source of READs was written");
	for (size_t i = 0; worker->settings->kill < 0 && i < worker->target->length; i++)
		CHECK(worker, target[i] == CANARY, "byte %zu of the target is not clear", i);
}

static void check_states(struct worker *worker)
{
	for (unsigned int i = 0; i < worker->settings->procs; i++) {
		struct link *link = &worker->link[i];
		enum ibv_qp_state expected = link_is_dead(worker, link) ? IBV_QPS_ERR : IBV_QPS_RTS;

		if (link->qp)
			CHECK(worker, state_of(worker, link) == expected,
			      "QP to %u is in state %d, expected %d", i, state_of(worker, link),
			      expected);
	}
}

/* After everybody is done: nothing comes late. */
static void check_end(struct worker *worker)
{
	CHECK(worker, oracle_poll_sends(worker) == 0, "a completion too many of a send");
	oracle_poll_receives(worker); /* datagrams may still have been under way */
	oracle_poll_async(worker);
	for (unsigned int i = 0; i < worker->settings->procs; i++)
		CHECK(worker, !worker->link[i].qp || oracle_link_is_done(worker, &worker->link[i]),
		      "the link to %u came to life again", i);
	if (worker->settings->kill < 0)
		check_words(worker);
	check_memory(worker);
	check_states(worker);
}

void worker_run(struct board *board, unsigned int self)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	uint64_t choice = plan_mix(board->settings.seed * 31 + self);

	worker->board = board;
	worker->settings = &board->settings;
	worker->seat = &board->seat[self];
	worker->self = self;
	worker->by_events = choice & 1;
	worker->use_srq = choice & 2;
	pthread_mutex_init(&worker->sends_lock, NULL);
	pthread_mutex_init(&worker->receives_lock, NULL);
	pthread_mutex_init(&worker->ud_lock, NULL);
	setup_objects(worker);
	fcntl(worker->context->async_fd, F_SETFL,
	      fcntl(worker->context->async_fd, F_GETFL) | O_NONBLOCK);
	if (worker->channel)
		fcntl(worker->channel->fd, F_SETFL,
		      fcntl(worker->channel->fd, F_GETFL) | O_NONBLOCK);
	wait_for_all(worker, MADE);
	setup_connect(worker);
	wait_for_all(worker, CONNECTED);
	mishap_begin(worker);
	run_traffic(worker);
	for (unsigned int i = 0; i < worker->settings->procs; i++) {
		worker->seat->added[i] = worker->link[i].added;
		worker->seat->swapped[i] = worker->link[i].swapped;
	}
	wait_for_all(worker, DONE);
	mishap_end(worker);
	check_end(worker);
	wait_for_all(worker, CHECKED);
	if (worker->channel)
		take_events(worker);
	setup_destroy(worker);
	worker->seat->bytes = worker->bytes;
	worker->seat->completions = worker->completions;
	worker->seat->lost = worker->lost;
	_exit(0);
}
