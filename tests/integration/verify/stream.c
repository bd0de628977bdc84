/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stream - traffic until the other end dies; then every request completes, once and in order.
 *
 * With SEND both ends send and receive. With an operation on memory the end with a host posts it,
 * and the other one only has receives outstanding. Prints "running" when traffic flows, then, at
 * the first completion with an error, "dead at_ns=... status=...", and at the end the numbers of
 * completions.
 */
#include <stdio.h>

#include "endpoint.h"
#include "post.h"

#define DRAIN_NS      INT64_C(5000000000)
#define RUNNING_AFTER 100u /* completions */

/* One work queue of the QP: requests 0.. are posted and complete in order. */
struct lane {
	struct ibv_cq *cq;
	uint64_t posted;
	uint64_t completed;
};

struct stream {
	struct endpoint e;
	size_t size;
	struct lane sends;
	struct lane receives;
	bool initiates;
	bool running;
	bool dead;
};

static void post_send(struct stream *s)
{
	size_t room = s->e.options->depth;
	struct ibv_sge piece = { .addr = (uintptr_t)s->e.memory + s->sends.posted % room * s->size,
				 .length = (uint32_t)s->size,
				 .lkey = s->e.mr->lkey };
	struct request request = {
		.wr_id = s->sends.posted++,
		.operation = s->e.options->operation,
		.pieces = &piece,
		.piece_count = 1,
		.remote_addr = s->e.theirs.addr,
		.rkey = s->e.theirs.rkey,
		.compare_add = 1,
	};

	post_send_chain(&s->e, &request, 1);
}

static void post_one_receive(struct stream *s)
{
	size_t room = s->e.options->depth;
	uint64_t place = room + s->receives.posted % room;
	struct ibv_sge piece = { .addr = (uintptr_t)s->e.memory + place * s->size,
				 .length = (uint32_t)s->size,
				 .lkey = s->e.mr->lkey };

	post_receive(&s->e, s->receives.posted++, &piece, 1);
}

static int reap(struct stream *s, struct lane *lane);

static void on_completion(struct stream *s, struct lane *lane, const struct ibv_wc *wc)
{
	/* The send that failed came before the receives that were flushed for it. */
	if (wc->status != IBV_WC_SUCCESS && !s->dead && lane == &s->receives && s->initiates)
		reap(s, &s->sends);
	if (wc->wr_id != lane->completed)
		fail("%s %llu completed, expected %llu", lane == &s->sends ? "send" : "receive",
		     (unsigned long long)wc->wr_id, (unsigned long long)lane->completed);
	lane->completed++;
	if (wc->status != IBV_WC_SUCCESS && !s->dead) {
		printf("dead at_ns=%lld status=%d vendor_err=%u (%s)\n", (long long)now_ns(),
		       wc->status, wc->vendor_err, ibv_wc_status_str(wc->status));
		s->dead = true;
	}
	if (s->dead)
		return;
	if (lane == &s->sends)
		post_send(s);
	else
		post_one_receive(s);
	if (!s->running && lane->completed == RUNNING_AFTER) {
		printf("running\n");
		s->running = true;
	}
}

/* Takes all completions. Returns how many. */
static int reap(struct stream *s, struct lane *lane)
{
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(lane->cq, 16, wc);

	if (count < 0)
		fail("ibv_poll_cq: %d", count);
	for (int i = 0; i < count; i++)
		on_completion(s, lane, &wc[i]);
	return count;
}

/* Blocks until an event, unless there is something by then. */
static void sleep_for_event(struct stream *s)
{
	struct ibv_cq *cq;
	void *context;

	ibv_req_notify_cq(s->sends.cq, 0);
	ibv_req_notify_cq(s->receives.cq, 0);
	if (reap(s, &s->sends) + reap(s, &s->receives) > 0)
		return;
	if (ibv_get_cq_event(s->e.channel, &cq, &context))
		fail("ibv_get_cq_event failed");
	ibv_ack_cq_events(cq, 1);
}

static bool is_drained(const struct stream *s)
{
	return s->sends.completed == s->sends.posted && s->receives.completed == s->receives.posted;
}

int run_stream(const struct options *options)
{
	struct stream s = { .size = options->sizes[0] };
	int64_t drain_deadline;

	endpoint_open(&s.e, options, 2 * options->depth * s.size);
	s.sends.cq = s.e.send_cq;
	s.receives.cq = s.e.recv_cq;
	s.initiates = options->operation == OP_SEND || options->host;
	for (unsigned i = 0; i < options->depth; i++)
		post_one_receive(&s);
	endpoint_connect(&s.e);
	for (unsigned i = 0; s.initiates && i < options->depth; i++)
		post_send(&s);
	if (!s.initiates)
		printf("running\n");
	while (!s.dead) {
		if (reap(&s, &s.sends) + reap(&s, &s.receives) == 0 && options->use_events)
			sleep_for_event(&s);
	}
	drain_deadline = now_ns() + DRAIN_NS;
	while (!is_drained(&s) && now_ns() < drain_deadline) {
		reap(&s, &s.sends);
		reap(&s, &s.receives);
	}
	printf("drained sends=%llu/%llu receives=%llu/%llu at_ns=%lld\n",
	       (unsigned long long)s.sends.completed, (unsigned long long)s.sends.posted,
	       (unsigned long long)s.receives.completed, (unsigned long long)s.receives.posted,
	       (long long)now_ns());
	if (!is_drained(&s))
		fail("requests that never completed");
	endpoint_close(&s.e);
	return 0;
}
