/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects by their handles: ibv_import_device(3), ibv_import_pd(3), ibv_import_mr(3),
 * ibv_import_dm(3).
 *
 * Within a process an import is another struct for the same object. From another process these can
 * be imported:
 *
 *   device          a context with the same cmd_fd
 *   PD              empty; the importing process puts its own objects there
 *   device memory   mapped from the file of the cmd_fd
 *   MR              with keys of the importing process; each copy goes to the other's memory
 *                   (memory/imported.h)
 */
#include <stdlib.h>
#include <string.h>

#include "adapter/adapter.h"
#include "base/uncancelled.h"
#include "netdev/device.h"
#include "object/context.h"
#include "object/dm.h"
#include "object/mr.h"
#include "verbs/cmd_fd.h"
#include "verbs/context.h"
#include "verbs/ops.h"
#include "verbs/export.h"
#include "verbs/error.h"

static struct device *find_device(const char *name)
{
	struct device *found = NULL, **list;
	int count;

	list = device_list(&count);
	for (int i = 0; list && i < count; i++) {
		if (!found && strcmp(list[i]->ib.name, name) == 0)
			found = list[i];
		else
			device_put(list[i]);
	}
	free(list);
	return found;
}

VERBS_EXPORT struct ibv_context *ibv_import_device(int fd)
{
	UNCANCELLED;
	struct ibv_context *context;
	struct device *device;
	struct cmd_fd cmd_fd;

	if (cmd_fd_read(fd, &cmd_fd) < 0) {
		error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "descriptor %d is no context's cmd_fd",
			     fd);
		return NULL;
	}
	device = find_device(cmd_fd.device);
	if (!device) {
		error_report(ENODEV, CAUSE_DEVICE_GONE, "%s", cmd_fd.device);
		return NULL;
	}
	context = context_open(device, fd, &cmd_fd);
	device_put(device);
	return context;
}

/* Whether this process's context `maker` has the same cmd_fd as `context`. */
static bool is_same(struct ibv_context *maker, struct ibv_context *context)
{
	return !adapter_is_foreign(context_of(maker)) && !context_of(context)->elsewhere &&
	       context_of(maker)->number == context_of(context)->number;
}

static void *unknown_handle(const char *what, uint32_t handle)
{
	error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "%s %u is not one of that context", what,
		     handle);
	return NULL;
}

VERBS_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	UNCANCELLED;
	struct pd *home = pd_find(context_of(context)->number, handle), *pd = NULL;
	int error = -EINVAL;

	if (home && !adapter_is_foreign(context_of(home->ib.context)))
		error = pd_import(home, context, &pd);
	else if (cmd_fd_shows_pd(context->cmd_fd, handle))
		error = pd_create(context, &pd);
	else
		unknown_handle("PD", handle);
	if (home)
		pd_put(home);
	if (error_from(error) != 0)
		return NULL;
	pd->ib.handle = handle;
	pd->imported = true;
	context_enter(context_of(context), &pd->live, handle);
	return &pd->ib;
}

VERBS_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	UNCANCELLED;

	if (!live_object_exists(&pd_of(pd)->live, &pd->handle))
		error_unknown_object("ibv_unimport_pd");
	else if (!pd_of(pd)->imported)
		error_report(EINVAL, CAUSE_WRONG_TYPE, "PD %u was not imported", pd->handle);
	else if (live_object_remove(&pd_of(pd)->live, NULL))
		pd_put(pd_of(pd));
}

VERBS_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	UNCANCELLED;
	/* the handles of another process are not for this one's table */
	struct mr *home = context_of(pd->context)->elsewhere ? NULL : mr_find(handle), *mr;
	uint32_t number;
	int error;

	if (home && is_same(home->ib.context, pd->context)) {
		error = -mr_import(home, pd_of(pd), &mr);
	} else {
		number = pd_of(pd)->imported && context_of(pd->context)->elsewhere
				 ? cmd_fd_shows_pd(pd->context->cmd_fd, pd->handle)
				 : 0;
		if (!number)
			return unknown_handle("memory region", handle);
		error = adapter_import_region(pd_of(pd), number, handle, &mr);
	}
	if (error) {
		errno = error;
		return NULL;
	}
	live_object_add(&mr->live, mr->ib.handle);
	return &mr->ib;
}

VERBS_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	UNCANCELLED;

	if (!live_object_remove(&mr_of(mr)->live, &mr->handle))
		error_unknown_object("ibv_unimport_mr");
	else if (!mr_unimport(mr_of(mr)))
		live_object_add(&mr_of(mr)->live, mr->handle);
}

VERBS_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	UNCANCELLED;
	struct dm *home = context_of(context)->elsewhere ? NULL : dm_find(handle), *dm;
	uint32_t length;
	int error;

	if (home && is_same(home->ib.context, context)) {
		error = dm_import(home, context_of(context), &dm);
	} else {
		length = cmd_fd_shows_dm(context->cmd_fd, handle);
		if (!length)
			return unknown_handle("device memory", handle);
		error = dm_import_file(context_of(context), context->cmd_fd, handle, length, &dm);
	}
	if (error_from(error) != 0)
		return NULL;
	dm_fill(&dm->ib);
	context_enter(context_of(context), &dm->live, dm->ib.handle);
	return &dm->ib;
}

VERBS_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	UNCANCELLED;
	struct context *context;
	uint32_t handle;

	if (!live_object_exists(&dm_of(dm)->live, &dm->handle)) {
		error_unknown_object("ibv_unimport_dm");
		return;
	}
	if (!dm_of(dm)->imported && !dm_of(dm)->home) {
		error_report(EINVAL, CAUSE_WRONG_TYPE, "device memory %u was not imported",
			     dm->handle);
		return;
	}
	if (!live_object_remove(&dm_of(dm)->live, NULL))
		return;
	context = context_of(dm->context);
	handle = dm->handle;
	context_leave(context, &dm_of(dm)->live, handle, dm_destroy(dm_of(dm)));
}
