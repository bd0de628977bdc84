/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion events at end a, which is here. */
#ifndef CONTRACT_EVENTS_H
#define CONTRACT_EVENTS_H

#include <stdbool.h>

#include "expect.h"

#define SOLICITED (IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)

/* End a waits for what b sends. */
void arm(struct pair *pair, enum which which, bool solicited_only);

bool readable(int fd, unsigned int timeout_ms);

/* Takes one event, which has to be of this CQ, and acknowledges it. */
void take_event(const char *file, int line, struct pair *pair, enum which which);

#define expect_event(pair, which) take_event(__FILE__, __LINE__, pair, which)
#define expect_no_event(pair)                                                                      \
	REQUIRE(!readable((pair)->a.side->channel->fd, QUIET_MS), "unexpected "                    \
								  "event")

/* One message from b to a, completed at b, not polled at a. */
void deliver(struct pair *pair, uint64_t wr_id, unsigned int flags);

#endif
