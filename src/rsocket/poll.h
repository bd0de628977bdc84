/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Poll - waits for rsockets and ordinary descriptors at once: rpoll, rselect and repoll.
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

/* Closes a descriptor of repoll_create: 0 or -errno; -EBADF: it is none. */
int poll_close_set(int epoll);

/* This rsocket is about to be closed: it leaves all sets, as epoll(7) says. */
void poll_forget(int fd);

/* Around a fork: the child has all sets whole. */
void poll_before_fork(void);
void poll_after_fork(void);

#endif
