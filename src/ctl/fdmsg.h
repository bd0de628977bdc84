/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Message with descriptors - sends and receives one message of the control socket.
 *
 * In:  a SOCK_SEQPACKET socket.
 * Out: the message as it came, unchecked but for its length, and the descriptors beside it, which
 *      from then on are the caller's to close.
 *
 * Any thread; those that take a deadline block. Raises no SIGPIPE. Received descriptors are
 * close-on-exec.
 */
#ifndef CTL_FDMSG_H
#define CTL_FDMSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/protocol.h"

/*
 * As many as a message can carry (Linux's SCM_MAX_FD). With less room the kernel would close the
 * rest, which may take long.
 */
#define FDMSG_FDS_ROOM 253

struct fdmsg {
	union ctl_message body;
	size_t len; /* of the message as sent; larger than body if it did not fit */
	int fds[FDMSG_FDS_ROOM];
	unsigned fd_count;
	bool fds_lost; /* more came, but the process has reached its limit of open files */
};

/*
 * 0; -EAGAIN: the socket's buffer is full; -EPIPE, -ECONNRESET: the other end is gone; or another
 * -errno of sendmsg(2). fd_count: 0..FDMSG_FDS_ROOM.
 */
int fdmsg_send(int sock, const void *message, size_t len, const int *fds, unsigned fd_count);

/*
 * Whether a send failed for a while only: the socket is full (-EAGAIN), or the kernel is short of
 * memory or has too many descriptors of this user under way. Nothing was sent, and that says
 * nothing of the other end.
 */
bool fdmsg_is_delayed(int rc);

/*
 * Waits until a send that failed with rc, of fdmsg_is_delayed, is worth another try. False: the
 * deadline has passed.
 */
bool fdmsg_wait_to_send(int sock, int rc, int64_t deadline_ns);

/* As fdmsg_send, and tries until the deadline while that is delayed. */
int fdmsg_send_until(int sock, const void *message, size_t len, const int *fds, unsigned fd_count,
		     int64_t deadline_ns);

/*
 * 0; -EAGAIN: nothing there; -ECONNRESET: the other end is gone (or sent an empty message); or
 * another -errno of recvmsg(2). *out is written on success only.
 */
int fdmsg_recv(int sock, struct fdmsg *out);

/*
 * The same for bytes of any kind, with MSG_PEEK or no flags: how many, or -errno. In out are the
 * descriptors and len, which is larger than size if the message did not fit. Whoever holds the
 * socket may have asked for more control data (SO_PASSCRED, SO_PASSPIDFD, SO_TIMESTAMP): the
 * descriptors come all the same, and a pidfd is closed.
 */
ssize_t fdmsg_recv_bytes(int sock, int flags, void *bytes, size_t size, struct fdmsg *out);

/* As fdmsg_recv, and waits until the deadline (monotonic clock): -ETIMEDOUT instead of -EAGAIN. */
int fdmsg_wait(int sock, int64_t deadline_ns, struct fdmsg *out);

/* Closes the descriptors that are left in m; one taken out is replaced by -1 first. */
void fdmsg_close_fds(struct fdmsg *m);

/* Takes descriptor i out of m: the caller's from now on. */
int fdmsg_take_fd(struct fdmsg *m, unsigned i);

#endif
