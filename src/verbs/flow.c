/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/ops.h"

#include <errno.h>

#include "adapter/adapter.h"
#include "object/context.h"
#include "object/flow.h"
#include "object/qp.h"
#include "verbs/error.h"

static int check_qp(struct ibv_qp *ib)
{
	if (ib->qp_type != IBV_QPT_RAW_PACKET)
		return error_report(ib->qp_type == IBV_QPT_UD ? EOPNOTSUPP : EINVAL,
				    CAUSE_WRONG_TYPE,
				    "flows are for RAW_PACKET, QP 0x%06x is of type %d", ib->qp_num,
				    ib->qp_type);
	if (adapter_is_foreign(qp_of(ib)->context))
		return error_report(EINVAL, CAUSE_OTHER_PROCESS, "QP 0x%06x", ib->qp_num);
	return 0;
}

static struct ibv_flow *create_flow(struct ibv_qp *ib, struct ibv_flow_attr *attr)
{
	struct flow *flow;
	int error;

	if (check_qp(ib) || error_from(flow_create(qp_of(ib), attr, &flow)) != 0)
		return NULL;
	error = adapter_attach_flow(qp_of(ib), flow);
	if (error) {
		flow_free(flow);
		errno = error;
		return NULL;
	}
	live_object_add(&flow->live, flow->ib.handle);
	return &flow->ib;
}

static int destroy_flow(struct ibv_flow *ib)
{
	struct flow *flow = flow_of(ib);

	if (!live_object_remove(&flow->live, &ib->handle))
		return error_unknown_object("ibv_destroy_flow");
	if (!adapter_is_foreign(context_of(ib->context)))
		adapter_detach_flow(flow->qp, flow);
	flow_free(flow);
	return 0;
}

static struct ibv_counters *create_counters(struct ibv_context *context,
					    struct ibv_counters_init_attr *attr)
{
	struct counters *counters;

	if (attr->comp_mask) {
		error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "ibv_create_counters: comp_mask 0x%x",
			     attr->comp_mask);
		return NULL;
	}
	counters = counters_create(context);
	if (!counters) {
		errno = ENOMEM;
		return NULL;
	}
	context_enter(context_of(context), &counters->live, 0);
	return &counters->ib;
}

static int destroy_counters(struct ibv_counters *ib)
{
	struct context *context;
	int error;

	if (!live_object_remove(&counters_of(ib)->live, NULL))
		return error_unknown_object("ibv_destroy_counters");
	context = context_of(ib->context);
	error = error_from(counters_destroy(counters_of(ib)));
	return context_leave(context, &counters_of(ib)->live, 0, error);
}

/* Chooses what an index of the counters counts. A flow names its counters when it is created. */
static int attach_counters_point_flow(struct ibv_counters *counters,
				      struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
{
	if (attr->comp_mask)
		return error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "counters: comp_mask 0x%x",
				    attr->comp_mask);
	if (flow)
		return error_report(EOPNOTSUPP, CAUSE_UNSUPPORTED,
				    "counters for a flow that exists: give them with its specs");
	return error_from(counters_define(counters_of(counters), attr->index, attr->counter_desc));
}

static int read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t count,
			 uint32_t flags)
{
	if (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED)
		return error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "ibv_read_counters: flags 0x%x",
				    flags);
	return error_from(counters_read(counters_of(counters), values, count));
}

void flow_fill(struct verbs_context *verbs)
{
	verbs->ibv_create_flow = create_flow;
	verbs->ibv_destroy_flow = destroy_flow;
	/* In the headers of very old programs these two are at the place of the placeholders. */
	verbs->ABI_placeholder1 = (void (*)(void))create_flow;
	verbs->ABI_placeholder2 = (void (*)(void))destroy_flow;
	verbs->create_counters = create_counters;
	verbs->destroy_counters = destroy_counters;
	verbs->attach_counters_point_flow = attach_counters_point_flow;
	verbs->read_counters = read_counters;
}
