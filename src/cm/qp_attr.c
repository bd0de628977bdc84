/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/qp_attr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <stdlib.h>
#include <string.h>

#include "base/compat.h"
#include "cm/export.h"

#define SELECTOR_EXACTLY 2
#define ACK_TIMEOUT	 17 /* exponent of 4.096 us: 0.5 s */
#define LIFE_TIME	 16 /* the same, of a packet on its path */

uint8_t qp_attr_ack_timeout(const struct id *id)
{
	return id->ack_timeout ? id->ack_timeout : ACK_TIMEOUT;
}

int qp_attr_address(struct id *id, const struct ctl_cm_address *remote, struct ibv_ah_attr *out)
{
	union ibv_gid sgid, *dgid = &out->grh.dgid;
	int index;

	memset(out, 0, sizeof(*out));
	if (!id->device)
		return -EINVAL;
	index = device_gid_index(id->device, &id->local, remote);
	if (index < 0)
		return -ENODEV;
	out->is_global = 1;
	out->port_num = DEVICE_PORT;
	out->sl = id->tos >> 5;
	out->grh.sgid_index = (uint8_t)index;
	out->grh.hop_limit = QP_ATTR_HOP_LIMIT;
	out->grh.traffic_class = id->tos;
	device_gids(id->device, &id->local, remote, &sgid, dgid);
	/* LIDs are the end of the IPv4 address. */
	if (id->device->is_infiniband && remote->family == AF_INET)
		out->dlid = (uint16_t)(dgid->raw[14] << 8 | dgid->raw[15]);
	return 0;
}

int qp_attr_make_path(struct id *id)
{
	struct ibv_sa_path_rec *path = id->base.route.path_rec;
	struct ibv_port_attr port;

	if (ibv_query_port(id->base.verbs, DEVICE_PORT, &port))
		return -ENODEV;
	if (!path)
		path = malloc(sizeof(*path));
	if (!path)
		return -ENOMEM;
	*path = (struct ibv_sa_path_rec){
		.dgid = id->base.route.addr.addr.ibaddr.dgid,
		.sgid = id->base.route.addr.addr.ibaddr.sgid,
		.slid = htons(port.lid),
		.hop_limit = QP_ATTR_HOP_LIMIT,
		.traffic_class = id->tos,
		.reversible = 1,
		.numb_path = 1,
		.pkey = 0xffff,
		.mtu_selector = SELECTOR_EXACTLY,
		.mtu = id->peer.path_mtu ? id->peer.path_mtu : (uint8_t)port.active_mtu,
		.rate_selector = SELECTOR_EXACTLY,
		.rate = IBV_RATE_10_GBPS,
		.packet_life_time_selector = SELECTOR_EXACTLY,
		.packet_life_time = LIFE_TIME,
	};
	id->base.route.path_rec = path;
	return 0;
}

static void init_ud(struct ibv_qp_attr *attr, int *mask)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		attr->pkey_index = 0;
		attr->port_num = DEVICE_PORT;
		attr->qkey = RDMA_UDP_QKEY;
		*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
		break;
	case IBV_QPS_RTS:
		attr->sq_psn = 0;
		*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
		break;
	default:
		*mask = IBV_QP_STATE;
		break;
	}
}

static void init_init(const struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = 0;
	attr->port_num = DEVICE_PORT;
	attr->qp_access_flags = 0;
	if (id->has_peer) {
		attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (id->responder_resources)
			attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		/* As Linux since 6.2. */
		if (id->responder_resources && id->device->has_flush)
			attr->qp_access_flags |= COMPAT_ACCESS_FLUSH_GLOBAL;
	}
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

static bool is_rc(const struct id *id)
{
	return id->base.qp_type == IBV_QPT_RC || id->base.qp_type == IBV_QPT_XRC_SEND ||
	       id->base.qp_type == IBV_QPT_XRC_RECV;
}

static int init_rtr(struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	int rc = qp_attr_address(id, &id->remote, &attr->ah_attr);

	attr->path_mtu = id->peer.path_mtu ? (enum ibv_mtu)id->peer.path_mtu : IBV_MTU_1024;
	attr->dest_qp_num = id->peer.qpn;
	attr->rq_psn = id->psn; /* each end chooses the first PSN that it receives (IBA 12.6.5) */
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (is_rc(id)) {
		attr->max_dest_rd_atomic = id->responder_resources;
		attr->min_rnr_timer = 0;
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	return rc;
}

/* The program's choice, else the request's. */
static uint8_t ack_timeout(const struct id *id)
{
	if (id->has_ack_timeout)
		return id->ack_timeout;
	return id->peer.ack_timeout ? id->peer.ack_timeout : ACK_TIMEOUT;
}

static void init_rts(const struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->sq_psn = id->peer.psn;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (is_rc(id)) {
		attr->timeout = ack_timeout(id);
		attr->retry_cnt = id->retry_count;
		attr->rnr_retry = id->rnr_retry_count;
		attr->max_rd_atomic = id->initiator_depth;
		*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			 IBV_QP_MAX_QP_RD_ATOMIC;
	}
}

/* As Linux's iwcm: RTS comes with the connection. */
static int init_iwarp(struct ibv_qp_attr *attr, int *mask)
{
	attr->port_num = DEVICE_PORT;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
	case IBV_QPS_RTR:
		*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT;
		return 0;
	case IBV_QPS_RTS:
		*mask = IBV_QP_PORT;
		return 0;
	default:
		return -EINVAL;
	}
}

int qp_attr_init(struct id *id, struct ibv_qp_attr *attr, int *mask)
{
	if (!id->device)
		return -EINVAL;
	if (id->base.qp_type == IBV_QPT_UD) {
		init_ud(attr, mask);
		return 0;
	}
	if (id->iwcm)
		return init_iwarp(attr, mask);
	if (attr->qp_state == IBV_QPS_INIT) {
		init_init(id, attr, mask);
		return 0;
	}
	if (!id->has_peer)
		return -EINVAL;
	switch (attr->qp_state) {
	case IBV_QPS_RTR:
		return init_rtr(id, attr, mask);
	case IBV_QPS_RTS:
		init_rts(id, attr, mask);
		return 0;
	default:
		return -EINVAL;
	}
}

CM_EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr,
				int *qp_attr_mask)
{
	return answer(qp_attr_init(id_of(id), qp_attr, qp_attr_mask));
}
