/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interface - the present network interfaces of this host.
 *
 * In:  getifaddrs, the routing tables, VERBATIM_DEVICES.
 * Out: one struct interface for each that is up and has an address, in the order of devices.
 *
 * No state, no locks. interface_scan makes system calls and allocates; the rest is pure.
 */
#ifndef NETDEV_INTERFACE_H
#define NETDEV_INTERFACE_H

#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define INTERFACE_GIDS	15 /* one less than a GID table has, so that one is empty */
#define DEVICE_PREFIX	"vrb_"
#define DEVICE_RNIC	"vrbw_" /* the same of an RNIC: base/transport.h */
#define DEVICE_NAME_MAX (sizeof(DEVICE_RNIC) - 1 + IF_NAMESIZE)

struct interface {
	char name[IF_NAMESIZE];
	unsigned int index;
	bool loopback;
	bool running;			   /* has a carrier */
	uint32_t mtu;			   /* bytes */
	uint8_t mac[6];			   /* all zero: it has none */
	int ipv4, ipv6;			   /* number of addresses of each kind in gid */
	union ibv_gid gid[INTERFACE_GIDS]; /* IPv4-mapped addresses first, each kind as found */
};

/* All interfaces that qualify, in no order; the caller frees *out. Returns how many, or -errno. */
int interface_scan(struct interface **out);

/* The same from a list of getifaddrs; indexes and MTUs stay 0. */
int interface_collect(const struct ifaddrs *addresses, struct interface **out);

/* The interface of the default route with the lowest metric; empty if there is none. */
void interface_default(char name[IF_NAMESIZE]);

/* The same from the text of /proc/net/route. */
void interface_parse_route(const char *text, char name[IF_NAMESIZE]);

/* The same from the text of /proc/net/ipv6_route, which it cuts into lines. */
void interface_parse_route6(char *text, char name[IF_NAMESIZE]);

/*
 * Sorts the list in the order of devices, and returns how many are left. Without a filter (NULL):
 * by rank; within a rank `first` (or "") comes first, then by index. Of the ranks it keeps as many
 * as it takes to have an interface with a carrier. With a filter (names of interfaces or devices,
 * comma-separated): the named ones, of any rank, in the filter's order.
 */
int interface_order(struct interface *list, int count, const char *first, const char *filter);

/* Whether the interface is up, and has a carrier; both false: it does not exist. */
void interface_flags(const char *name, bool *up, bool *running);

/* Writes the name of the interface's device. */
void interface_device_name(const struct interface *interface, char name[DEVICE_NAME_MAX]);

/*
 * The only GID of an RNIC, as siw has it: the MAC, then zeros. Of an interface without a MAC: bytes
 * of its GUID in its place.
 */
void interface_rnic_gid(const struct interface *interface, union ibv_gid *gid);

/* EUI-64 of the MAC, or a hash of this host's and the interface's identity; never 0. Host order. */
uint64_t interface_guid(const struct interface *interface);

#endif
