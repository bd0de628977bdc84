/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported calls that send and receive: rsend and rrecv with their kin, and riomap. */
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "base/uncancelled.h"
#include "rsocket/datagram.h"
#include "rsocket/export.h"
#include "rsocket/mapping.h"
#include "rsocket/stream.h"
#include "rsocket/table.h"
#include "rsocket/transfer.h"
#include "rsocket/wait.h"

/* Receiving */

static void copy_sender(const union socket_name *from, void *addr, socklen_t *length)
{
	socklen_t bytes = from->sa.sa_family ? name_length(from) : 0;

	if (addr)
		memcpy(addr, from, *length < bytes ? *length : bytes);
	*length = bytes;
}

static ssize_t receive(int socket, struct pieces *pieces, int flags, void *addr, socklen_t *length,
		       int *msg_flags)
{
	CANCELLED_ASLEEP;
	struct rsocket *rs = table_get(socket);
	union socket_name from = { 0 };
	bool truncated = false;
	ssize_t rc;

	if (!rs)
		return answer(-EBADF);
	pthread_cleanup_push(rsocket_put_cancelled, rs);
	if (rs->type == SOCK_STREAM)
		rc = transfer_receive(stream_of(rs), pieces, flags);
	else
		rc = datagram_receive(datagram_of(rs), pieces, flags, &from, &truncated);
	pthread_cleanup_pop(0);
	if (rc >= 0 && length)
		copy_sender(&from, addr, length);
	if (rc >= 0 && msg_flags)
		*msg_flags = truncated ? MSG_TRUNC : 0;
	rsocket_put(rs);
	return answer(rc);
}

RSOCKET_EXPORT ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags,
				 struct sockaddr *addr, socklen_t *length)
{
	struct iovec iov = { buf, len };
	struct pieces pieces = { &iov, 1, 0 };

	return receive(socket, &pieces, flags, addr, addr ? length : NULL, NULL);
}

RSOCKET_EXPORT ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	return rrecvfrom(socket, buf, len, flags, NULL, NULL);
}

RSOCKET_EXPORT ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

RSOCKET_EXPORT ssize_t rreadv(int socket, const struct iovec *iov, int count)
{
	struct pieces pieces = { iov, count > 0 ? (size_t)count : 0, 0 };

	return count < 0 ? answer(-EINVAL) : receive(socket, &pieces, 0, NULL, NULL, NULL);
}

RSOCKET_EXPORT ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	struct pieces pieces = { msg->msg_iov, msg->msg_iovlen, 0 };
	ssize_t rc =
		receive(socket, &pieces, flags, msg->msg_name, &msg->msg_namelen, &msg->msg_flags);

	if (rc >= 0)
		msg->msg_controllen = 0;
	return rc;
}

/* Sending */

static ssize_t send_stream(struct stream *s, struct pieces *pieces, int flags)
{
	return flags & MSG_OOB ? -EOPNOTSUPP : transfer_send(s, pieces, flags);
}

/* `by_msg`: on a stream the name is ignored. */
static ssize_t send_pieces(int socket, struct pieces *pieces, int flags, const void *addr,
			   socklen_t length, bool by_msg)
{
	CANCELLED_ASLEEP;
	struct rsocket *rs = table_get(socket);
	ssize_t rc;

	if (!rs)
		return answer(-EBADF);
	pthread_cleanup_push(rsocket_put_cancelled, rs);
	if (rs->type == SOCK_STREAM)
		rc = !by_msg && (addr || length) ? -EISCONN
						 : send_stream(stream_of(rs), pieces, flags);
	else
		rc = datagram_send(datagram_of(rs), pieces, flags, addr, length);
	pthread_cleanup_pop(0);
	rsocket_put(rs);
	return answer(rc);
}

RSOCKET_EXPORT ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
			       const struct sockaddr *addr, socklen_t length)
{
	struct iovec iov = { (void *)buf, len };
	struct pieces pieces = { &iov, 1, 0 };

	return send_pieces(socket, &pieces, flags, addr, length, false);
}

RSOCKET_EXPORT ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	return rsendto(socket, buf, len, flags, NULL, 0);
}

RSOCKET_EXPORT ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

RSOCKET_EXPORT ssize_t rwritev(int socket, const struct iovec *iov, int count)
{
	struct pieces pieces = { iov, count > 0 ? (size_t)count : 0, 0 };

	return count < 0 ? answer(-EINVAL) : send_pieces(socket, &pieces, 0, NULL, 0, false);
}

/* On a stream the name is ignored, as TCP and rdma-core do: programs leave in it what was there. */
RSOCKET_EXPORT ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	struct pieces pieces = { msg->msg_iov, msg->msg_iovlen, 0 };

	if (msg->msg_control && msg->msg_controllen)
		return answer(-ENOTSUP);
	return send_pieces(socket, &pieces, flags, msg->msg_name, msg->msg_namelen, true);
}

/* Mappings */

/*
 * The stream with a reference, or NULL and -EBADF or -EOPNOTSUPP: datagram rsockets have no
 * mappings.
 */
static struct stream *get_stream(int socket, int *rc)
{
	struct rsocket *rs = table_get(socket);

	*rc = rs ? 0 : -EBADF;
	if (rs && rs->type != SOCK_STREAM) {
		rsocket_put(rs);
		*rc = -EOPNOTSUPP;
	}
	return *rc ? NULL : stream_of(rs);
}

RSOCKET_EXPORT off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	UNCANCELLED;
	off_t mapped;
	int rc;
	struct stream *s = get_stream(socket, &rc);

	if (!s)
		return answer(rc);
	if (prot & ~(PROT_WRITE | PROT_NONE))
		mapped = -EINVAL;
	else
		mapped = mapping_add(s, buf, len, prot & PROT_WRITE, offset);
	rsocket_put(&s->base);
	return answer(mapped);
}

RSOCKET_EXPORT int riounmap(int socket, void *buf, size_t len)
{
	UNCANCELLED;
	int rc;
	struct stream *s = get_stream(socket, &rc);

	if (!s)
		return (int)answer(rc);
	rc = mapping_remove(s, buf, len);
	rsocket_put(&s->base);
	return (int)answer(rc);
}

RSOCKET_EXPORT size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	CANCELLED_ASLEEP;
	int rc;
	struct stream *s = get_stream(socket, &rc);
	ssize_t done;

	if (!s)
		return (size_t)answer(rc);
	pthread_cleanup_push(rsocket_put_cancelled, &s->base);
	done = transfer_send_to(s, buf, count, (uint64_t)offset, flags);
	pthread_cleanup_pop(0);
	rsocket_put(&s->base);
	return (size_t)answer(done);
}
