/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/link.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "netdev/device.h"
#include "base/lid.h"
#include "verbs/gid.h"

bool link_is_infiniband(void)
{
	const char *value = secure_getenv("VERBATIM_LINK_LAYER");

	return value && strcasecmp(value, "infiniband") == 0;
}

/* The GID of the interface, which LIDs are derived from. */
static void own_gid(struct context *context, union ibv_gid *gid)
{
	lock_acquire(&context->device->lock);
	*gid = context->device->gid[0];
	lock_release(&context->device->lock);
}

uint16_t link_lid(struct context *context)
{
	union ibv_gid gid;

	own_gid(context, &gid);
	return lid_of(&gid);
}

bool link_resolve(struct context *context, const struct ibv_ah_attr *asked,
		  struct ibv_ah_attr *resolved)
{
	union ibv_gid own;

	*resolved = *asked;
	if (!context->infiniband)
		return true;
	if (asked->is_global && gid_is_multicast(asked->grh.dgid.raw))
		return true;
	resolved->is_global = 1;
	if (asked->is_global && lid_resolve_gid(&asked->grh.dgid, &resolved->grh.dgid))
		return true;
	memset(&resolved->grh, 0, sizeof(resolved->grh));
	resolved->grh.hop_limit = 64;
	own_gid(context, &own);
	return lid_resolve(asked->dlid, &own, &resolved->grh.dgid);
}
