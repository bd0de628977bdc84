/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/device.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/compat.h"
#include "base/gid.h"
#include "cm/address.h"
#include "cm/export.h"

#define V4_BYTES  4
#define DEPTH_MAX 254 /* RDMA_MAX_RESP_RES has a meaning of its own */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and the users */
static struct device *devices;
static bool is_incomplete; /* one that is there could not be opened */

static uint8_t depth(int limit)
{
	return (uint8_t)(limit < DEPTH_MAX ? limit : DEPTH_MAX);
}

/* Caller holds lock. Another thread may have opened the device before. 0 or -errno. */
static int open_device(struct ibv_device *ibv)
{
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;
	struct device **end = &devices;
	struct device *d;
	int rc;

	for (; *end; end = &(*end)->next) {
		if (!strcmp(ibv_get_device_name((*end)->verbs->device), ibv_get_device_name(ibv)))
			return 0;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	errno = 0;
	d->verbs = ibv_open_device(ibv);
	if (!d->verbs) {
		rc = errno ? -errno : -ENODEV;
		free(d);
		return rc;
	}
	if (!ibv_query_port(d->verbs, DEVICE_PORT, &port))
		d->is_infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
	d->is_rnic = ibv->transport_type == IBV_TRANSPORT_IWARP;
	if (!ibv_query_device_ex(d->verbs, NULL, &attr)) {
		d->max_responder_resources = depth(attr.orig_attr.max_qp_rd_atom);
		d->max_initiator_depth = depth(attr.orig_attr.max_qp_init_rd_atom);
		d->has_flush = attr.device_cap_flags_ex & COMPAT_DEVICE_FLUSH_GLOBAL;
	}
	*end = d;
	return 0;
}

/* Caller holds lock. 0; -ENODEV: there is none; -errno: one or more could not be opened. */
static int open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int rc = 0;

	if (!list)
		return -errno;
	for (int i = 0; list[i]; i++) {
		int one = open_device(list[i]);

		if (one != -ENODEV && !rc) /* else it has just gone */
			rc = one;
	}
	ibv_free_device_list(list);
	is_incomplete = rc != 0;
	return rc || devices ? rc : -ENODEV;
}

/* -ENODEV: the device does not have it. */
static int own_gid_index(const struct device *d, const struct ctl_cm_address *local)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;

	if (d->is_rnic)
		return address_is_of(local, (uint32_t)ibv_get_device_index(d->verbs->device))
			       ? 0
			       : -ENODEV;
	if (ibv_query_port(d->verbs, DEVICE_PORT, &port))
		return -ENODEV;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (!ibv_query_gid_ex(d->verbs, DEVICE_PORT, (uint32_t)i, &entry, 0) &&
		    !memcmp(entry.gid.raw, local->gid, sizeof(entry.gid.raw)) &&
		    (!local->ifindex || local->ifindex == entry.ndev_ifindex))
			return i;
	}
	/* On InfiniBand a GID has no interface, and ends in its IPv4 address; IPv6 has none. */
	for (int i = 0; d->is_infiniband && local->family == AF_INET && i < port.gid_tbl_len; i++) {
		if (!ibv_query_gid_ex(d->verbs, DEVICE_PORT, (uint32_t)i, &entry, 0) &&
		    !memcmp(entry.gid.raw + GID_V4_AT, local->gid + GID_V4_AT, V4_BYTES))
			return i;
	}
	return -ENODEV;
}

/* The first of the family, else the first of all; -ENODEV: it has none. */
static int any_gid_index(const struct device *d, uint16_t family)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	int first = -ENODEV;

	if (ibv_query_port(d->verbs, DEVICE_PORT, &port))
		return -ENODEV;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(d->verbs, DEVICE_PORT, (uint32_t)i, &entry, 0))
			continue;
		if (d->is_infiniband || d->is_rnic ||
		    gid_is_v4(entry.gid.raw) == (family == AF_INET))
			return i;
		if (first < 0)
			first = i;
	}
	return first;
}

int device_gid_index(const struct device *d, const struct ctl_cm_address *local,
		     const struct ctl_cm_address *remote)
{
	int index = own_gid_index(d, local);

	/* device_get chose this device although it does not have the address. */
	if (index < 0 && remote->family && address_is_local(remote) > 0) {
		index = own_gid_index(d, remote);
		if (index < 0)
			index = any_gid_index(d, local->family);
	}
	return index;
}

/* Caller holds lock. */
static struct device *find(const struct ctl_cm_address *local)
{
	for (struct device *d = devices; d; d = d->next) {
		if (own_gid_index(d, local) >= 0)
			return d;
	}
	return NULL;
}

