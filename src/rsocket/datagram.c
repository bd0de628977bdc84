/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/datagram.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "rsocket/config.h"
#include "rsocket/resolve.h"
#include "rsocket/ud.h"
#include "rsocket/wait.h"

#define SLOT_BYTES 2048 /* of SO_SNDBUF and SO_RCVBUF, for each datagram */
#define LOOKS_UDP  16	/* every 16th poll in vain reads the UDP socket, too */
#define CLOSE_NS   UINT64_C(1000000000)

static int take_address(const struct datagram *d, const struct sockaddr *from, socklen_t length,
			union socket_name *address)
{
	memset(address, 0, sizeof(*address));
	if (!from || length < sizeof(from->sa_family))
		return -EINVAL;
	if (from->sa_family != d->family)
		return -EAFNOSUPPORT;
	address->sa.sa_family = from->sa_family;
	if (length < name_length(address))
		return -EINVAL;
	memcpy(address, from, name_length(address));
	return 0;
}

static void destroy(struct rsocket *rs)
{
	struct datagram *d = datagram_of(rs);

	resolve_free_all(d);
	ud_free_all(d);
	if (d->epoll >= 0)
		close(d->epoll);
	if (d->base.fd >= 0)
		close(d->base.fd);
	free(d);
}

static void fit_queues(struct datagram *d)
{
	if (d->sq_size > d->send_bytes / SLOT_BYTES)
		d->sq_size = d->send_bytes / SLOT_BYTES;
	if (d->rq_size > d->receive_bytes / SLOT_BYTES)
		d->rq_size = d->receive_bytes / SLOT_BYTES;
	if (d->sq_size < SIZE_MIN)
		d->sq_size = SIZE_MIN;
	if (d->rq_size < SIZE_MIN)
		d->rq_size = SIZE_MIN;
}

int datagram_create(int family, struct datagram **datagram)
{
	const struct config *config = config_get();
	struct epoll_event event = { .events = EPOLLIN };
	struct datagram *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	rsocket_init(&d->base, SOCK_DGRAM, destroy);
	d->family = family;
	d->receive_bytes = config->receive_bytes;
	d->send_bytes = config->send_bytes;
	d->sq_size = config->sq_size;
	d->rq_size = config->rq_size;
	d->inline_bytes = config->inline_bytes;
	fit_queues(d);
	lock_init(&d->lock);
	list_init(&d->waiters);
	list_init(&d->ends);
	list_init(&d->arrived);
	list_init(&d->peers);
	for (int i = 0; i < DATAGRAM_BUCKETS; i++)
		list_init(&d->buckets[i]);
	d->base.fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (d->base.fd < 0 || d->epoll < 0 ||
	    epoll_ctl(d->epoll, EPOLL_CTL_ADD, d->base.fd, &event)) {
		rc = -errno;
		destroy(&d->base);
		return rc;
	}
	*datagram = d;
	return 0;
}

int datagram_bind(struct datagram *d, const struct sockaddr *addr, socklen_t length)
{
	return bind(d->base.fd, addr, length) ? -errno : 0;
}

int datagram_connect(struct datagram *d, const struct sockaddr *addr, socklen_t length)
{
	union socket_name address;
	int rc = 0;

	lock_acquire(&d->lock);
	if (connect(d->base.fd, addr, length)) {
		rc = -errno;
	} else if (addr->sa_family == AF_UNSPEC) {
		d->connected = false;
	} else {
		rc = take_address(d, addr, length, &address);
		d->connected = !rc;
		d->peer = address;
	}
	lock_release(&d->lock);
	return rc;
}

/* Polling and waiting */

/* Polls the CQs and, now and then, the UDP socket. True: something arrived or completed. */
static bool poll_sources(struct datagram *d) REQUIRES(d->lock)
{
	bool found = ud_poll(d);

	/* Reading the UDP socket is a system call, and only a peer's first datagram comes there. */
	if (!d->udp_length && list_empty(&d->arrived) &&
	    (list_empty(&d->ends) || d->looks++ % LOOKS_UDP == 0))
		found |= resolve_poll(d);
	if (found)
		wait_kick(&d->waiters);
	return found;
}

