/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Net - a network namespace for one test program, and raw UDP sockets in it.
 *
 * In:  nothing; as an ordinary user, user namespaces.
 * Out: a loopback of its own, so that port 4791 is free; where namespaces are forbidden, the
 *      host's, with an IPv4 address that nobody else uses.
 */
#ifndef TEST_NET_H
#define TEST_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "udp/wire.h"

/* Whether a namespace was made; the loopback is up then. */
bool net_init(void);

/* Addresses of this host: `which` 1..250; IPv6: ::1 whatever `which` is. */
void net_address(bool v6, unsigned which, uint8_t gid[WIRE_GID_BYTES]);

void net_set_mtu(const char *interface, int mtu);

/* A plain UDP socket bound to port 4791 (or `port`) of the address. -1 and errno. */
int net_bind(const uint8_t gid[WIRE_GID_BYTES], uint16_t port);

/*
 * The ICRC by the book, bit by bit: of a datagram without its last four bytes, from and to these
 * addresses and UDP ports.
 */
uint32_t net_icrc(const uint8_t source[16], const uint8_t destination[16], uint16_t source_port,
		  uint16_t destination_port, uint16_t identification, const uint8_t *bytes,
		  uint32_t length);

/* Whether the socket is readable, at the latest after 5 s. */
bool net_wait(int fd);

/* splitmix64 */
uint64_t net_random(uint64_t *state);

#endif
