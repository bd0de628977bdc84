/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Repoll - sets of rsockets and ordinary descriptors: repoll_create, repoll_ctl, repoll_wait.
 *
 * A set is an epoll instance for the ordinary descriptors, and a list of the rsockets. A thread
 * that waits polls a copy of the list, the instance, and an eventfd of the set. What changes the
 * set writes to the eventfd, and threads that wait copy the list anew.
 *
 * The mutex guards the sets. A thread takes the table's lock under it, and sleeps without it.
 */
#ifndef RSOCKET_REPOLL_H
#define RSOCKET_REPOLL_H

/* Closes a descriptor of repoll_create: 0 or -errno; -EBADF: it is none. */
int repoll_close(int epoll);

/*
 * This rsocket is about to be closed: it leaves all sets, as epoll(7) says. Called after
 * table_remove, and before the number may be another rsocket's.
 */
void repoll_forget(int fd);

/* Around a fork: the child has all sets whole. */
void repoll_before_fork(void);
void repoll_after_fork(void);
void repoll_after_fork_in_child(void);

#endif
