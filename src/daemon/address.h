/*
 * Address - UDP port 4791 of a GID, as a socket address and as text.
 *
 * An IPv4-mapped GID is an IPv4 address, any other an IPv6 address. Pure.
 */
#ifndef DAEMON_ADDRESS_H
#define DAEMON_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "ctl/protocol.h"

#define ADDRESS_TEXT_BYTES 64

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

bool address_is_v4(const uint8_t gid[CTL_GID_BYTES]);

/* Can be one interface's own: not unspecified, a group, or broadcast. */
bool address_is_unicast(const uint8_t gid[CTL_GID_BYTES]);

/* IPv6 link-local: needs an interface beside it. */
bool address_is_link_local(const uint8_t gid[CTL_GID_BYTES]);

/* Returns the length. ifindex: 0, but for link-local addresses. */
socklen_t address_make(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, union address *out);

/* The other way round. */
void address_to_gid(const union address *a, uint8_t gid[CTL_GID_BYTES]);

/* Host order. */
uint16_t address_port(const union address *a);

bool address_equal(const union address *a, const union address *b);

void address_print(const uint8_t gid[CTL_GID_BYTES], char text[ADDRESS_TEXT_BYTES]);

#endif
