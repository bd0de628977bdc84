/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device - the RDMA devices as librdmacm sees them: open contexts that all identifiers share.
 *
 * In:  local addresses.
 * Out: the device and the GID index that an address belongs to.
 *
 * A device is opened when first needed and never closed, because programs keep the list of
 * rdma_get_devices. Its PD exists while an identifier uses the device. Any thread.
 */
#ifndef CM_DEVICE_H
#define CM_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "ctl/protocol.h"

#define DEVICE_PORT 1 /* each device has one */

struct device {
	struct device *next;
	struct ibv_context *verbs;
	uint8_t max_responder_resources, max_initiator_depth;
	bool is_infiniband; /* its GIDs are no IP addresses */
	bool is_rnic;	    /* likewise: it has those of its interface */
	bool has_flush;	    /* FLUSH of the kind IBV_FLUSH_GLOBAL */

	/* Guarded by the devices' lock. */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	unsigned users;
};

/*
 * The device of a local address, with its PD; device_put gives it back. It is the first of these:
 * the device that has the address; if `remote` is of this host, too, the device that has `remote`;
 * else the first device with an active port. So all addresses of this host reach each other, those
 * of loopback included, whichever devices there are.
 *
 * remote: family 0 if there is none yet. 0; -ENODEV: there is none; -errno: one that may be it
 * could not be opened.
 */
int device_get(const struct ctl_cm_address *local, const struct ctl_cm_address *remote,
	       struct device **out);
void device_put(struct device *d);

/*
 * There is exactly one device: a host with nothing but loopback, or the user's choice. 1, 0, or
 * -errno: one could not be opened.
 */
int device_is_alone(void);

/*
 * Until device_after_fork no thread opens or releases a device. The child opens devices anew; its
 * identifiers keep the parent's.
 */
void device_before_fork(void);
void device_after_fork(void);
void device_after_fork_in_child(void);

/* The device's domain for shared receive queues; NULL with errno. It stays as long as the PD. */
struct ibv_xrcd *device_xrcd(struct device *d);

/*
 * The GID index for a local address: its own; else, between addresses of this host, that of
 * `remote`, or the first of its family. -ENODEV: the device has lost the address.
 */
int device_gid_index(const struct device *d, const struct ctl_cm_address *local,
		     const struct ctl_cm_address *remote);

/*
 * The device's GIDs for a local address and for a remote one. A remote address of this host that no
 * device has gets the local address's GID.
 */
void device_gids(const struct device *d, const struct ctl_cm_address *local,
		 const struct ctl_cm_address *remote, union ibv_gid *sgid, union ibv_gid *dgid);

#endif
