/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/ops.h"

#include <string.h>

#include "adapter/adapter.h"
#include "base/uncancelled.h"
#include "object/context.h"
#include "object/dm.h"
#include "object/mr.h"
#include "verbs/cmd_fd.h"
#include "verbs/error.h"

/* 0, or EINVAL: adapters copy words of 4 bytes, within the device memory. */
static int check_copy(const struct dm *dm, uint64_t offset, size_t length)
{
	if (!dm_has_range(dm, offset, length))
		return error_report(EINVAL, CAUSE_DM_RANGE, "offset %lu, length %zu of %zu", offset,
				    length, dm->length);
	if (offset % DM_ALIGNMENT || length % DM_ALIGNMENT)
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID,
				    "device memory is copied in words: offset %lu, length %zu",
				    offset, length);
	return 0;
}

static int copy_to(struct ibv_dm *ib, uint64_t offset, const void *from, size_t length)
{
	struct dm *dm = dm_of(ib);
	int error = check_copy(dm, offset, length);

	if (!error)
		memcpy(dm->memory + offset, from, length);
	return error;
}

static int copy_from(void *to, struct ibv_dm *ib, uint64_t offset, size_t length)
{
	struct dm *dm = dm_of(ib);
	int error = check_copy(dm, offset, length);

	if (!error)
		memcpy(to, dm->memory + offset, length);
	return error;
}

void dm_fill(struct ibv_dm *dm)
{
	dm->memcpy_to_dm = copy_to;
	dm->memcpy_from_dm = copy_from;
}

/*
 * The file for this process's device memory; -1: none, as the context was imported from another
 * process, or is from before a fork.
 */
static int dm_file_of(struct ibv_context *context)
{
	return context_of(context)->elsewhere || adapter_is_foreign(context_of(context))
		       ? -1
		       : context->cmd_fd;
}

struct ibv_dm *verbs_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	UNCANCELLED;
	struct dm *dm;

	if (attr->comp_mask) {
		error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "comp_mask 0x%x", attr->comp_mask);
		return NULL;
	}
	if (error_from(dm_create(context_of(context), attr->length, attr->log_align_req,
				 dm_file_of(context), &dm)) != 0)
		return NULL;
	dm_fill(&dm->ib);
	if (dm->file >= 0)
		cmd_fd_show_dm(dm->file, dm->ib.handle, (uint32_t)attr->length);
	context_enter(context_of(context), &dm->live, dm->ib.handle);
	return &dm->ib;
}

int verbs_free_dm(struct ibv_dm *ib)
{
	UNCANCELLED;
	struct dm *dm = dm_of(ib);
	struct context *context;
	uint32_t handle, length;
	int file, error;
	bool shown;

	if (!live_object_remove(&dm->live, &ib->handle))
		return error_unknown_object("ibv_free_dm");
	context = context_of(ib->context);
	shown = dm->file >= 0 && !dm->imported && !adapter_is_foreign(context);
	handle = ib->handle;
	length = (uint32_t)dm->length;
	file = dm->file;
	/* first, because dm_destroy frees the handle for others */
	if (shown)
		cmd_fd_show_dm(file, handle, 0);
	error = error_from(dm_destroy(dm));
	if (error && shown)
		cmd_fd_show_dm(file, handle, length);
	return context_leave(context, &dm->live, handle, error);
}

struct ibv_mr *verbs_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ib, uint64_t dm_offset,
			       size_t length, unsigned int access)
{
	UNCANCELLED;
	struct dm *dm = dm_of(ib);
	struct mr *mr;
	const struct mr_spec spec = {
		.pd = pd_of(pd),
		.addr = dm->memory + dm_offset,
		.length = length,
		.access = access,
		.dm = dm,
	};

	if (ib->context != pd->context) {
		error_report(EINVAL, CAUSE_OTHER_CONTEXT, "ibv_reg_dm_mr");
		return NULL;
	}
	if (adapter_is_foreign(context_of(pd->context))) {
		error_report(EINVAL, CAUSE_OTHER_PROCESS, "ibv_reg_dm_mr");
		return NULL;
	}
	if (!dm_has_range(dm, dm_offset, length)) {
		error_report(EINVAL, CAUSE_DM_RANGE, "offset %lu, length %zu of %zu", dm_offset,
			     length, dm->length);
		return NULL;
	}
	if (error_from(mr_create(&spec, &mr)) != 0)
		return NULL;
	live_object_add(&mr->live, mr->ib.handle);
	return &mr->ib;
}
