/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/device.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/gid.h"
#include "netdev/interface.h"
#include "base/host_address.h"
#include "base/transport.h"

static_assert(offsetof(struct device, provider_ops) == 664,
	      "libmlx5 and libefa look for their ops here");
static_assert(DEVICE_GIDS > INTERFACE_GIDS, "one slot of the GID table stays empty");

/* libmlx5 and libefa compare this address with that of their own ops. */
static const char own_ops;

/*
 * Devices are the same objects from list to list, as programs that compare pointers expect. The
 * table holds a reference to each, until a scan no longer finds the interface.
 */
static struct lock table_lock = LOCK_INITIALIZER;
static struct device **table GUARDED_BY(table_lock);
static int table_count GUARDED_BY(table_lock);

/* Cached answers of the kernel: each datagram, and each retry to a missing peer, asks. */
#define KNOWN 64
static struct lock known_lock = LOCK_INITIALIZER;
static struct known {
	union ibv_gid gid;
	bool asked, is_local;
	time_t second; /* when */
} known[KNOWN] GUARDED_BY(known_lock);

void device_reset_after_fork(void)
{
	lock_acquire_in_child(&table_lock);
	lock_init(&known_lock);
	for (int i = 0; i < table_count; i++)
		lock_init(&table[i]->lock);
	lock_release(&table_lock);
}

void device_get(struct device *device)
{
	atomic_fetch_add(&device->references, 1);
}

void device_put(struct device *device)
{
	if (atomic_fetch_sub(&device->references, 1) != 1)
		return;
	lock_fini(&device->lock);
	free(device);
}

static bool is_in(const union ibv_gid *gid, const union ibv_gid gids[INTERFACE_GIDS])
{
	for (int i = 0; i < INTERFACE_GIDS; i++)
		if (memcmp(gid, &gids[i], sizeof(*gid)) == 0)
			return true;
	return false;
}

/* An interface that was down may get its IPv6 addresses back in another order. */
static bool put_back(struct device *device, const union ibv_gid now[INTERFACE_GIDS])
	REQUIRES(device->lock)
{
	bool any = false;

	for (int i = 0; i < INTERFACE_GIDS; i++) {
		if (!gid_is_zero(device->gid[i].raw) || !is_in(&device->gone[i], now) ||
		    is_in(&device->gone[i], device->gid))
			continue;
		device->gid[i] = device->gone[i];
		any = true;
	}
	return any;
}

/*
 * An address keeps its index while it exists, as in the kernel's table, because programs and QPs
 * remember indexes; and gets it back if no other one has it meanwhile. New addresses take the first
 * empty ones.
 */
static void set_gids(struct device *device, const union ibv_gid now[INTERFACE_GIDS])
	REQUIRES(device->lock)
{
	bool changed = false;

	for (int i = 0; i < INTERFACE_GIDS; i++) {
		if (gid_is_zero(device->gid[i].raw) || is_in(&device->gid[i], now))
			continue;
		device->gone[i] = device->gid[i];
		memset(&device->gid[i], 0, sizeof(device->gid[i]));
		changed = true;
	}
	changed |= put_back(device, now);
	for (int i = 0, to = 0; i < INTERFACE_GIDS; i++) {
		if (gid_is_zero(now[i].raw) || is_in(&now[i], device->gid))
			continue;
		while (!gid_is_zero(device->gid[to].raw))
			to++; /* there is room: no more than INTERFACE_GIDS are in `now` */
		device->gid[to] = now[i];
		changed = true;
	}
	device->gid_changes += changed;
}

uint32_t device_ifindex(struct device *device)
{
	uint32_t ifindex;

	lock_acquire(&device->lock);
	ifindex = device->ifindex;
	lock_release(&device->lock);
	return ifindex;
}

bool device_gid(struct device *device, uint32_t index, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (index >= DEVICE_GIDS)
		return false;
	lock_acquire(&device->lock);
	*gid = device->gid[index];
	lock_release(&device->lock);
	return !gid_is_zero(gid->raw);
}

void device_explain_gid(struct device *device, uint32_t index, char *text, size_t room)
{
	char address[GID_TEXT_BYTES] = "";
	union ibv_gid gone = { 0 };

	lock_acquire(&device->lock);
	if (index < DEVICE_GIDS && gid_is_zero(device->gid[index].raw))
		gone = device->gone[index];
	lock_release(&device->lock);
	gid_text(gone.raw, address);
	if (gid_is_zero(gone.raw))
		snprintf(text, room, "sgid_index %u of %s", index, device->ib.name);
	else
		snprintf(text, room, "sgid_index %u of %s: the interface lost %s", index,
			 device->ib.name, address);
}

static void take_over(struct device *device, const struct interface *interface)
{
	lock_acquire(&device->lock);
	device->ifindex = interface->index;
	device->loopback = interface->loopback;
	device->up = interface->running;
	device->mtu = interface->mtu;
	memcpy(device->mac, interface->mac, sizeof(device->mac));
	device->guid = interface_guid(interface);
	interface_rnic_gid(interface, &device->rnic_gid);
	set_gids(device, interface->gid);
	lock_release(&device->lock);
}

static struct device *create(const struct interface *interface)
{
	struct device *device = calloc(1, sizeof(*device));

