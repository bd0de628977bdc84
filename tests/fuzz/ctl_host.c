/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ctl/protocol.h"
#include "base/gid.h"
#include "event/close_pool.h"

#define PACKETS_MAX  64
#define PACKET_BYTES 512
#define PEER_PIDFD   77

/* The daemon's sources call these instead of the C library's functions (meson.build). */
int host_clock_gettime(clockid_t clock, struct timespec *out);
int host_socket(int domain, int type, int protocol);
int host_bind(int fd, const struct sockaddr *address, socklen_t length);
int host_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int host_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
ssize_t host_recvfrom(int fd, void *buffer, size_t size, int flags, struct sockaddr *from,
		      socklen_t *from_len);
ssize_t host_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to,
		    socklen_t to_len);
int host_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms);
int host_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int host_fprintf(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
ssize_t host_getrandom(void *bytes, size_t size, unsigned flags);
int host_getifaddrs(struct ifaddrs **out);
void host_freeifaddrs(struct ifaddrs *all);
unsigned host_if_nametoindex(const char *name);

#define V4(d)                                                                                      \
	{                                                                                          \
		[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (d)                                    \
	}

static const struct host_address at_first[HOST_ADDRESSES] = {
	{ V4(1), AF_INET, 0, HOST_OWN },
	{ { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 }, AF_INET, 0, HOST_OWN },
	{ { 0xfe, 0x80, [15] = 1 }, AF_INET6, 2, HOST_OWN },
	{ { 0xfd, [15] = 1 }, AF_INET6, 0, HOST_OWN },
	{ { [15] = 1 }, AF_INET6, 0, HOST_OWN },
	{ V4(2), AF_INET, 0, HOST_NONE },
	{ { 0xfd, [15] = 2 }, AF_INET6, 0, HOST_NONE },
	{ { [10] = 0xff, [11] = 0xff }, AF_INET, 0, HOST_NONE }, /* any */
	{ { 0 }, AF_INET6, 0, HOST_NONE },			 /* any */
	{ { [10] = 0xff, [11] = 0xff, [12] = 224, [15] = 9 }, AF_INET, 0, HOST_NONE },
};

struct host_address host_addresses[HOST_ADDRESSES];
int host_event_count;
void (*host_on_sent)(const uint8_t from[16], const uint8_t to[16], const uint8_t *bytes,
		     size_t length);

static uint64_t now_ns;
static unsigned given;	     /* random numbers */
static int lives[HOST_PIDS]; /* eventfds in place of pidfds: readable once the process is dead */
static uint8_t process_of[4096];
static int change_fd = -1;   /* the other end of the daemon's netlink socket */
static uint8_t names[65536]; /* by the real port: the address that the daemon bound, plus 1 */
static int sender = -1;

static struct packet_in {
	uint8_t bytes[PACKET_BYTES], from[16];
	uint16_t port; /* of the sender */
	uint8_t to;    /* as in names */
	size_t length;
} packets[PACKETS_MAX];
static unsigned packet_count;

void host_begin(void)
{
	memcpy(host_addresses, at_first, sizeof(at_first));
	now_ns = UINT64_C(1000000000000);
	packet_count = given = 0;
	memset(names, 0, sizeof(names));
	for (unsigned i = 0; i < HOST_PIDS; i++)
		lives[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

void host_end(void)
{
	for (unsigned i = 0; i < HOST_PIDS; i++)
		close(lives[i]);
	close(sender);
	if (change_fd >= 0)
		close(change_fd);
	change_fd = -1;
}

/*
 * ------------------------------------------------------------------------------------------
 * Time, processes, notices.
 */

void host_pass_ms(uint64_t ms)
{
	now_ns += ms * 1000000;
}

int host_clock_gettime(clockid_t clock, struct timespec *out)
{
	out->tv_sec = (time_t)(now_ns / 1000000000);
	out->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

int host_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	host_event_count = epoll_wait(fd, events, max, 0);
	return host_event_count;
}

int host_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return 0;
}

/* Predictable: the same sequence in each run, another value for each call. */
ssize_t host_getrandom(void *bytes, size_t size, unsigned flags)
{
	memset(bytes, (int)++given, size);
	return (ssize_t)size;
}

int host_fprintf(FILE *f, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	return 0;
}

void host_connected(int daemon_end, unsigned process)
{
	process_of[daemon_end % sizeof(process_of)] = (uint8_t)process;
}

void host_kill(unsigned process)
{
	uint64_t one = 1;

	if (write(lives[process], &one, sizeof(one)) != sizeof(one))
		abort();
}

int host_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
	if (level != SOL_SOCKET || option != PEER_PIDFD)
		return getsockopt(fd, level, option, value, length);
	*(int *)value = dup(lives[process_of[fd % sizeof(process_of)]]);
	return 0;
}

/* Closes at once, so that descriptors left open show at the end. */
void close_pool_close(uid_t uid, int fd)
{
	if (fd >= 0)
		close(fd);
}

void close_pool_hang_up(uid_t uid, int sock)
{
	close(sock);
}

bool close_pool_has(uid_t uid)
{
	return false;
}

bool close_pool_is_behind(uid_t uid)
{
	return false;
}

bool close_pool_is_full(void)
{
	return false;
}

void host_tell_change(void)
{
	if (change_fd >= 0)
		send(change_fd, "", 1, MSG_DONTWAIT);
}

/*
 * ------------------------------------------------------------------------------------------
 * Addresses.
 */

static struct host_address *find_address(const uint8_t gid[16])
{
	for (unsigned i = 0; i < HOST_ADDRESSES; i++) {
		if (!memcmp(host_addresses[i].gid, gid, 16))
			return &host_addresses[i];
	}
	return NULL;
}

/* An address of 127.64.0.0/10 by PID, on which no other program listens. */
static struct sockaddr_in loopback(void)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f400000u | (uint32_t)getpid() % 0x3fffffu),
	};
}

