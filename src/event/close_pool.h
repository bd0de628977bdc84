/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Close pool - threads that close descriptors of clients, beside the daemon's one thread.
 *
 * In:  descriptors that came from clients, and the sockets of clients.
 * Out: the same closed, in any order, soon.
 *
 * close(2) may block: a TCP socket lingers, a file of FUSE or NFS asks its server, a large memfd
 * gives back its memory. A unix socket drops the messages in its queue, with descriptors that may
 * be any of these. So the daemon's thread closes nothing of a client. Threads start when they are
 * needed and end when they are idle.
 *
 * Descriptors that cannot be closed in time stay open, so their number is limited:
 *  - When close_pool_is_behind(), a client of that user that sends another one is disconnected, and
 *    new connections of the user are refused.
 *  - A refused connection is queued here too, since what it has sent may make its socket slow to
 *    close. When close_pool_is_full(), the daemon stops accepting: the user of a connection is
 *    known only after accept(2).
 *
 * Any thread; never blocks, unless memory or threads are refused: then it closes at once. The queue
 * has a lock of its own. A call costs a step for each user that has something queued.
 */
#ifndef EVENT_CLOSE_POOL_H
#define EVENT_CLOSE_POOL_H

#include <stdbool.h>
#include <sys/types.h>

#define CLOSE_POOL_THREADS	   64
#define CLOSE_POOL_THREADS_OF_USER 16 /* that the descriptors of one user hold up */
#define CLOSE_POOL_BEHIND	   "too much of what its user gave is not closed yet"
#define CLOSE_POOL_BEHIND_MIN	   64
#define CLOSE_POOL_BEHIND_MAX	   4096 /* the descriptors of 1023 processes that end at once */

/* uid: of the user that gave it. fd may be -1: nothing happens. */
void close_pool_close(uid_t uid, int fd);

/* A connected socket: the other end notices at once, and can still read what it was sent. */
void close_pool_hang_up(uid_t uid, int sock);

/* Descriptors of this user are not closed yet. */
bool close_pool_has(uid_t uid);

/*
 * So many descriptors of this user are not closed yet that the daemon takes no more from it: an
 * eighth of those that this process may have, within CLOSE_POOL_BEHIND_MIN and _MAX.
 */
bool close_pool_is_behind(uid_t uid);

/* Half of all descriptors are not closed yet: the daemon accepts no connections. */
bool close_pool_is_full(void);

#endif
