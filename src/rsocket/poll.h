/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Poll - waits for rsockets and ordinary descriptors at once: rpoll and rselect, and for repoll.
 *
 * A call first busy-polls all entries for polling_time (config.h). Then it sleeps in poll(2) on the
 * ordinary descriptors, on those of all rsockets, and on the eventfd of its thread (wait.h).
 */
#ifndef RSOCKET_POLL_H
#define RSOCKET_POLL_H

#include <poll.h>
#include <stdint.h>

/*
 * poll(2): the number of entries with events, 0 at the deadline, or -errno. `deadline_ns` is of
 * CLOCK_MONOTONIC; 0 waits for ever.
 */
int poll_wait(struct pollfd *fds, nfds_t count, uint64_t deadline_ns);

/* The deadline for a time-out in ms; 0, which is none, if that is negative. */
uint64_t poll_deadline(int timeout_ms);

#endif