static uint16_t real_port(int fd)
{
	struct sockaddr_in real = { .sin_port = 0 };
	socklen_t len = sizeof(real);

	if (getsockname(fd, (struct sockaddr *)&real, &len) || real.sin_family != AF_INET)
		return 0;
	return ntohs(real.sin_port);
}

int host_socket(int domain, int type, int protocol)
{
	int ends[2];

	if (domain == AF_INET || domain == AF_INET6)
		return socket(AF_INET, type, 0);
	if (domain != AF_NETLINK || protocol != NETLINK_ROUTE)
		return socket(domain, type, protocol);
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return -1;
	if (change_fd >= 0)
		close(change_fd);
	change_fd = ends[1];
	return ends[0];
}

int host_bind(int fd, const struct sockaddr *address, socklen_t length)
{
	struct sockaddr_in real = loopback();
	union gid_sockaddr wanted;
	struct host_address *a;
	uint8_t gid[16];

	if (address->sa_family == AF_NETLINK)
		return 0;
	if (address->sa_family == AF_UNIX)
		return bind(fd, address, length);
	memcpy(&wanted, address, length);
	gid_from_sockaddr(&wanted.any, gid);
	a = find_address(gid);
	if (!a || a->state == HOST_NONE) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	if (!gid_sockaddr_port(&wanted))
		return 0;
	if (a->state == HOST_TAKEN) {
		errno = EADDRINUSE;
		return -1;
	}
	if (bind(fd, (struct sockaddr *)&real, sizeof(real)) < 0)
		return -1;
	names[real_port(fd)] = (uint8_t)(a - host_addresses + 1);
	return 0;
}

int host_getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
	union gid_sockaddr name;
	uint16_t port = real_port(fd);

	if (!port || !names[port])
		return getsockname(fd, address, length);

	const struct host_address *a = &host_addresses[names[port] - 1];
	socklen_t len = gid_to_sockaddr(a->gid, a->ifindex, CTL_UDP_PORT, &name);

	memcpy(address, &name, len < *length ? len : *length);
	*length = len;
	return 0;
}

