/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Block - the listening end sleeps until a message comes; the other one sends it after a while.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "endpoint.h"
#include "post.h"

static struct ibv_sge first_bytes(struct endpoint *e)
{
	return (struct ibv_sge){ .addr = (uintptr_t)e->memory, .length = 64, .lkey = e->mr->lkey };
}

static void sleep_until_event(struct endpoint *e)
{
	struct pollfd waited = { .fd = e->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (e->options->sleep_how == SLEEP_POLL && poll(&waited, 1, -1) != 1)
		fail("poll: %s", strerror(errno));
	if (ibv_get_cq_event(e->channel, &cq, &context))
		fail("ibv_get_cq_event: %s", strerror(errno));
	if (cq != e->recv_cq)
		fail("an event of another CQ");
	ibv_ack_cq_events(cq, 1);
}

static void sleep_and_receive(struct endpoint *e)
{
	struct ibv_wc wc;

	if (ibv_req_notify_cq(e->recv_cq, 0))
		fail("ibv_req_notify_cq: %s", strerror(errno));
	printf("blocked\n");
	sleep_until_event(e);
	if (ibv_poll_cq(e->recv_cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		fail("an event without a completion");
	printf("woken\n");
}

static void hold_and_send(struct endpoint *e)
{
	struct timespec hold = { .tv_sec = e->options->hold_ms / 1000,
				 .tv_nsec = e->options->hold_ms % 1000 * 1000000L };
	struct ibv_sge piece = first_bytes(e);
	struct request request = { .operation = OP_SEND, .pieces = &piece, .piece_count = 1 };
	struct ibv_wc wc;

	printf("holding\n");
	nanosleep(&hold, NULL);
	post_send_chain(e, &request, 1);
	endpoint_wait_success(e, e->send_cq, &wc);
	printf("sent\n");
}

int run_block(const struct options *options)
{
	struct endpoint e;
	struct ibv_sge piece;

	endpoint_open(&e, options, 4096);
	piece = first_bytes(&e);
	post_receive(&e, 0, &piece, 1);
	endpoint_connect(&e);
	if (options->host)
		hold_and_send(&e);
	else
		sleep_and_receive(&e);
	endpoint_close(&e);
	return 0;
}