/* Of this host, but of no device: loopback, or an interface that is no device. */
static bool is_without_device(const struct ctl_cm_address *a)
{
	bool found;

	if (!a->family || address_is_local(a) <= 0)
		return false;
	pthread_mutex_lock(&lock);
	found = find(a) != NULL;
	pthread_mutex_unlock(&lock);
	return !found;
}

void device_gids(const struct device *d, const struct ctl_cm_address *local,
		 const struct ctl_cm_address *remote, union ibv_gid *sgid, union ibv_gid *dgid)
{
	int index = device_gid_index(d, local, remote);

	address_gid(local, sgid);
	address_gid(remote, dgid);
	if (index < 0 || ibv_query_gid(d->verbs, DEVICE_PORT, index, sgid))
		return;
	if (d->is_rnic) {
		memset(dgid, 0, sizeof(*dgid));
	} else if (is_without_device(remote)) {
		*dgid = *sgid;
	} else if (d->is_infiniband && remote->family == AF_INET && !address_is_multicast(remote)) {
		*dgid = *sgid;
		memcpy(dgid->raw + GID_V4_AT, remote->gid + GID_V4_AT, V4_BYTES);
	}
}

/*
 * Caller holds lock. NULL: there is no device for addresses of this family; InfiniBand has none for
 * IPv6.
 */
static struct device *first_active(uint16_t family)
{
	struct device *first = NULL;
	struct ibv_port_attr port;

	for (struct device *d = devices; d; d = d->next) {
		if (d->is_infiniband && family != AF_INET)
			continue;
		if (!ibv_query_port(d->verbs, DEVICE_PORT, &port) && port.state == IBV_PORT_ACTIVE)
			return d;
		if (!first)
			first = d;
	}
	return first;
}

int device_is_alone(void)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = devices && !is_incomplete ? 0 : open_all();
	if (!rc)
		rc = !devices->next;
	pthread_mutex_unlock(&lock);
	return rc == -ENODEV ? 0 : rc;
}

/* Caller holds lock. */
static struct device *choose(const struct ctl_cm_address *local,
			     const struct ctl_cm_address *remote)
{
	struct device *d = find(local);

	if (d || !remote->family || address_is_local(remote) <= 0)
		return d;
	d = find(remote);
	return d ? d : first_active(remote->family);
}

int device_get(const struct ctl_cm_address *local, const struct ctl_cm_address *remote,
	       struct device **out)
{
	struct device *d;
	int rc = 0;

	pthread_mutex_lock(&lock);
	d = choose(local, remote);
	/* The interface may be new. */
	if (!d) {
		rc = open_all();
		d = choose(local, remote);
		/* The address may be that of a device that could not be opened. */
		rc = d ? 0 : rc ? rc : -ENODEV;
	}
	if (d && !d->users) {
		d->pd = ibv_alloc_pd(d->verbs);
		rc = d->pd ? 0 : -errno;
	}
	if (!rc) {
		d->users++;
		*out = d;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

void device_put(struct device *d)
{
	pthread_mutex_lock(&lock);
	if (!--d->users) {
		if (d->xrcd)
			ibv_close_xrcd(d->xrcd);
		ibv_dealloc_pd(d->pd);
		d->pd = NULL;
		d->xrcd = NULL;
	}
	pthread_mutex_unlock(&lock);
}

void device_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

void device_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

void device_after_fork_in_child(void)
{
	devices = NULL;
	is_incomplete = false;
	pthread_mutex_unlock(&lock);
}

struct ibv_xrcd *device_xrcd(struct device *d)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd;

	pthread_mutex_lock(&lock);
	if (!d->xrcd)
		d->xrcd = ibv_open_xrcd(d->verbs, &attr);
	xrcd = d->xrcd;
	pthread_mutex_unlock(&lock);
	return xrcd;
}

CM_EXPORT struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **contexts = NULL;
	int count = 0, rc;

	pthread_mutex_lock(&lock);
	rc = open_all();
	if (devices)
		rc = 0;
	for (const struct device *d = devices; d && !rc; d = d->next)
		count++;
	if (!rc)
		contexts = calloc((size_t)count + 1, sizeof(struct ibv_context *));
	if (contexts) {
		count = 0;
		for (const struct device *d = devices; d; d = d->next)
			contexts[count++] = d->verbs;
	}
	pthread_mutex_unlock(&lock);
	if (!contexts)
		errno = rc ? -rc : ENOMEM;
	if (num_devices)
		*num_devices = contexts ? count : 0;
	return contexts;
}

CM_EXPORT void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
