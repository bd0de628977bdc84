/* SPDX-License-Identifier: BSD-2-Clause */
#include "events.h"

#include <poll.h>

/* End a, which is here, waits for what b sends. */
void arm(struct pair *pair, enum which which, bool solicited_only)
{
	int result = ibv_req_notify_cq(pair->a.side->cq[which], solicited_only);

	REQUIRE(result == 0, "ibv_req_notify_cq: %s", strerror(result));
}

bool readable(int fd, unsigned int timeout_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, (int)timeout_ms) == 1 && (ready.revents & POLLIN);
}

/* Takes one event, which has to be of this CQ, and acknowledges it. */
void take_event(const char *file, int line, struct pair *pair, enum which which)
{
	struct side *side = pair->a.side;
	struct ibv_cq *cq;
	void *context;

	if (!readable(side->channel->fd, WAIT_MS))
		fail_here(file, line, "no completion event came");
	if (ibv_get_cq_event(side->channel, &cq, &context) != 0)
		fail_here(file, line, "ibv_get_cq_event: %s", strerror(errno));
	if (cq != side->cq[which] || context != side)
		fail_here(file, line, "event of another CQ, or without its cq_context");
	ibv_ack_cq_events(cq, 1);
}

/* One message from b to a, completed at b, not polled at a. */
void deliver(struct pair *pair, uint64_t wr_id, unsigned int flags)
{
	post_receive(&pair->a, 0, RECEIVE(.wr_id = wr_id, .length = 64));
	post_send(&pair->b, 0, SEND(.wr_id = 1, .length = 64, .flags = flags));
	expect(&pair->b, SENDS, 1, IBV_WC_SUCCESS);
}
