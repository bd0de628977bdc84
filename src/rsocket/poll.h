/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Poll - rpoll, rselect and repoll: waiting for rsockets and ordinary descriptors at once.
 *
 * Numbers that are no rsocket's are polled as they are. A call looks at everything, for some time
 * (config.h), before it sleeps; it sleeps on the descriptors of all rsockets at once, and on the
 * eventfd of its thread (wait.h).
 */
#ifndef RSOCKET_POLL_H
#define RSOCKET_POLL_H

#include <poll.h>
#include <stdint.h>

/* As poll(): the number of entries with events, or -errno. `deadline_ns` of CLOCK_MONOTONIC; 0: none. */
int poll_wait(struct pollfd *fds, nfds_t count, uint64_t deadline_ns);

/* A time-out in ms as such a deadline, negative: none. */
uint64_t poll_deadline(int timeout_ms);

/* Closes the descriptor if repoll_create made it; -EBADF otherwise. */
int poll_close_set(int epoll);

#endif
