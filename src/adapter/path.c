/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/path.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cause.h"
#include "netdev/device.h"
#include "object/context.h"
#include "roce/roce.h"
#include "shm/shm_qp.h"

static bool forced;

bool path_is_forced(void)
{
	return forced;
}

int path_is_local(const union ibv_gid *gid)
{
	int is_local = forced ? 0 : device_gid_is_local(gid);

	if (is_local < 0)
		cause_report_ratelimited(CAUSE_MEMORY_EXHAUSTED, 0,
					 "the kernel was not asked for an address: %s",
					 strerror(-is_local));
	return is_local;
}

static int choose(struct qp *qp, const struct qp_path **path)
{
	const union ibv_gid *peer = &qp->attr.ah_attr.grh.dgid;
	int is_local;

	/* iWARP: the connection brings the path (tcp/streams.h). */
	*path = qp->path;
	if (qp->path == &qp_path_orphan || qp->context->iwarp || qp->type == IBV_QPT_RAW_PACKET)
		return 0;
	*path = &shm_path;
	if (qp->type == IBV_QPT_UD)
		return 0;
	is_local = path_is_local(peer);
	if (is_local < 0)
		return -is_local;
	qp->entry->path = is_local ? ARENA_PATH_LOCAL : ARENA_PATH_WIRE;
	memcpy(qp->entry->peer, peer->raw, sizeof(qp->entry->peer));
	*path = is_local ? &shm_path : &roce_path;
	return 0;
}

void path_init(void)
{
	const char *path = secure_getenv("VERBATIM_PATH");

	forced = path && !strcmp(path, "wire");
	qp_set_path_choice(choose);
}
