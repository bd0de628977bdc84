/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/context.h"

#include <assert.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/adapter.h"
#include "netdev/device.h"
#include "base/eventfd.h"
#include "base/uncancelled.h"
#include "object/context.h"
#include "object/limits.h"
#include "object/qp.h"
#include "object/qp_table.h"
#include "verbs/cmd_fd.h"
#include "verbs/ops.h"
#include "verbs/export.h"
#include "verbs/link.h"
#include "verbs/query.h"
#include "verbs/error.h"
#include "verbs/stubs.h"

/* The inline functions of <infiniband/verbs.h> find ops at fixed distances below ibv_context. */
#define BELOW_CONTEXT(op)                                                                          \
	(offsetof(struct context, verbs.context) - offsetof(struct context, verbs.op))
static_assert(BELOW_CONTEXT(query_port) == 320, "the ABI's place of query_port");
static_assert(offsetof(struct context, verbs.query_port) >= COMPAT_NEWER_OPS * sizeof(void *),
	      "newer ops lie right above query_port");
static_assert(sizeof(((struct context *)0)->newer_ops) % _Alignof(struct verbs_context) == 0,
	      "no hole between them");

static void fill_ops(struct context *context)
{
	struct verbs_context *verbs = &context->verbs;
	struct ibv_context_ops *ops = &verbs->context.ops;

	verbs->sz = offsetof(struct context, verbs) + sizeof(*verbs);
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	stubs_fill(verbs);

	ops->_compat_query_device = verbs_query_device;
	ops->_compat_query_port = verbs_query_port_compat;
	ops->alloc_mw = verbs_alloc_mw;
	ops->dealloc_mw = verbs_dealloc_mw;
	ops->bind_mw = verbs_bind_mw;
	ops->poll_cq = verbs_poll_cq;
	ops->req_notify_cq = verbs_req_notify_cq;
	ops->post_srq_recv = verbs_post_srq_recv;
	ops->post_send = verbs_post_send;
	ops->post_recv = verbs_post_recv;

	verbs->query_port = verbs_query_port;
	flow_fill(verbs);
	verbs->query_device_ex = verbs_query_device_ex;
	verbs->query_rt_values = verbs_query_rt_values;
	verbs->advise_mr = verbs_advise_mr;
	verbs->alloc_null_mr = verbs_alloc_null_mr;
	verbs->reg_dm_mr = verbs_reg_dm_mr;
	verbs->alloc_dm = verbs_alloc_dm;
	verbs->free_dm = verbs_free_dm;
	verbs->alloc_parent_domain = verbs_alloc_parent_domain;
	verbs->alloc_td = verbs_alloc_td;
	verbs->dealloc_td = verbs_dealloc_td;
	verbs->create_cq_ex = verbs_create_cq_ex;
	verbs->modify_cq = verbs_modify_cq;
	verbs->create_qp_ex = verbs_create_qp_ex;
	verbs->open_qp = verbs_open_qp;
	verbs->modify_qp_rate_limit = verbs_modify_qp_rate_limit;
	verbs->open_xrcd = verbs_open_xrcd;
	verbs->close_xrcd = verbs_close_xrcd;
	verbs->create_srq_ex = verbs_create_srq_ex;
	verbs->get_srq_num = verbs_get_srq_num;
	verbs->post_srq_ops = verbs_post_srq_ops;
}

static struct context *create_context(struct device *device, int cmd_fd, struct cmd_fd *identity)
{
	struct context *context = calloc(1, sizeof(*context));
	struct ibv_context *ib;
	bool own_fd = cmd_fd < 0;
	int async_fd;

