/*
 * Close pool - threads that close what clients gave or left, beside the daemon's one thread.
 *
 * In:  descriptors that came from clients, and the sockets of clients.
 * Out: the same closed, in any order, soon.
 *
 * close(2) may take long, and whoever closes waits for it: a TCP socket lingers, a file of FUSE or
 * NFS asks its server, a large memfd gives back its memory. A unix socket drops what is under way
 * in it, which may be any of these, whatever its owner ever received. So nothing of a client is
 * closed by the daemon's thread; what has to answer at once (the client notices that it was cut
 * off) happens there, by shutdown(2).
 *
 * Threads come as they are needed and go when they are not: CLOSE_POOL_THREADS at most, of which
 * one user's descriptors hold up CLOSE_POOL_THREADS_OF_USER. They touch nothing of the daemon but
 * the queue here, which has a lock of its own.
 *
 * What cannot be closed in time stays open, and whoever gives it must not give without end. With as
 * many queued as close_pool_is_behind() allows (an eighth of the descriptors this process may have,
 * within CLOSE_POOL_BEHIND_MIN and _MAX) a user is not listened to: a client of it that sends
 * another descriptor is cut off, and its callers are refused. Nothing more comes in of its clients
 * then: what is queued beyond that was open before. Only a caller who is refused comes in, for what
 * it has sent already may make its socket slow to close. So when half of all descriptors are queued
 * (close_pool_is_full) no calls are taken, of nobody, since who calls is known after accept(2)
 * only.
 *
 * Queueing and taking cost a step for each user of whom something is queued, however much it is.
 *
 * Any thread; never blocks, unless memory or threads are refused: then it closes at once.
 */
#ifndef EVENT_CLOSE_POOL_H
#define EVENT_CLOSE_POOL_H

#include <stdbool.h>
#include <sys/types.h>

#define CLOSE_POOL_THREADS	   64
#define CLOSE_POOL_THREADS_OF_USER 16
#define CLOSE_POOL_BEHIND	   "too much of what its user gave is not closed yet"
#define CLOSE_POOL_BEHIND_MIN	   64
#define CLOSE_POOL_BEHIND_MAX	   4096 /* what 1023 processes that end at once leave */

/* uid: of whom it came. fd may be -1: nothing happens. */
void close_pool_close(uid_t uid, int fd);

/* A connected socket: the other end notices at once, and reads what it was sent. */
void close_pool_hang_up(uid_t uid, int sock);

/* Something of this user's is not closed yet. */
bool close_pool_has(uid_t uid);

/* So much of this user's is not closed yet that no more is to be taken from it. */
bool close_pool_is_behind(uid_t uid);

/* So much is not closed yet that nobody is to be let in. */
bool close_pool_is_full(void);

#endif
