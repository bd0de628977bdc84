/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported calls that create, connect, name, configure and close rsockets. */
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/uncancelled.h"
#include "rsocket/close.h"
#include "rsocket/connect.h"
#include "rsocket/datagram.h"
#include "rsocket/export.h"
#include "rsocket/keepalive.h"
#include "rsocket/linger.h"
#include "rsocket/option.h"
#include "rsocket/repoll.h"
#include "rsocket/stream_open.h"
#include "rsocket/stream_progress.h"
#include "rsocket/table.h"
#include "rsocket/transfer.h"
#include "rsocket/wait.h"

/*
 * Forks make the parent's rsockets unusable in the child.
 *
 * The connections belong to the parent's adapter. In the child, calls on their numbers return
 * EBADF, and rclose closes the descriptor only; the parent's connection does not notice. The child
 * can create rsockets of its own.
 */

static void in_child(void)
{
	table_after_fork();
	wait_forget();
	keepalive_forget();
	linger_forget();
	repoll_after_fork_in_child();
}

static void before_fork(void)
{
	repoll_before_fork(); /* outside the table's lock */
	table_before_fork();
}

static void still_parent(void)
{
	table_still_parent();
	repoll_after_fork();
}

static void register_handlers(void)
{
	pthread_atfork(before_fork, still_parent, in_child);
}

static void watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_handlers);
}

static bool is_stream(const struct rsocket *rs)
{
	return rs->type == SOCK_STREAM;
}

/* Drops the call's reference. What the call returns to the program. */
static int finish(struct rsocket *rs, int rc)
{
	rsocket_put(rs);
	return (int)answer(rc);
}

/* Creating */

static bool is_protocol(int type, int protocol)
{
	if (type == SOCK_STREAM)
		return !protocol || protocol == IPPROTO_TCP;
	return type == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP);
}

/* Hands the caller's reference to the table. Returns the number, or -errno. */
static int enter_table(struct rsocket *rs, int fd)
{
	int rc = table_insert(rs, fd);

	if (rc) {
		rsocket_put(rs);
		return rc;
	}
	return fd;
}

static int make(int domain, int type, int file_flags)
{
	struct datagram *d;
	struct stream *s;
	int rc;

	if (type == SOCK_DGRAM) {
		rc = datagram_create(domain, &d);
		if (rc)
			return rc;
		d->base.file_flags = file_flags;
		return enter_table(&d->base, d->base.fd);
	}
	rc = stream_create(domain, NULL, &s);
	if (rc)
		return rc;
	s->base.file_flags = file_flags;
	return enter_table(&s->base, s->channel->fd);
}

RSOCKET_EXPORT int rsocket(int domain, int type, int protocol)
{
	UNCANCELLED;
	int file_flags = O_RDWR | (type & SOCK_NONBLOCK ? O_NONBLOCK : 0);

	type &= ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	if ((domain != AF_INET && domain != AF_INET6) || !is_protocol(type, protocol))
		return (int)answer(-ENOTSUP);
	watch_forks();
	return (int)answer(make(domain, type, file_flags));
}

static int bind_stream(struct stream *s, const struct sockaddr *addr, socklen_t length)
{
	int rc;

	lock_acquire(&s->lock);
	rc = connect_bind(s, addr, length);
	lock_release(&s->lock);
	return rc;
}

RSOCKET_EXPORT int rbind(int socket, const struct sockaddr *addr, socklen_t length)
{
	UNCANCELLED;
	struct rsocket *rs = table_get(socket);

	if (!rs)
		return (int)answer(-EBADF);
	return finish(rs, is_stream(rs) ? bind_stream(stream_of(rs), addr, length)
					: datagram_bind(datagram_of(rs), addr, length));
}

static int listen_stream(struct stream *s, int backlog)
{
	int rc;

	lock_acquire(&s->lock);
	rc = connect_listen(s, backlog);
	lock_release(&s->lock);
	return rc;
}

RSOCKET_EXPORT int rlisten(int socket, int backlog)
{
	UNCANCELLED;
	struct rsocket *rs = table_get(socket);

	if (!rs)
		return (int)answer(-EBADF);
	return finish(rs, is_stream(rs) ? listen_stream(stream_of(rs), backlog) : -EOPNOTSUPP);
}

/* Copies an address to the program, truncated to its buffer, as accept(2) does. */
static void copy_address(const struct sockaddr *from, struct sockaddr *addr, socklen_t *length)
{
	socklen_t bytes = from->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						     : sizeof(struct sockaddr_in6);

	if (!length)
		return;
	if (addr)
		memcpy(addr, from, *length < bytes ? *length : bytes);
	*length = bytes;
}