	if (!context) {
		error_report(ENOMEM, CAUSE_MEMORY_EXHAUSTED, "context of %s", device->ib.name);
		return NULL;
	}
	if (own_fd)
		cmd_fd = cmd_fd_create(device->ib.name, adapter_slot(), adapter_cookie(), identity);
	if (cmd_fd < 0) {
		error_report(-cmd_fd, CAUSE_MEMORY_EXHAUSTED, "context of %s", device->ib.name);
		goto free_context;
	}
	async_fd = eventfd_create();
	if (async_fd < 0) {
		error_report(-async_fd, CAUSE_MEMORY_EXHAUSTED, "context of %s", device->ib.name);
		goto close_cmd_fd;
	}
	fill_ops(context);
	lock_init(&context->async_lock);
	list_init(&context->async_pending);
	list_init(&context->link);
	device_get(device);
	context->device = device;
	lock_acquire(&device->lock);
	context->port_up = device->up;
	context->gid_changes = device->gid_changes;
	lock_release(&device->lock);
	context->iwarp = device->is_rnic;
	context->infiniband = !context->iwarp && link_is_infiniband();
	context->number = identity->number;
	context->elsewhere = !cmd_fd_is_ours(identity);
	context->home_slot = identity->slot;
	context->home_cookie = identity->cookie;
	ib = &context->verbs.context;
	ib->device = &device->ib;
	ib->cmd_fd = cmd_fd;
	ib->async_fd = async_fd;
	ib->num_comp_vectors = LIMIT_COMP_VECTORS;
	pthread_mutex_init(&ib->mutex, NULL);
	return context;

close_cmd_fd:
	if (own_fd)
		close(cmd_fd);
free_context:
	free(context);
	return NULL;
}

struct ibv_context *context_open(struct device *device, int fd, const struct cmd_fd *identity)
{
	UNCANCELLED;
	struct cmd_fd cmd_fd = { 0 };
	struct context *context;
	int error;

	if (fd >= 0)
		cmd_fd = *identity;
	error = adapter_start();
	if (error) {
		errno = error; /* the adapter has reported the cause */
		return NULL;
	}
	/* from here on the adapter's progress thread is told of changes */
	error = -device_refresh(device);
	if (error) {
		error_report(error, error == ENODEV ? CAUSE_DEVICE_GONE : CAUSE_MEMORY_EXHAUSTED,
			     "%s", device->ib.name);
		return NULL;
	}
	context = create_context(device, fd, &cmd_fd);
	if (!context)
		return NULL;
	adapter_add_context(context);
	return &context->verbs.context;
}

VERBS_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *ib)
{
	return context_open((struct device *)ib, -1, NULL);
}

/* A handle of ibv_open_qp in another context keeps its QP. */
static bool is_open_elsewhere(const struct qp *qp) REQUIRES(qp->lock)
{
	struct list *pos;

	if (qp->type != IBV_QPT_XRC_RECV)
		return false;
	list_for_each(pos, &qp->opened)
		if (list_entry(pos, struct qp, link)->context != qp->context)
			return true;
	return false;
}

static bool fail_if_of(struct qp *qp, void *context) REQUIRES(qp->lock)
{
	if (qp->context == context && !is_open_elsewhere(qp) && qp_state(qp) != IBV_QPS_RESET &&
	    qp_state(qp) != IBV_QPS_ERR)
		qp_fail(qp, CAUSE_FLUSHED);
	return true;
}

static void destroy_context(struct context *context)
{
	struct list *pos, *after;

	list_for_each_safe(pos, after, &context->async_pending)
		free(list_entry(pos, struct async_event, link));
	close(context->verbs.context.async_fd);
	close(context->verbs.context.cmd_fd);
	pthread_mutex_destroy(&context->verbs.context.mutex);
	lock_fini(&context->async_lock);
	device_put(context->device);
	free(context);
}

/*
 * A context with objects is not freed, because they refer to it. Its QPs go to ERR, so that peers
 * notice. The program leaks a few hundred bytes and two descriptors.
 */
VERBS_EXPORT int ibv_close_device(struct ibv_context *ib)
{
	UNCANCELLED;
	struct context *context = context_of(ib);
	bool foreign = adapter_is_foreign(context);

	if (!foreign)
		adapter_remove_context(context);
	if (atomic_load(&context->objects) == 0) {
		destroy_context(context);
		return 0;
	}
	if (!foreign)
		qp_visit(fail_if_of, context);
	return 0;
}
