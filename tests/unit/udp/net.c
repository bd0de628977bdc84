/* SPDX-License-Identifier: BSD-2-Clause */
#include "net.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../own_network.h"
#include "base/gid.h"

static bool own_namespace;

static void change(const char *interface, unsigned long request, struct ifreq *r)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(r->ifr_name, sizeof(r->ifr_name), "%s", interface);
	if (ioctl(fd, request, r) < 0)
		perror(interface);
	close(fd);
}

bool net_init(void)
{
	struct ifreq up = { .ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING };

	own_namespace = own_network_enter();
	if (own_namespace)
		change("lo", SIOCSIFFLAGS, &up);
	return own_namespace;
}

void net_address(bool v6, unsigned which, uint8_t gid[WIRE_GID_BYTES])
{
	struct in_addr a = { htonl(0x7f000000 | (uint32_t)(getpid() & 0xffff) << 8 | which) };
	struct in6_addr loopback = IN6ADDR_LOOPBACK_INIT;

	if (v6)
		memcpy(gid, &loopback, sizeof(loopback));
	else
		gid_from_v4(&a, gid);
}

void net_set_mtu(const char *interface, int mtu)
{
	struct ifreq r = { .ifr_mtu = mtu };

	change(interface, SIOCSIFMTU, &r);
}

int net_bind(const uint8_t gid[WIRE_GID_BYTES], uint16_t port)
{
	union gid_sockaddr address;
	socklen_t len = gid_to_sockaddr(gid, 0, port, &address);
	int fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int bytes = 4 << 20;

	if (fd >= 0 && bind(fd, &address.any, len) < 0) {
		close(fd);
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	return fd;
}

static uint32_t crc(uint32_t c, const uint8_t *bytes, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++) {
		c ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return c;
}

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint32_t lead_v4(uint8_t *ip, const uint8_t *source, const uint8_t *destination,
			uint16_t identification, uint32_t udp_length)
{
	ip[0] = 0x45;
	ip[1] = 0xff; /* TOS */
	put16(ip + 2, 20 + udp_length);
	put16(ip + 4, identification);
	put16(ip + 6, 0x4000); /* DF */
	ip[8] = 0xff;	       /* TTL */
	ip[9] = 17;
	put16(ip + 10, 0xffff); /* checksum */
	memcpy(ip + 12, source + 12, 4);
	memcpy(ip + 16, destination + 12, 4);
	return 20;
}

static uint32_t lead_v6(uint8_t *ip, const uint8_t *source, const uint8_t *destination,
			uint32_t udp_length)
{
	memcpy(ip, (uint8_t[]){ 0x6f, 0xff, 0xff, 0xff }, 4); /* traffic class, flow label */
	put16(ip + 4, udp_length);
	ip[6] = 17;
	ip[7] = 0xff; /* hop limit */
	memcpy(ip + 8, source, 16);
	memcpy(ip + 24, destination, 16);
	return 40;
}

uint32_t net_icrc(const uint8_t source[16], const uint8_t destination[16], uint16_t source_port,
		  uint16_t destination_port, uint16_t identification, const uint8_t *bytes,
		  uint32_t length)
{
	uint8_t lead[8 + 40 + 8], bth[12];
	uint32_t udp_length = 8 + length + 4, n = 8, c;

	memset(lead, 0xff, 8);
	if (gid_is_v4(source))
		n += lead_v4(lead + n, source, destination, identification, udp_length);
	else
		n += lead_v6(lead + n, source, destination, udp_length);
	put16(lead + n, source_port);
	put16(lead + n + 2, destination_port);
	put16(lead + n + 4, udp_length);
	put16(lead + n + 6, 0xffff); /* checksum */
	memcpy(bth, bytes, sizeof(bth));
	bth[4] = 0xff;
	c = crc(0xffffffff, lead, n + 8);
	c = crc(c, bth, sizeof(bth));
	return ~crc(c, bytes + sizeof(bth), length - (uint32_t)sizeof(bth));
}

bool net_wait(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 5000) == 1;
}

uint64_t net_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}