static bool has_request(struct stream *s)
{
	return s->phase != STREAM_LISTENING || connect_has_request(s);
}

static int accept_next(struct stream *listener, struct stream **stream)
{
	int rc;

	lock_acquire(&listener->lock);
	if (listener->base.closed)
		rc = -EBADF;
	else
		rc = listener->phase == STREAM_LISTENING ? connect_accept(listener, stream)
							 : -EINVAL;
	lock_release(&listener->lock);
	return rc;
}

static int accept_stream(struct stream *listener, struct stream **stream)
{
	int rc;

	do {
		rc = accept_next(listener, stream);
		if (rc != -EAGAIN || stream_nonblocking(listener, 0))
			break;
		rc = stream_wait(listener, has_request, false, 0);
	} while (!rc);
	return rc;
}

RSOCKET_EXPORT int raccept(int socket, struct sockaddr *addr, socklen_t *length)
{
	CANCELLED_ASLEEP;
	struct rsocket *rs = table_get(socket);
	struct stream *s = NULL;
	int rc;

	if (!rs)
		return (int)answer(-EBADF);
	pthread_cleanup_push(rsocket_put_cancelled, rs);
	rc = is_stream(rs) ? accept_stream(stream_of(rs), &s) : -EOPNOTSUPP;
	pthread_cleanup_pop(0);
	if (!rc) {
		copy_address(rdma_get_peer_addr(s->id), addr, length);
		s->base.file_flags = O_RDWR;
		s->told = true;
		if (s->options[0] >> SO_KEEPALIVE & 1)
			keepalive_start(s);
		rc = enter_table(&s->base, s->channel->fd);
	}
	return finish(rs, rc);
}

static int begin_connect(struct stream *s, const struct sockaddr *addr, socklen_t length)
{
	int rc;

	lock_acquire(&s->lock);
	if (stream_is_connecting(s))
		stream_progress(s);
	if (stream_is_connecting(s))
		rc = -EALREADY;
	else if (s->phase == STREAM_CONNECTED || s->phase == STREAM_ENDED)
		rc = s->told ? -EISCONN
			     : 0; /* as Linux: one call returns the outcome, connect(2) */
	else if (s->phase == STREAM_FAILED)
		rc = s->error ? -stream_take_error(s) : -ECONNABORTED;
	else if (s->phase == STREAM_LISTENING)
		rc = -EINVAL;
	else
		rc = connect_start(s, addr, length);
	lock_release(&s->lock);
	return rc;
}

static int connect_stream(struct stream *s, const struct sockaddr *addr, socklen_t length)
{
	bool nonblock = stream_nonblocking(s, 0);
	int rc = begin_connect(s, addr, length);

	if (rc)
		return rc;
	rc = transfer_connected(s, 0);
	if (rc == -EAGAIN && nonblock)
		return -EINPROGRESS;
	if (rc)
		return rc;
	lock_acquire(&s->lock);
	if (s->phase == STREAM_FAILED)
		rc = -stream_take_error(s);
	else
		s->told = true;
	lock_release(&s->lock);
	return rc;
}

RSOCKET_EXPORT int rconnect(int socket, const struct sockaddr *addr, socklen_t length)
{
	CANCELLED_ASLEEP;
	struct rsocket *rs = table_get(socket);
	int rc;

	if (!rs)
		return (int)answer(-EBADF);
	if (!addr || length < sizeof(addr->sa_family))
		return finish(rs, -EINVAL);
	pthread_cleanup_push(rsocket_put_cancelled, rs);
	rc = is_stream(rs) ? connect_stream(stream_of(rs), addr, length)
			   : datagram_connect(datagram_of(rs), addr, length);
	pthread_cleanup_pop(0);
	return finish(rs, rc);
}

RSOCKET_EXPORT int rshutdown(int socket, int how)
{
	UNCANCELLED;
	struct rsocket *rs = table_get(socket);

	if (!rs)
		return (int)answer(-EBADF);
	return finish(rs, is_stream(rs) ? close_half(stream_of(rs), how)
					: datagram_shutdown(datagram_of(rs), how));
}

/* Closes the descriptor of an rsocket of the parent. -EBADF: it is none. */
static int close_inherited(int fd)
{
	if (!table_take_inherited(fd))
		return -EBADF;
	repoll_forget(fd); /* of the sets that this process has inherited, too */
	return close(fd) ? -errno : 0;
}

