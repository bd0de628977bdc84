/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/ops.h"

#include "adapter/adapter.h"
#include "base/compat.h"
#include "base/uncancelled.h"
#include "object/context.h"
#include "object/pd.h"
#include "verbs/cmd_fd.h"
#include "verbs/export.h"
#include "verbs/error.h"

VERBS_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	UNCANCELLED;
	struct pd *pd;

	if (error_from(pd_create(context, &pd)) != 0)
		return NULL;
	/* the child of a fork shares the file, which is the parent's */
	if (!context_of(context)->elsewhere && !adapter_is_foreign(context_of(context)))
		cmd_fd_show_pd(context->cmd_fd, pd->ib.handle, pd->number);
	context_enter(context_of(context), &pd->live, pd->ib.handle);
	return &pd->ib;
}

VERBS_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	UNCANCELLED;
	struct context *context;
	uint32_t handle;
	bool is_shown;
	int error;

	if (!live_object_remove(&pd_of(pd)->live, &pd->handle))
		return error_unknown_object("ibv_dealloc_pd");
	context = context_of(pd->context);
	is_shown = !pd_of(pd)->parent && !pd_of(pd)->imported && !context->elsewhere;
	handle = pd->handle;
	error = error_from(pd_destroy(pd_of(pd)));
	if (!error && is_shown && !adapter_is_foreign(context))
		cmd_fd_show_pd(context->verbs.context.cmd_fd, handle, 0);
	return context_leave(context, &pd_of(pd)->live, handle, error);
}

#define KNOWN_PARENT_DOMAIN                                                                        \
	(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |         \
	 COMPAT_PARENT_DOMAIN_UNPROTECTED)

/*
 * Does not use the program's allocators, nor memory that is shared with a hypervisor: both are for
 * memory that hardware reads.
 */
struct ibv_pd *verbs_alloc_parent_domain(struct ibv_context *context,
					 struct ibv_parent_domain_init_attr *attr)
{
	UNCANCELLED;
	struct pd *pd;

	if (attr->comp_mask & ~KNOWN_PARENT_DOMAIN) {
		error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "comp_mask 0x%x", attr->comp_mask);
		return NULL;
	}
	if (!attr->pd) {
		error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "a parent domain without a PD");
		return NULL;
	}
	if (attr->pd->context != context || (attr->td && attr->td->context != context)) {
		error_report(EINVAL, CAUSE_OTHER_CONTEXT, "parent domain");
		return NULL;
	}
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) &&
	    (!attr->alloc || !attr->free)) {
		error_report(EINVAL, CAUSE_ARGUMENT_INVALID,
			     "a parent domain with half its allocators");
		return NULL;
	}
	if (error_from(pd_create_parent(pd_of(attr->pd), attr->td ? td_of(attr->td) : NULL, &pd)) !=
	    0)
		return NULL;
	context_enter(context_of(context), &pd->live, pd->ib.handle);
	return &pd->ib;
}

struct ibv_td *verbs_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr)
{
	UNCANCELLED;
	struct td *td;

	if (init_attr->comp_mask) {
		error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "comp_mask 0x%x", init_attr->comp_mask);
		return NULL;
	}
	if (error_from(td_create(context, &td)) != 0)
		return NULL;
	context_enter(context_of(context), &td->live, 0);
	return &td->ib;
}

int verbs_dealloc_td(struct ibv_td *td)
{
	UNCANCELLED;
	struct context *context;
	int error;

	if (!live_object_remove(&td_of(td)->live, NULL))
		return error_unknown_object("ibv_dealloc_td");
	context = context_of(td->context);
	error = error_from(td_destroy(td_of(td)));
	return context_leave(context, &td_of(td)->live, 0, error);
}