static bool is_interface(const struct host_address *a)
{
	return a->state != HOST_NONE;
}

int host_getifaddrs(struct ifaddrs **out)
{
	struct ifaddrs **end = out;

	*end = NULL;
	for (unsigned i = 0; i < HOST_ADDRESSES; i++) {
		struct ifaddrs *a;

		if (!is_interface(&host_addresses[i]))
			continue;
		a = calloc(1, sizeof(*a) + sizeof(union gid_sockaddr));
		a->ifa_name = "eth0";
		a->ifa_flags = i == 1 || i == 4 ? IFF_UP | IFF_LOOPBACK : IFF_UP;
		a->ifa_addr = (struct sockaddr *)(a + 1);
		gid_to_sockaddr(host_addresses[i].gid, host_addresses[i].ifindex, CTL_UDP_PORT,
				(union gid_sockaddr *)a->ifa_addr);
		*end = a;
		end = &a->ifa_next;
	}
	return 0;
}

void host_freeifaddrs(struct ifaddrs *all)
{
	while (all) {
		struct ifaddrs *next = all->ifa_next;

		free(all);
		all = next;
	}
}

unsigned host_if_nametoindex(const char *name)
{
	return 2;
}

/*
 * ------------------------------------------------------------------------------------------
 * Packets.
 */

void host_packet(const uint8_t from[16], uint16_t port, const uint8_t to[16], const uint8_t *bytes,
		 size_t length)
{
	const struct host_address *a = find_address(to);
	struct sockaddr_in real = loopback();
	struct packet_in *p;

	if (!a)
		return;
	/* Older packets were for sockets that dropped them. */
	if (packet_count == PACKETS_MAX)
		packet_count = 0;
	p = &packets[packet_count++];
	memcpy(p->bytes, bytes, length < PACKET_BYTES ? length : PACKET_BYTES);
	memcpy(p->from, from, 16);
	p->port = port;
	p->length = length;
	p->to = (uint8_t)(a - host_addresses + 1);
	/* To all sockets of the address: unused ones drop it. */
	for (const uint8_t *at = names; (at = memchr(at, p->to, (size_t)(names + 65536 - at)));
	     at++) {
		real.sin_port = htons((uint16_t)(at - names));
		sendto(sender, "", 1, MSG_DONTWAIT, (struct sockaddr *)&real, sizeof(real));
	}
}

ssize_t host_recvfrom(int fd, void *buffer, size_t size, int flags, struct sockaddr *from,
		      socklen_t *from_len)
{
	uint8_t to = names[real_port(fd)];
	struct packet_in *p = packets;
	union gid_sockaddr name;
	char byte;
	ssize_t n = recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);

	if (n < 0)
		return n;
	while (p < packets + packet_count && p->to != to)
		p++;
	if (p == packets + packet_count) {
		errno = EAGAIN;
		return -1;
	}
	*from_len = gid_to_sockaddr(p->from, 2, CTL_UDP_PORT, &name);
	if (name.any.sa_family == AF_INET)
		name.v4.sin_port = htons(p->port);
	else
		name.v6.sin6_port = htons(p->port);
	memcpy(from, &name, *from_len);
	n = (ssize_t)p->length;
	memcpy(buffer, p->bytes, p->length < size ? p->length : size);
	packet_count--;
	memmove(p, p + 1, (size_t)(packets + packet_count - p) * sizeof(*p));
	return n;
}

ssize_t host_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to,
		    socklen_t to_len)
{
	union gid_sockaddr target;
	uint8_t gid[16];
	uint16_t port = real_port(fd);

	if (to->sa_family == AF_UNIX)
		return sendto(fd, bytes, length, flags, to, to_len);
	if (!port || !names[port])
		abort(); /* the daemon's socket of an address that it never bound */
	memcpy(&target, to, to_len);
	gid_from_sockaddr(&target.any, gid);
	if (host_on_sent)
		host_on_sent(host_addresses[names[port] - 1].gid, gid, bytes, length);
	return (ssize_t)length;
}
