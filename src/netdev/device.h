/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device - RDMA devices, each made of a network interface.
 *
 * One device per interface that is up and has an address, named vrb_<interface>, or
 * vrbw_<interface> if it is an RNIC (base/transport.h); the interface of the default route first,
 * loopback last. A struct device lasts as long as a device list or an open context holds it
 * (CONTRACT 5).
 */
#ifndef NETDEV_DEVICE_H
#define NETDEV_DEVICE_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

#define DEVICE_GIDS	 16
#define DEVICE_RNIC_GIDS 1 /* that programs see of an RNIC */
#define DEVICE_PORT	 1 /* the only port of a device */

struct device {
	struct ibv_device ib;
	/*
	 * In rdma-core's struct verbs_device a pointer to the provider's ops follows ibv_device.
	 * libmlx5 and libefa read it (at offset 664) to recognize their devices, so it must differ
	 * from theirs.
	 */
	const void *provider_ops;
	char provider_spare[512]; /* the rest of struct verbs_device */
	_Atomic uint32_t references;
	char interface[IF_NAMESIZE];
	bool is_rnic;	  /* iWARP */
	struct lock lock; /* guards all below, which ibv_open_device and watch.h refresh */
	unsigned int ifindex;
	bool loopback;
	bool up;
	uint32_t mtu; /* of the interface, bytes */
	uint8_t mac[6];
	uint64_t guid;			 /* host order */
	union ibv_gid rnic_gid;		 /* the only one that programs see of an RNIC */
	uint32_t gid_changes;		 /* counts how often `gid` changed */
	union ibv_gid gid[DEVICE_GIDS];	 /* 0: the IPv4-mapped address; zero: empty */
	union ibv_gid gone[DEVICE_GIDS]; /* the last address that each index has lost */
};

/*
 * The present devices, as a NULL-terminated array with a reference each. NULL with errno if there
 * is no memory; an empty array if no interface qualifies. VERBATIM_DEVICES (names of interfaces or
 * devices, comma-separated) filters and orders.
 */
struct device **device_list(int *count);
void device_get(struct device *device);
void device_put(struct device *device);

/* Reads the interface again (addresses, MTU, state). 0, -ENODEV: it is gone, -ENOMEM... */
int device_refresh(struct device *device);

/*
 * The same from a scan of all interfaces. A missing interface is down, or has lost its addresses; a
 * device that is down keeps its addresses.
 */
struct interface;
void device_update(struct device *device, const struct interface *list, int count);

/* The interface's index, as of the last look. */
uint32_t device_ifindex(struct device *device);

/* The GID at this index of the table. False: there is none, and `gid` is zero. */
bool device_gid(struct device *device, uint32_t index, union ibv_gid *gid);

/* Writes one line why there is no GID at this index, with the last address there, if any. */
void device_explain_gid(struct device *device, uint32_t index, char *text, size_t room);

/*
 * An address of this host (base/host_address.h): 1 or 0, or -errno: the kernel cannot be asked, for
 * want of a descriptor or memory. Answers are cached for a second.
 */
int device_gid_is_local(const union ibv_gid *gid);

/* For the child of a fork: other threads of the parent may have held the locks. */
void device_reset_after_fork(void);

#endif
