/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints - identifiers that are made, resolved and given a QP in one call; all synchronous.
 */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "cm/export.h"
#include "cm/id.h"
#include "cm/sync.h"

#define RESOLVE_MS 2000

/* Keeps the attributes for the QPs of its children. 0 or -errno. */
static int prepare_passive(struct id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			   const struct ibv_qp_init_attr *attr)
{
	if (rdma_bind_addr(&id->base, res->ai_src_addr))
		return -errno;
	if (pd)
		id->base.pd = pd;
	if (!attr)
		return 0;
	id->qp_init_attr = malloc(sizeof(*attr));
	if (!id->qp_init_attr)
		return -ENOMEM;
	*id->qp_init_attr = *attr;
	id->qp_init_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return 0;
}

static int prepare_active(struct id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	int rc;

	if (rdma_resolve_addr(&id->base, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS))
		return -errno;
	if (res->ai_route_len)
		rc = rdma_set_option(&id->base, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
				     (size_t)res->ai_route_len);
	else
		rc = rdma_resolve_route(&id->base, RESOLVE_MS);
	if (rc)
		return -errno;
	if (res->ai_connect_len) {
		id->connect_data = malloc((size_t)res->ai_connect_len);
		if (!id->connect_data)
			return -ENOMEM;
		memcpy(id->connect_data, res->ai_connect, (size_t)res->ai_connect_len);
		id->connect_bytes = (size_t)res->ai_connect_len;
	}
	if (!attr)
		return 0;
	attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return rdma_create_qp(&id->base, pd, attr) ? -errno : 0;
}

CM_EXPORT int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
			     struct ibv_qp_init_attr *qp_init_attr)
{
	struct id *id;
	int rc = id_create(NULL, NULL, (enum rdma_port_space)res->ai_port_space,
			   (enum ibv_qp_type)res->ai_qp_type, &id);

	if (rc)
		return answer(rc);
	if (res->ai_flags & RAI_PASSIVE)
		rc = prepare_passive(id, res, pd, qp_init_attr);
	else
		rc = prepare_active(id, res, pd, qp_init_attr);
	if (rc) {
		rdma_destroy_ep(&id->base);
		return answer_told(rc);
	}
	*out = &id->base;
	return 0;
}

CM_EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* 0 or -errno. */
static int take_request(struct id *listener, struct rdma_cm_event *event)
{
	struct ibv_qp_init_attr attr;

	if (event->status)
		return -abs(event->status);
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return -ENODEV;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return -EINVAL;
	if (!listener->qp_init_attr)
		return 0;
	attr = *listener->qp_init_attr;
	if (!attr.srq && listener->base.srq)
		attr.srq = listener->base.srq;
	return rdma_create_qp(event->id, listener->base.pd, &attr) ? -errno : 0;
}

CM_EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct id *listener = id_of(listen);
	struct rdma_cm_event *event;
	int rc;

	if (!listener->is_sync)
		return answer(-EINVAL);
	sync_drop_event(listener);
	if (sync_next_answer(listener, &event))
		return -1;
	rc = take_request(listener, event);
	if (rc) {
		listen->event = event;
		return answer_told(rc);
	}
	event->id->event = event;
	*out = event->id;
	return 0;
}
