/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains: ibv_open_xrcd(3). */
#include "object/xrcd.h"

#include <fcntl.h>

#include "base/uncancelled.h"
#include "object/context.h"
#include "verbs/ops.h"
#include "verbs/error.h"

#define REQUIRED (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)

struct ibv_xrcd *verbs_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	UNCANCELLED;
	struct xrcd *xrcd;

	if (context_of(context)->iwarp) {
		error_report(EOPNOTSUPP, CAUSE_UNSUPPORTED, "iWARP has no XRC");
		return NULL;
	}
	if (attr->comp_mask != REQUIRED || attr->oflags & ~(O_CREAT | O_EXCL)) {
		error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "XRC domain: comp_mask 0x%x, oflags 0x%x",
			     attr->comp_mask, attr->oflags);
		return NULL;
	}
	if (error_from(xrcd_open(context_of(context), attr->fd, attr->oflags, &xrcd)) != 0)
		return NULL;
	context_enter(context_of(context), &xrcd->live, 0);
	return &xrcd->ib;
}

int verbs_close_xrcd(struct ibv_xrcd *xrcd)
{
	UNCANCELLED;
	struct context *context;
	int error;

	if (!live_object_remove(&xrcd_of(xrcd)->live, NULL))
		return error_unknown_object("ibv_close_xrcd");
	context = context_of(xrcd->context);
	error = error_from(xrcd_close(xrcd_of(xrcd)));
	return context_leave(context, &xrcd_of(xrcd)->live, 0, error);
}