/*
 * Closes what rclose takes besides rsockets: those of the parent of a fork, and repoll descriptors.
 */
static int close_other(int fd)
{
	int rc = close_inherited(fd);

	return rc == -EBADF ? repoll_close(fd) : rc;
}

/*
 * The last reference closes the descriptor. So the kernel does not reuse the number before the last
 * call on the rsocket has returned.
 */
RSOCKET_EXPORT int rclose(int socket)
{
	UNCANCELLED;
	struct rsocket *rs = table_remove(socket);

	if (!rs)
		return (int)answer(close_other(socket));
	repoll_forget(socket); /* before the number may be another rsocket's */
	if (is_stream(rs))
		close_stream(stream_of(rs));
	else
		datagram_close(datagram_of(rs));
	return finish(rs, 0);
}

static int peer_name(struct stream *s, struct sockaddr *addr, socklen_t *length)
{
	int rc;

	lock_acquire(&s->lock);
	if (stream_is_connecting(s))
		stream_progress(s); /* a program may ask nothing else until it is connected */
	rc = s->phase <= STREAM_CONNECTING || s->phase == STREAM_FAILED ? -ENOTCONN : 0;
	if (!rc)
		copy_address(rdma_get_peer_addr(s->id), addr, length);
	lock_release(&s->lock);
	return rc;
}

RSOCKET_EXPORT int rgetpeername(int socket, struct sockaddr *addr, socklen_t *length)
{
	UNCANCELLED;
	struct rsocket *rs = table_get(socket);

	if (!rs)
		return (int)answer(-EBADF);
	return finish(rs, is_stream(rs) ? peer_name(stream_of(rs), addr, length)
			  : getpeername(rs->fd, addr, length) ? -errno
							      : 0);
}

static int own_name(struct stream *s, struct sockaddr *addr, socklen_t *length)
{
	struct sockaddr_storage none = { .ss_family = (sa_family_t)s->family };
	const struct sockaddr *local;

	lock_acquire(&s->lock);
	local = rdma_get_local_addr(s->id);
	copy_address(local->sa_family ? local : (struct sockaddr *)&none, addr, length);
	lock_release(&s->lock);
	return 0;
}

RSOCKET_EXPORT int rgetsockname(int socket, struct sockaddr *addr, socklen_t *length)
{
	UNCANCELLED;
	struct rsocket *rs = table_get(socket);

	if (!rs)
		return (int)answer(-EBADF);
	return finish(rs, is_stream(rs) ? own_name(stream_of(rs), addr, length)
			  : getsockname(rs->fd, addr, length) ? -errno
							      : 0);
}

RSOCKET_EXPORT int rsetsockopt(int socket, int level, int name, const void *value, socklen_t length)
{
	UNCANCELLED;
	struct rsocket *rs = table_get(socket);

	if (!rs)
		return (int)answer(-EBADF);
	return finish(rs, is_stream(rs) ? option_set(stream_of(rs), level, name, value, length)
					: datagram_set_option(datagram_of(rs), level, name, value,
							      length));
}

RSOCKET_EXPORT int rgetsockopt(int socket, int level, int name, void *value, socklen_t *length)
{
	UNCANCELLED;
	struct rsocket *rs = table_get(socket);

	if (!rs)
		return (int)answer(-EBADF);
	return finish(rs, is_stream(rs) ? option_get(stream_of(rs), level, name, value, length)
					: datagram_get_option(datagram_of(rs), level, name, value,
							      length));
}

static int change_flags(struct rsocket *rs, int cmd, int arg)
{
	switch (cmd) {
	case F_GETFL:
		return rs->file_flags;
	case F_SETFL:
		rs->file_flags = O_RDWR | (arg & ~O_ACCMODE);
		return 0;
	case F_GETFD:
	case F_SETFD: {
		int rc = fcntl(rs->fd, cmd, arg);

		return rc < 0 ? -errno : rc;
	}
	default:
		return -ENOTSUP;
	}
}

RSOCKET_EXPORT int rfcntl(int socket, int cmd, ...)
{
	UNCANCELLED;
	struct rsocket *rs = table_get(socket);
	va_list args;
	int arg;

	if (!rs)
		return (int)answer(-EBADF);
	va_start(args, cmd);
	arg = cmd == F_SETFL || cmd == F_SETFD ? va_arg(args, int) : 0;
	va_end(args);
	return finish(rs, change_flags(rs, cmd, arg));
}