	if (!device)
		return NULL;
	atomic_store(&device->references, 1);
	device->provider_ops = &own_ops;
	lock_init(&device->lock);
	memcpy(device->interface, interface->name, sizeof(device->interface));
	device->is_rnic = transport_is_iwarp();
	device->ib.node_type = device->is_rnic ? IBV_NODE_RNIC : IBV_NODE_CA;
	device->ib.transport_type = device->is_rnic ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	interface_device_name(interface, device->ib.name);
	/*
	 * UCX requires that /dev/infiniband/<dev_name> is a writable character device: /dev/null.
	 */
	snprintf(device->ib.dev_name, sizeof(device->ib.dev_name), "../null");
	snprintf(device->ib.dev_path, sizeof(device->ib.dev_path), "/sys/class/infiniband_verbs/%s",
		 device->ib.name);
	snprintf(device->ib.ibdev_path, sizeof(device->ib.ibdev_path), "/sys/class/infiniband/%s",
		 device->ib.name);
	take_over(device, interface);
	return device;
}

static struct device *find(const char *interface) REQUIRES(table_lock)
{
	for (int i = 0; i < table_count; i++)
		if (strcmp(table[i]->interface, interface) == 0)
			return table[i];
	return NULL;
}

/* The device of the interface, made if need be; NULL: no memory. */
static struct device *find_or_create(const struct interface *interface) REQUIRES(table_lock)
{
	struct device *device = find(interface->name);
	struct device **bigger;

	if (device) {
		take_over(device, interface);
		return device;
	}
	bigger = realloc(table, (table_count + 1) * sizeof(*table));
	if (!bigger)
		return NULL;
	table = bigger;
	device = create(interface);
	if (device)
		table[table_count++] = device;
	return device;
}

/* Puts the devices whose interface is not in the list. */
static void forget_others(const struct interface *list, int count) REQUIRES(table_lock)
{
	int kept = 0;

	for (int i = 0; i < table_count; i++) {
		bool found = false;

		for (int j = 0; j < count && !found; j++)
			found = strcmp(list[j].name, table[i]->interface) == 0;
		if (found)
			table[kept++] = table[i];
		else
			device_put(table[i]);
	}
	table_count = kept;
}

struct device **device_list(int *count)
{
	char first[IF_NAMESIZE];
	struct interface *interfaces;
	struct device **list;
	int found, n = 0;

	found = interface_scan(&interfaces);
	if (found < 0) {
		errno = -found;
		return NULL;
	}
	lock_acquire(&table_lock);
	forget_others(interfaces, found);
	interface_default(first);
	found = interface_order(interfaces, found, first, secure_getenv("VERBATIM_DEVICES"));
	list = calloc(found + 1, sizeof(struct device *));
	for (; list && n < found; n++) {
		list[n] = find_or_create(&interfaces[n]);
		if (!list[n])
			break;
		device_get(list[n]);
	}
	lock_release(&table_lock);
	free(interfaces);
	if (list && n == found) {
		*count = n;
		return list;
	}
	while (list && n > 0)
		device_put(list[--n]);
	free(list);
	errno = ENOMEM;
	return NULL;
}

int device_refresh(struct device *device)
{
	struct interface *interfaces;
	int found = interface_scan(&interfaces), ret = -ENODEV;

	if (found < 0)
		return found;
	for (int i = 0; i < found; i++) {
		if (strcmp(interfaces[i].name, device->interface) != 0)
			continue;
		take_over(device, &interfaces[i]);
		ret = 0;
	}
	free(interfaces);
	return ret;
}

/* The interface has no address, or is down. */
static void take_away(struct device *device)
{
	static const union ibv_gid none[INTERFACE_GIDS];
	bool up, running;

	interface_flags(device->interface, &up, &running);
	lock_acquire(&device->lock);
	device->up = running;
	if (up)
		set_gids(device, none);
	lock_release(&device->lock);
}

/* By its name; if none has it, by its index: the interface may have another name now. */
static const struct interface *find_interface(struct device *device, const struct interface *list,
					      int count)
{
	uint32_t ifindex = device_ifindex(device);
	const struct interface *renamed = NULL;

	for (int i = 0; i < count; i++) {
		if (strcmp(list[i].name, device->interface) == 0)
			return &list[i];
		if (ifindex && list[i].index == ifindex)
			renamed = &list[i];
	}
	return renamed;
}

void device_update(struct device *device, const struct interface *list, int count)
{
	const struct interface *interface = find_interface(device, list, count);

	if (interface)
		take_over(device, interface);
	else
		take_away(device);
}

/*
 * A cached answer counts for the second that it was made in. GIDs with equal hashes share a place.
 */
static int ask_once_a_second(const union ibv_gid *gid) REQUIRES(known_lock)
{
	uint64_t mixed = (gid->global.subnet_prefix ^ gid->global.interface_id) *
			 UINT64_C(0x9e3779b97f4a7c15);
	struct known *k = &known[mixed % KNOWN];
	time_t second = (time_t)(clock_now_ns() / 1000000000u);
	int is_local;

	if (k->asked && k->second == second && !memcmp(k->gid.raw, gid->raw, sizeof(gid->raw)))
		return k->is_local;
	is_local = host_has_address(gid->raw, 0);
	if (is_local >= 0)
		*k = (struct known){
			.gid = *gid,
			.asked = true,
			.second = second,
			.is_local = is_local,
		};
	return is_local;
}

int device_gid_is_local(const union ibv_gid *gid)
{
	int is_local;

	if (gid_is_loopback(gid->raw))
		return 1;
	lock_acquire(&known_lock);
	is_local = ask_once_a_second(gid);
	lock_release(&known_lock);
	return is_local;
}
