/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/ops.h"

#include "adapter/adapter.h"
#include "base/uncancelled.h"
#include "object/context.h"
#include "object/mw.h"
#include "verbs/error.h"

struct ibv_mw *verbs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	UNCANCELLED;
	struct mw *mw;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "ibv_alloc_mw: type %d", type);
		return NULL;
	}
	if (adapter_is_foreign(context_of(pd->context))) {
		error_report(EINVAL, CAUSE_OTHER_PROCESS, "PD %u", pd->handle);
		return NULL;
	}
	if (error_from(mw_create(pd_of(pd), type, &mw)) != 0)
		return NULL;
	live_object_add(&mw->live, mw->ib.handle);
	return &mw->ib;
}

int verbs_dealloc_mw(struct ibv_mw *mw)
{
	UNCANCELLED;
	int error;

	if (!live_object_remove(&mw_of(mw)->live, &mw->handle))
		return error_unknown_object("ibv_dealloc_mw");
	error = error_from(mw_destroy(mw_of(mw)));
	if (error)
		live_object_add(&mw_of(mw)->live, mw->handle);
	return error;
}
