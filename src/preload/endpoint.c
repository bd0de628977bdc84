/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/endpoint.h"

#include <errno.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/uncancelled.h"
#include "preload/answer.h"
#include "preload/nldev.h"
#include "preload/real.h"

#define REQUEST_MAX 4096 /* bytes of a datagram: requests have some dozens */

struct endpoint {
	atomic_bool in_use;
	dev_t device;
	ino_t inode;
	struct answer answer;
	size_t sent; /* bytes of the answer that were sent */
};

atomic_bool endpoint_any;

/* Guards the endpoints; `in_use` is also read without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct endpoint endpoints[ENDPOINT_NUMBERS]; /* by the descriptor's number */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void release_lock(void)
{
	pthread_mutex_unlock(&lock);
}

/* So that the child of a fork finds the lock free. */
static void prepare_for_fork(void)
{
	pthread_atfork(take_lock, release_lock, release_lock);
}

static bool may_be(int fd)
{
	return fd >= 0 && fd < ENDPOINT_NUMBERS &&
	       atomic_load_explicit(&endpoints[fd].in_use, memory_order_relaxed);
}

static void forget(struct endpoint *endpoint)
{
	answer_fini(&endpoint->answer);
	endpoint->sent = 0;
	atomic_store_explicit(&endpoint->in_use, false, memory_order_relaxed);
}

/* With the lock. NULL: the descriptor is none, or what had its number has been closed. */
static struct endpoint *find(int fd)
{
	struct endpoint *endpoint = may_be(fd) ? &endpoints[fd] : NULL;
	struct stat status;

	if (!endpoint)
		return NULL;
	if (real()->fstat(fd, &status) == 0 && status.st_dev == endpoint->device &&
	    status.st_ino == endpoint->inode)
		return endpoint;
	forget(endpoint);
	return NULL;
}

static int enter(int fd)
{
	struct stat status;

	if (fd >= ENDPOINT_NUMBERS)
		return -EMFILE;
	if (real()->fstat(fd, &status) != 0)
		return -errno;
	pthread_once(&once, prepare_for_fork);
	take_lock();
	forget(&endpoints[fd]);
	endpoints[fd].device = status.st_dev;
	endpoints[fd].inode = status.st_ino;
	atomic_store_explicit(&endpoints[fd].in_use, true, memory_order_relaxed);
	atomic_store_explicit(&endpoint_any, true, memory_order_relaxed);
	release_lock();
	return 0;
}

int endpoint_open(int type)
{
	int fd = real()->socket(AF_NETLINK, type, NETLINK_USERSOCK), rc;

	if (fd < 0)
		return -errno;
	rc = enter(fd);
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

bool endpoint_is(int fd)
{
	bool is;

	if (!may_be(fd))
		return false;
	take_lock();
	is = find(fd) != NULL;
	release_lock();
	return is;
}

/* Removes what others have sent before the socket was connected. */
static void drain(int fd)
{
	char byte;

	while (real()->recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) >= 0)
		;
}

/*
 * Binds the socket if the program has not done so, and connects it to itself. 0 or -errno; writes
 * its port.
 */
static int settle(int fd, uint32_t *port)
{
	struct sockaddr_nl own = { .nl_family = AF_NETLINK }, peer = { 0 };
	socklen_t len = sizeof(own), peer_len = sizeof(peer);

	if (getsockname(fd, (struct sockaddr *)&own, &len) != 0)
		return -errno;
	if (!own.nl_pid) {
		if (bind(fd, (struct sockaddr *)&own, sizeof(own)) != 0 ||
		    getsockname(fd, (struct sockaddr *)&own, &len) != 0)
			return -errno;
	}
	*port = own.nl_pid;
	if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0 && peer.nl_pid == own.nl_pid)
		return 0;
	own.nl_groups = 0;
	if (connect(fd, (struct sockaddr *)&own, sizeof(own)) != 0)
		return -errno;
	drain(fd);
	return 0;
}

/* With the lock. */
static void refill(struct endpoint *endpoint, int fd)
{
	struct answer *answer = &endpoint->answer;
	size_t len;

	while ((len = answer_datagram(answer, endpoint->sent)) > 0) {
		ssize_t sent = real()->send(fd, answer->bytes + endpoint->sent, len, MSG_DONTWAIT);

		if (sent != (ssize_t)len)
			return;
		endpoint->sent += len;
	}
	answer_fini(answer);
	endpoint->sent = 0;
}

void endpoint_refill(int fd)
{
	UNCANCELLED; /* or the lock would stay taken */
	struct endpoint *endpoint;
	int before = errno;

	take_lock();
	endpoint = find(fd);
	if (endpoint)
		refill(endpoint, fd);
	release_lock();
	errno = before;
}

static int deliver(int fd, const struct answer *answer)
{
	struct endpoint *endpoint;
	int rc = -EBADF;

	take_lock();
	endpoint = find(fd);
	if (endpoint)
		rc = answer_append(&endpoint->answer, answer);
	if (rc == 0)
		refill(endpoint, fd);
	release_lock();
	return rc;
}

/* The length, or -EMSGSIZE. */
static ssize_t gather(const struct msghdr *datagram, char bytes[REQUEST_MAX])
{
	size_t len = 0;

	for (size_t i = 0; i < datagram->msg_iovlen; i++) {
		const struct iovec *part = &datagram->msg_iov[i];

		if (part->iov_len > REQUEST_MAX - len)
			return -EMSGSIZE;
		memcpy(bytes + len, part->iov_base, part->iov_len);
		len += part->iov_len;
	}
	return (ssize_t)len;
}

ssize_t endpoint_send(int fd, const struct msghdr *datagram)
{
	_Alignas(NLMSG_ALIGNTO) char bytes[REQUEST_MAX];
	UNCANCELLED; /* or the answer would be lost */
	ssize_t len = gather(datagram, bytes);
	struct answer answer = { 0 };
	uint32_t port = 0;
	int rc;

	if (len < 0)
		return len;
	rc = settle(fd, &port);
	if (rc)
		return rc;
	nldev_answer(bytes, len, port, &answer);
	rc = answer.error ? answer.error : deliver(fd, &answer);
	answer_fini(&answer);
	return rc ? rc : len;
}
