/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/gid.h"

#include <string.h>

#include "netdev/device.h"
#include "base/gid.h"
#include "base/identity.h"
#include "base/uncancelled.h"
#include "base/lid.h"
#include "verbs/export.h"
#include "verbs/error.h"
#include "verbs/undeclared.h"

/* An RNIC has no table of addresses. */
static bool rnic_gid(struct device *device, uint32_t index, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (index != 0)
		return false;
	lock_acquire(&device->lock);
	*gid = device->rnic_gid;
	lock_release(&device->lock);
	return true;
}

static uint32_t gid_table_length(const struct context *context)
{
	return context->iwarp ? DEVICE_RNIC_GIDS : DEVICE_GIDS;
}

bool gid_at(struct context *context, uint32_t index, union ibv_gid *gid)
{
	if (context->iwarp)
		return rnic_gid(context->device, index, gid);
	if (!device_gid(context->device, index, gid))
		return false;
	if (context->infiniband && !lid_show_gid(gid, gid))
		memset(gid, 0, sizeof(*gid));
	return !gid_is_zero(gid->raw);
}

int gid_index_of(struct context *context, const union ibv_gid *gid)
{
	union ibv_gid candidate;

	for (uint32_t i = 0; i < gid_table_length(context); i++)
		if (gid_at(context, i, &candidate) &&
		    memcmp(candidate.raw, gid->raw, sizeof(gid->raw)) == 0)
			return i;
	return -1;
}

/* 0, or EINVAL, which errno has, too. */
static int check_slot(struct ibv_context *context, uint32_t port_num, uint32_t index)
{
	if (port_num != DEVICE_PORT)
		return error_report(EINVAL, CAUSE_PORT_UNKNOWN, "port %u", port_num);
	if (index >= gid_table_length(context_of(context)))
		return error_report(EINVAL, CAUSE_GID_UNKNOWN, "index %u", index);
	return 0;
}

VERBS_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
			       union ibv_gid *gid)
{
	UNCANCELLED;

	if (check_slot(context, port_num, index) != 0)
		return -1;
	gid_at(context_of(context), index, gid);
	return 0;
}

/* They are no addresses of RoCEv2. */
static bool has_own_gids(const struct context *context)
{
	return context->infiniband || context->iwarp;
}

VERBS_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num,
				    unsigned int index, int *type)
{
	UNCANCELLED;

	if (check_slot(context, port_num, index) != 0)
		return -1;
	*type = has_own_gids(context_of(context)) ? GID_TYPE_SYSFS_IB_ROCE_V1
						  : GID_TYPE_SYSFS_ROCE_V2;
	return 0;
}

/* Copies as much of the entry as the program's struct has. Fields of newer headers become 0. */
static void store_entry(void *to, size_t size, const struct ibv_gid_entry *entry)
{
	memset(to, 0, size);
	memcpy(to, entry, size < sizeof(*entry) ? size : sizeof(*entry));
}

static bool fill_entry(struct context *context, uint32_t index, struct ibv_gid_entry *entry)
{
	if (!gid_at(context, index, &entry->gid))
		return false;
	entry->gid_index = index;
	entry->port_num = DEVICE_PORT;
	entry->gid_type = has_own_gids(context) ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
	entry->ndev_ifindex = context->infiniband ? 0 : device_ifindex(context->device);
	return true;
}

VERBS_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
				   uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags,
				   size_t entry_size)
{
	UNCANCELLED;
	struct ibv_gid_entry found;
	int error = check_slot(context, port_num, gid_index);

	if (error)
		return error;
	if (flags || entry_size < sizeof(entry->gid))
		return error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "ibv_query_gid_ex: flags 0x%x",
				    flags);
	if (!fill_entry(context_of(context), gid_index, &found))
		/* without a cause, as an empty slot is no error of the program */
		return errno = ENODATA;
	store_entry(entry, entry_size, &found);
	return 0;
}

VERBS_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context,
					  struct ibv_gid_entry *entries, size_t max_entries,
					  uint32_t flags, size_t entry_size)
{
	UNCANCELLED;
	struct ibv_gid_entry found;
	size_t count = 0;

	if (flags || entry_size < sizeof(entries->gid))
		return -error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "ibv_query_gid_table: flags 0x%x",
				     flags);
	for (uint32_t i = 0; i < gid_table_length(context_of(context)); i++) {
		if (!fill_entry(context_of(context), i, &found))
			continue;
		if (count == max_entries)
			return -error_report(EINVAL, CAUSE_ARGUMENT_INVALID,
					     "the GID table has more than %zu entries",
					     max_entries);
		store_entry((char *)entries + count++ * entry_size, entry_size, &found);
	}
	return count;
}

VERBS_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index,
				__be16 *pkey)
{
	UNCANCELLED;

	if (port_num != DEVICE_PORT) {
		error_report(EINVAL, CAUSE_PORT_UNKNOWN, "port %u", port_num);
		return -1;
	}
	if (index != 0 || context_of(context)->iwarp) {
		error_report(EINVAL, CAUSE_PKEY_UNKNOWN, "index %d", index);
		return -1;
	}
	*pkey = IDENTITY_PKEY; /* the same in either byte order */
	return 0;
}

VERBS_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	__be16 only;

	if (ibv_query_pkey(context, port_num, 0, &only) != 0)
		return -1;
	return pkey == only ? 0 : -1;
}