int datagram_arm(struct datagram *d, struct pollfd fds[1])
{
	if (!d->armed)
		ud_arm(d);
	d->armed = true;
	d->looks = 0; /* so that the next poll reads the UDP socket, too */
	fds[0] = (struct pollfd){ .fd = d->epoll, .events = POLLIN };
	return 1;
}

void datagram_disarm(struct datagram *d)
{
	ud_disarm(d);
	d->armed = false;
	d->looks = 0;
	wait_kick(&d->waiters);
}

static int sleep_once(struct datagram *d, bool (*ready)(struct datagram *d), int self,
		      uint64_t deadline_ns, bool *over) EXCLUDES(d->lock)
{
	struct waiter waiter;
	struct pollfd fds[2];
	int woken, timeout_ms, rc = 0;

	lock_acquire(&d->lock);
	datagram_arm(d, fds);
	poll_sources(d);
	if (d->base.closed)
		rc = -EBADF;
	*over = rc || ready(d);
	if (!*over)
		wait_join(&d->waiters, &waiter, self); /* WAIT */
	lock_release(&d->lock);
	if (*over)
		return rc;
	timeout_ms = wait_left_ms(self, deadline_ns);
	if (!timeout_ms)
		rc = -EAGAIN;
	fds[1] = (struct pollfd){ .fd = self, .events = POLLIN };
	woken = rc ? 0 : wait_poll_joined(&waiter, &d->lock, fds, 2, timeout_ms);
	if (woken < 0)
		rc = -errno;
	if (woken > 0 && fds[1].revents)
		wait_clear(self);
	lock_acquire(&d->lock);
	wait_leave(&waiter);
	if (woken > 0 && fds[0].revents) /* a thread that another has kicked kicks nobody */
		datagram_disarm(d);
	if (d->base.closed)
		rc = -EBADF;
	lock_release(&d->lock);
	return rc;
}

/* As stream_wait. */
static int wait(struct datagram *d, bool (*ready)(struct datagram *d), bool nonblock,
		uint64_t deadline_ns) EXCLUDES(d->lock)
{
	uint64_t start = 0, now;
	bool over;
	int self, rc = 0;

	d->looks = nonblock ? 0 : d->looks;
	do {
		lock_acquire(&d->lock);
		poll_sources(d);
		over = ready(d);
		lock_release(&d->lock);
		if (over || nonblock)
			return over ? 0 : -EAGAIN;
		now = clock_now_ns();
		if (!start)
			start = now;
	} while (now - start < config_get()->poll_us * UINT64_C(1000));
	self = wait_fd();
	while (!rc && !over)
		rc = sleep_once(d, ready, self, deadline_ns, &over);
	return rc;
}

static bool nonblocking(const struct datagram *d, int flags)
{
	return (flags & MSG_DONTWAIT) || (d->base.file_flags & O_NONBLOCK);
}

/* Sending */

static bool can_send(struct datagram *d)
{
	struct list *pos;

	list_for_each(pos, &d->ends)
		if (!ud_can_send(d, list_entry(pos, struct ud_end, link)))
			return false;
	return true;
}

/* The number of bytes, -EAGAIN (the SQ is full), or another -errno. */
static ssize_t send_now(struct datagram *d, const union socket_name *address, struct pieces *pieces,
			size_t length, bool nonblock) REQUIRES(d->lock)
{
	struct peer *peer;
	int rc;

	if (d->shut_send)
		return -EPIPE;
	rc = resolve_get(d, address, &peer);
	if (rc)
		return rc;
	if (length > ud_max(peer->end) || !resolve_is_known(d, peer)) {
		if (resolve_poll(d)) /* the peer's answer may have arrived, or a datagram */
			wait_kick(&d->waiters);
		return resolve_send(d, peer, OP_DATA, pieces, length, nonblock);
	}
	if (!ud_can_send(d, peer->end))
		poll_sources(d);
	if (!ud_can_send(d, peer->end))
		return -EAGAIN;
	rc = ud_send(d, peer->end, peer->ah, peer->qpn, pieces, (uint32_t)length);
	return rc ? rc : (ssize_t)length;
}

