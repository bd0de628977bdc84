/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/path.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "netdev/device.h"
#include "object/context.h"
#include "roce/roce.h"
#include "shm/shm_qp.h"

static bool forced;

bool path_is_forced(void)
{
	return forced;
}

bool path_is_local(const union ibv_gid *gid)
{
	return !forced && device_gid_is_local(gid);
}

static const struct qp_path *choose(struct qp *qp)
{
	const union ibv_gid *peer = &qp->attr.ah_attr.grh.dgid;
	bool wire;

	/* iWARP: the connection brings the path (tcp/streams.h). */
	if (qp->path == &qp_path_orphan || qp->context->iwarp || qp->type == IBV_QPT_RAW_PACKET)
		return qp->path;
	if (qp->type == IBV_QPT_UD)
		return &shm_path;
	wire = !path_is_local(peer);
	qp->entry->path = wire ? ARENA_PATH_WIRE : ARENA_PATH_LOCAL;
	memcpy(qp->entry->peer, peer->raw, sizeof(qp->entry->peer));
	return wire ? &roce_path : &shm_path;
}

void path_init(void)
{
	const char *path = secure_getenv("VERBATIM_PATH");

	forced = path && !strcmp(path, "wire");
	qp_set_path_choice(choose);
}
