/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/source_port.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/uncancelled.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif

#define PORTS	  (SOURCE_PORT_MAX - SOURCE_PORT_MIN + 1)
#define TRIES_MAX 64 /* where nine of ten ports are taken, one of a thousand searches fails */
#define RESERVED  "/proc/sys/net/ipv4/ip_local_reserved_ports"

struct ports {
	uint8_t bits[PORTS / 8];
};

static bool has(const struct ports *ports, unsigned offset)
{
	return ports->bits[offset / 8] >> offset % 8 & 1;
}

/* Parses the kernel's list: "50000,50010-50019". No port is reserved if it cannot be read. */
static void read_reserved(struct ports *reserved)
{
	FILE *file = fopen(RESERVED, "re");
	unsigned from, to;

	memset(reserved, 0, sizeof(*reserved));
	if (!file)
		return;
	while (fscanf(file, "%u", &from) == 1) {
		if (fscanf(file, "-%u", &to) != 1)
			to = from;
		for (; from <= to && from <= SOURCE_PORT_MAX; from++) {
			unsigned offset = from - SOURCE_PORT_MIN;

			if (from >= SOURCE_PORT_MIN)
				reserved->bits[offset / 8] |= (uint8_t)(1 << offset % 8);
		}
		if (fgetc(file) != ',')
			break;
	}
	fclose(file);
}

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

static int family_of(int fd)
{
	int family = AF_UNSPEC;
	socklen_t length = sizeof(family);

	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length);
	return family;
}

int source_port_drop_received(int fd)
{
	struct sock_filter nothing[] = { BPF_STMT(BPF_RET | BPF_K, 0) };
	struct sock_fprog program = { 1, nothing };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0 ? -errno
											   : 0;
}

int source_port_share(int fd)
{
	int rc = set(fd, SOL_SOCKET, SO_NO_CHECK, 1);

	if (!rc && family_of(fd) == AF_INET6)
		rc = set(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, 1);
	return rc;
}

void source_port_accept_unchecked(int fd)
{
	if (family_of(fd) == AF_INET6)
		set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
}

/* Sets every option but the port. 0 or -errno. */
static int prepare(int fd, int family)
{
	int rc = source_port_drop_received(fd);

	if (!rc && family == AF_INET6)
		rc = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (rc)
		return rc;
	return family == AF_INET ? set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
				 : set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
}

/* Without SO_REUSEPORT and SO_REUSEADDR: the port is this socket's alone. 0 or -errno. */
static int bind_somewhere(int fd, const struct sockaddr *address, socklen_t length, uint16_t *port)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} local = { 0 };
	struct ports reserved;
	uint16_t random[TRIES_MAX];
	int rc = -EADDRINUSE;

	memcpy(&local, address, length);
	read_reserved(&reserved);
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (unsigned i = 0; i < TRIES_MAX && rc == -EADDRINUSE; i++) {
		unsigned offset = random[i] % PORTS;

		if (has(&reserved, offset))
			continue;
		*port = (uint16_t)(SOURCE_PORT_MIN + offset);
		if (address->sa_family == AF_INET)
			local.v4.sin_port = htons(*port);
		else
			local.v6.sin6_port = htons(*port);
		rc = bind(fd, &local.any, length) < 0 ? -errno : 0;
	}
	return rc;
}

int source_port_open(const struct sockaddr *address, socklen_t length, uint16_t *port)
{
	UNCANCELLED;
	int family = address->sa_family, fd, rc;

	if (length !=
	    (family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)))
		return -EINVAL;
	/* not socket(): librspreload would make it an rsocket */
	fd = (int)syscall(SYS_socket, family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	rc = prepare(fd, family);
	if (!rc)
		rc = bind_somewhere(fd, address, length, port);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}
