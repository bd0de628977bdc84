/*
 * UDP addresses - a GID as the socket address that it stands for, and back.
 *
 * An IPv4-mapped GID is an IPv4 address, any other an IPv6 address; that decides the socket's
 * family. Pure.
 */
#ifndef UDP_UDP_ADDRESS_H
#define UDP_UDP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "udp/wire.h"

union udp_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

bool udp_address_is_v4(const uint8_t gid[WIRE_GID_BYTES]);
bool udp_address_is_multicast(const uint8_t gid[WIRE_GID_BYTES]);

/* Means something on one interface only: IPv6 link-local, unicast or multicast. */
bool udp_address_is_scoped(const uint8_t gid[WIRE_GID_BYTES]);

/* `port` in host order; `ifindex` counts where the address is scoped. Returns its length. */
socklen_t udp_address_from_gid(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, uint16_t port,
			       union udp_address *out);

void udp_address_to_gid(const union udp_address *address, uint8_t gid[WIRE_GID_BYTES]);
void udp_address_v4_to_gid(const struct in_addr *address, uint8_t gid[WIRE_GID_BYTES]);

/* Host order. */
uint16_t udp_address_port(const union udp_address *address);

#endif
