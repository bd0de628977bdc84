/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/route.h"

#include <errno.h>
#include <infiniband/sa.h>
#include <string.h>

#include "cm/export.h"
#include "cm/id.h"
#include "cm/qp_attr.h"
#include "cm/refusal.h"
#include "cm/sync.h"

#define MTU_MASK 0x3f
#define PRIMARY	 (IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL)

/* *out may be the path that exists already. 0 or -errno. */
static int make_path(struct id *id, struct ibv_sa_path_rec **out)
{
	int rc = id->device && id->state == ID_ADDR_RESOLVED ? qp_attr_make_path(id)
							     : id_refuse_state(id);

	if (!rc)
		*out = id->base.route.path_rec;
	return rc;
}

/* 0 or -errno. */
static int resolved(struct id *id)
{
	int rc;

	/*
	 * Before the event: the program may connect, or end the identifier, as soon as it has it.
	 */
	id->base.route.num_paths = !id->iwcm; /* iWARP has no path records */
	id->state = ID_ROUTE_RESOLVED;
	rc = id_raise_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, 0);
	if (rc) {
		id->state = ID_ADDR_RESOLVED;
		id->base.route.num_paths = 0;
	}
	return rc;
}

CM_EXPORT int rdma_resolve_route(struct rdma_cm_id *base, int timeout_ms)
{
	struct id *id = id_of(base), *waiting = sync_begin(id);
	struct ibv_sa_path_rec *path;
	int rc = make_path(id, &path);

	if (!rc)
		rc = resolved(id);
	return rc ? answer(rc) : sync_complete(waiting);
}

/* The path for requests and data in both directions; NULL: there is none. */
static const struct ibv_path_record *find_primary(const struct ibv_path_data *paths, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (paths[i].flags == PRIMARY)
			return &paths[i].path;
	}
	return NULL;
}

int route_give(struct id *id, const void *paths, size_t bytes)
{
	const struct ibv_path_record *given = NULL;
	struct id *waiting = sync_begin(id);
	struct ibv_sa_path_rec *path = NULL; /* not all compilers see that make_path sets it */
	uint8_t mtu;
	int rc;

	if (paths && bytes % sizeof(struct ibv_path_data) == 0)
		given = find_primary(paths, bytes / sizeof(struct ibv_path_data));
	if (!given)
		return refusal(-EINVAL, CAUSE_ARGUMENT_INVALID, "no primary path for both ways");
	if (id->state != ID_ADDR_RESOLVED)
		return id_refuse_state(id);
	if (memcmp(&given->dgid, &id->base.route.addr.addr.ibaddr.dgid, sizeof(given->dgid)) ||
	    memcmp(&given->sgid, &id->base.route.addr.addr.ibaddr.sgid, sizeof(given->sgid)))
		return refusal(-EINVAL, CAUSE_CM_PATH_ELSEWHERE, "its dgid or sgid");
	rc = make_path(id, &path);
	if (rc)
		return rc;
	mtu = given->mtu & MTU_MASK;
	/* NOLINTBEGIN(clang-analyzer-core.NullDereference): make_path has set it */
	if (mtu && mtu < path->mtu)
		path->mtu = mtu;
	id->tos = path->traffic_class = given->tclass;
	/* NOLINTEND(clang-analyzer-core.NullDereference) */
	rc = resolved(id);
	return rc ? rc : sync_complete(waiting) ? -errno : 0;
}
