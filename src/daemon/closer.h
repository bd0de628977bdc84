/*
 * Closer - closes what clients gave or left, beside the daemon's one thread.
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
 * Threads come as they are needed and go when they are not: CLOSER_THREADS at most, of which one
 * user's descriptors hold up CLOSER_THREADS_OF_USER. They touch nothing of the daemon but the queue
 * here, which has a lock of its own.
 *
 * Any thread; never blocks, unless memory or threads are refused: then it closes at once.
 */
#ifndef DAEMON_CLOSER_H
#define DAEMON_CLOSER_H

#include <sys/types.h>

#define CLOSER_THREADS	       64
#define CLOSER_THREADS_OF_USER 16

/* uid: of whom it came. fd may be -1: nothing happens. */
void closer_close(uid_t uid, int fd);

/* A connected socket: the other end notices at once, and reads what it was sent. */
void closer_hang_up(uid_t uid, int sock);

#endif