ssize_t datagram_send(struct datagram *d, struct pieces *pieces, int flags,
		      const struct sockaddr *addr, socklen_t addr_length)
{
	ssize_t length = pieces_length(pieces), sent;
	bool nonblock = nonblocking(d, flags);
	union socket_name address;
	int rc = length < 0 ? (int)length : 0;

	if (!rc && addr)
		rc = take_address(d, addr, addr_length, &address);
	else if (!rc && !d->connected)
		rc = -EDESTADDRREQ;
	while (!rc) {
		lock_acquire(&d->lock);
		sent = send_now(d, addr ? &address : &d->peer, pieces, (size_t)length, nonblock);
		lock_release(&d->lock);
		if (sent != -EAGAIN || nonblock)
			return sent;
		rc = wait(d, can_send, false, 0);
	}
	return rc;
}

/* Receiving */

/*
 * Drops what other addresses sent to the QPs of a connected rsocket. For UDP the kernel does this.
 */
static void drop_unconnected(struct datagram *d) REQUIRES(d->lock)
{
	union socket_name from;

	while (d->connected && !list_empty(&d->arrived)) {
		struct ud_received *received =
			list_entry(d->arrived.next, struct ud_received, link);

		ud_sender(received, &from);
		if (name_equal(&from, &d->peer))
			break;
		ud_release(d, received);
	}
}

static bool has_datagram(struct datagram *d) REQUIRES(d->lock)
{
	drop_unconnected(d);
	return d->udp_length || !list_empty(&d->arrived) || d->shut_receive;
}

static ssize_t copy_out(struct pieces *pieces, size_t room, const void *data, size_t length,
			bool *truncated)
{
	*truncated = length > room;
	if (*truncated)
		length = room;
	pieces_scatter(pieces, data, length);
	return (ssize_t)length;
}

/* The number of bytes, 0 after rshutdown, or -EAGAIN (no datagram is there). */
static ssize_t receive_now(struct datagram *d, struct pieces *pieces, size_t room, bool peek,
			   union socket_name *from, bool *truncated) REQUIRES(d->lock)
{
	ssize_t length;

	drop_unconnected(d);
	if (!list_empty(&d->arrived)) {
		struct ud_received *received =
			list_entry(d->arrived.next, struct ud_received, link);

		ud_sender(received, from);
		resolve_heard(d, from);
		length = copy_out(pieces, room,
				  (const uint8_t *)received->header + received->header->length,
				  received->length, truncated);
		if (!peek)
			ud_release(d, received);
		return length;
	}
	if (d->udp_length) {
		size_t there;
		const uint8_t *payload = resolve_payload(d, &there);

		*from = d->udp_from;
		length = copy_out(pieces, room, payload, there, truncated);
		if (!peek)
			d->udp_length = 0;
		return length;
	}
	return d->shut_receive ? 0 : -EAGAIN;
}

ssize_t datagram_receive(struct datagram *d, struct pieces *pieces, int flags,
			 union socket_name *addr, bool *truncated)
{
	ssize_t room = pieces_length(pieces), length;
	union socket_name from = { 0 };
	int rc = room < 0 ? (int)room : 0;

	while (!rc) {
		lock_acquire(&d->lock);
		length = receive_now(d, pieces, (size_t)room, flags & MSG_PEEK, &from, truncated);
		lock_release(&d->lock);
		if (length != -EAGAIN) {
			if (addr)
				*addr = from;
			return length;
		}
		rc = wait(d, has_datagram, nonblocking(d, flags), 0);
	}
	return rc;
}

