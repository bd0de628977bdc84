/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "netdev/device.h"
#include "base/uncancelled.h"
#include "verbs/export.h"
#include "verbs/error.h"

static_assert(offsetof(struct device, ib) == 0, "a list of devices is a list of ibv_devices");

static struct device *device_of(struct ibv_device *ib)
{
	return (struct device *)ib;
}

VERBS_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	UNCANCELLED;
	int count = 0;
	struct device **list = device_list(&count);

	if (num_devices)
		*num_devices = count;
	if (!list)
		error_report(errno, CAUSE_MEMORY_EXHAUSTED, "the list of devices");
	return (struct ibv_device **)list;
}

VERBS_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	UNCANCELLED;

	if (!list)
		return;
	for (struct ibv_device **device = list; *device; device++)
		device_put(device_of(*device));
	free(list);
}

VERBS_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

VERBS_EXPORT __be64 ibv_get_device_guid(struct ibv_device *ib)
{
	struct device *device = device_of(ib);
	uint64_t guid;

	lock_acquire(&device->lock);
	guid = device->guid;
	lock_release(&device->lock);
	return htobe64(guid);
}

VERBS_EXPORT int ibv_get_device_index(struct ibv_device *ib)
{
	return (int)device_ifindex(device_of(ib));
}