/* Shutdown, poll and options */

int datagram_shutdown(struct datagram *d, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	if (!d->connected)
		return -ENOTCONN;
	lock_acquire(&d->lock);
	d->shut_receive |= how != SHUT_WR;
	d->shut_send |= how != SHUT_RD;
	wait_kick(&d->waiters);
	lock_release(&d->lock);
	return 0;
}

static bool all_sent(struct datagram *d) REQUIRES(d->lock)
{
	return ud_all_done(d);
}

void datagram_close(struct datagram *d)
{
	uint64_t deadline = clock_now_ns() + CLOSE_NS;

	while (wait(d, all_sent, false, deadline) == -EINTR)
		;
	lock_acquire(&d->lock);
	d->base.closed = true;
	wait_kick(&d->waiters);
	lock_release(&d->lock);
}

short datagram_poll(struct datagram *d, short events)
{
	short revents = 0;

	poll_sources(d);
	if (has_datagram(d))
		revents |= POLLIN | POLLRDNORM;
	if (can_send(d))
		revents |= POLLOUT | POLLWRNORM;
	return revents & events;
}

static int set_queue(struct datagram *d, int name, int number)
{
	uint32_t size = number < SIZE_MIN	  ? SIZE_MIN
			: number > SIZE_MAX_QUEUE ? SIZE_MAX_QUEUE
						  : (uint32_t)number;

	if (!list_empty(&d->ends))
		return -EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		d->sq_size = size;
		d->send_bytes = config_buffer((uint64_t)size * SLOT_BYTES);
		return 0;
	case RDMA_RQSIZE:
		d->rq_size = size;
		d->receive_bytes = config_buffer((uint64_t)size * SLOT_BYTES);
		return 0;
	case RDMA_INLINE:
		d->inline_bytes = number < 0 ? 0 : (uint32_t)number;
		return 0;
	case RDMA_IOMAPSIZE:
	case RDMA_ROUTE:
		return 0; /* for streams only; accepted as rdma-core does */
	default:
		return -ENOPROTOOPT;
	}
}

/* Sizes the QPs like the buffers of the UDP socket: twice what was asked for, socket(7). */
static void size_queues(struct datagram *d, int name, int number)
{
	uint32_t bytes = config_buffer((uint32_t)number * UINT64_C(2));

	if (!list_empty(&d->ends))
		return;
	if (name == SO_RCVBUF) {
		d->receive_bytes = bytes;
		d->rq_size = config_get()->rq_size;
	} else {
		d->send_bytes = bytes;
		d->sq_size = config_get()->sq_size;
	}
	fit_queues(d);
}

int datagram_set_option(struct datagram *d, int level, int name, const void *value,
			socklen_t length)
{
	int number = 0, rc = 0;

	if (value && length >= sizeof(number))
		memcpy(&number, value, sizeof(number));
	if (level != SOL_RDMA && setsockopt(d->base.fd, level, name, value, length))
		return -errno;
	lock_acquire(&d->lock);
	if (level == SOL_RDMA)
		rc = value && length >= sizeof(number) ? set_queue(d, name, number) : -EINVAL;
	else if (level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_SNDBUF))
		size_queues(d, name, number);
	lock_release(&d->lock);
	return rc;
}

int datagram_get_option(struct datagram *d, int level, int name, void *value, socklen_t *length)
{
	int number;

	if (level != SOL_RDMA)
		return getsockopt(d->base.fd, level, name, value, length) ? -errno : 0;
	if (!value || !length || *length < sizeof(number))
		return -EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		number = (int)d->sq_size;
		break;
	case RDMA_RQSIZE:
		number = (int)d->rq_size;
		break;
	case RDMA_INLINE:
		number = (int)d->inline_bytes;
		break;
	case RDMA_IOMAPSIZE:
		number = 0;
		break;
	default:
		return -ENOPROTOOPT;
	}
	memcpy(value, &number, sizeof(number));
	*length = sizeof(number);
	return 0;
}
