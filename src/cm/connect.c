/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steps of a connection: connect, accept, reject, disconnect. Each moves the identifier's QP,
 * if it has one, and sends verbatimd a request.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cm/export.h"
#include "cm/handshake.h"
#include "cm/id.h"
#include "cm/iwcm.h"
#include "cm/qp.h"
#include "cm/qp_attr.h"
#include "cm/refusal.h"
#include "cm/sync.h"

#define RETRIES_MAX 7

/* For private data; before it a REQ and SIDR_REQ have the addresses (IBA annex A11). */
#define REQ_ROOM      56
#define SIDR_REQ_ROOM 180
#define REP_ROOM      196
#define SIDR_REP_ROOM 136
#define REJ_ROOM      148
#define AGAIN_MS      20
#define PATIENCE_MS   2000

static bool is_ud(const struct id *id)
{
	return id->base.qp_type == IBV_QPT_UD;
}

/* The last owner of the address's UDP port may be about to close it: tries again for a while. */
static int send_while_busy(const struct id *id, struct ctl_cm_request *t, enum ctl_type type)
{
	const struct timespec pause = { .tv_nsec = AGAIN_MS * 1000000 };
	int rc = handshake_send(id, t, type);

	for (int waited_ms = 0; rc == -EAGAIN && waited_ms < PATIENCE_MS; waited_ms += AGAIN_MS) {
		nanosleep(&pause, NULL);
		rc = handshake_send(id, t, type);
	}
	return rc;
}

/* Without a QP of the identifier, the program has to pass a QP number. */
static int check_param(const struct id *id, const struct rdma_conn_param *param)
{
	if (id->base.ps != RDMA_PS_TCP)
		return 0;
	if (!id->base.qp && !param)
		return refusal(-EINVAL, CAUSE_ARGUMENT_INVALID, "neither a QP nor conn_param");
	if (!param || !id->device)
		return 0;
	if (param->responder_resources != RDMA_MAX_RESP_RES &&
	    param->responder_resources > id->device->max_responder_resources)
		return refusal(-EINVAL, CAUSE_LIMIT_EXCEEDED, "responder_resources %u, at most %u",
			       param->responder_resources, id->device->max_responder_resources);
	if (param->initiator_depth != RDMA_MAX_INIT_DEPTH &&
	    param->initiator_depth > id->device->max_initiator_depth)
		return refusal(-EINVAL, CAUSE_LIMIT_EXCEEDED, "initiator_depth %u, at most %u",
			       param->initiator_depth, id->device->max_initiator_depth);
	return 0;
}

/* room: for private data. */
static int fill_end(const struct id *id, const struct rdma_conn_param *param, size_t room,
		    struct ctl_cm_end *end)
{
	end->qpn = id->base.qp ? id->base.qp->qp_num : param ? param->qp_num : 0;
	end->has_srq = id->base.qp ? id->base.qp->srq != NULL : param && param->srq;
	end->psn = id->psn;
	end->qkey = is_ud(id) ? RDMA_UDP_QKEY : 0;
	end->responder_resources = id->responder_resources;
	end->initiator_depth = id->initiator_depth;
	end->retry_count = end->rnr_retry_count = RETRIES_MAX;
	end->ece_vendor = id->local_ece.vendor_id;
	end->ece_options = id->local_ece.options;
	if (!param)
		return 0;
	end->flow_control = param->flow_control != 0;
	end->retry_count = param->retry_count < RETRIES_MAX ? param->retry_count : RETRIES_MAX;
	end->rnr_retry_count =
		param->rnr_retry_count < RETRIES_MAX ? param->rnr_retry_count : RETRIES_MAX;
	if (!param->private_data_len)
		return 0;
	if (!param->private_data || param->private_data_len > room)
		return refusal(-EINVAL, CAUSE_ARGUMENT_INVALID,
			       "%u bytes of private data, at most %zu", param->private_data_len,
			       room);
	end->private_bytes = param->private_data_len;
	memcpy(end->private_data, param->private_data, param->private_data_len);
	return 0;
}

static uint8_t min_u8(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/*
 * ------------------------------------------------------------------------------------------
 * The active end.
 */

static void choose_depths(struct id *id, const struct rdma_conn_param *param)
{
	if (param && param->responder_resources != RDMA_MAX_RESP_RES)
		id->responder_resources = param->responder_resources;
	else
		id->responder_resources = id->device->max_responder_resources;
	if (param && param->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = param->initiator_depth;
	else
		id->initiator_depth = id->device->max_initiator_depth;
}

/*
 * Puts the endpoint's connect data (rdma_addrinfo) before the program's private data. There is room
 * for both.
 */
static void put_connect_data(const struct id *id, struct ctl_cm_end *end)
{
	memmove(end->private_data + id->connect_bytes, end->private_data, end->private_bytes);
	if (id->connect_bytes)
		memcpy(end->private_data, id->connect_data, id->connect_bytes);
	end->private_bytes = (uint16_t)(end->private_bytes + id->connect_bytes);
}

/*
 * The MTU of the route, which the program may have given (RDMA_OPTION_IB_PATH), up to the port's.
 */
static uint8_t path_mtu(const struct id *id, const struct ibv_port_attr *port)
{
	uint8_t mtu = id->base.route.num_paths ? id->base.route.path_rec->mtu : 0;

	return min_u8(mtu ? mtu : UINT8_MAX, (uint8_t)port->active_mtu);
}

/* What iWARP tells the peer. 0 or -errno. */
static int fill_iwarp(const struct id *id, const struct rdma_conn_param *param,
		      struct iwcm_param *out)
{
	*out = (struct iwcm_param){
		.qpn = id->base.qp ? id->base.qp->qp_num
		       : param	   ? param->qp_num
				   : 0,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.private_data = param ? param->private_data : NULL,
		.private_bytes = param ? param->private_data_len : 0,
	};
	return out->private_bytes && !out->private_data ? -EINVAL : 0;
}

static int connect_iwarp(struct id *id, const struct rdma_conn_param *param)
{
	uint8_t all[IWCM_PRIVATE_MAX];
	struct iwcm_param told;
	int rc = fill_iwarp(id, param, &told);

	if (!rc && id->connect_bytes + told.private_bytes > sizeof(all))
		rc = refusal(-EINVAL, CAUSE_ARGUMENT_INVALID, "ai_connect is too long");
	if (rc)
		return rc;
	/* As put_connect_data does. */
	if (id->connect_bytes)
		memcpy(all, id->connect_data, id->connect_bytes);
	if (told.private_bytes)
		memcpy(all + id->connect_bytes, told.private_data, told.private_bytes);
	told.private_data = all;
	told.private_bytes += id->connect_bytes;
	id->state = ID_CONNECTING;
	rc = iwcm_connect(id, &told);
	if (rc)
		id->state = ID_ROUTE_RESOLVED;
	return rc;
}

CM_EXPORT int rdma_connect(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
	struct id *id = id_of(base), *waiting = sync_begin(id);
	struct ctl_cm_request t = { .local = id->local, .remote = id->remote };
	struct ibv_port_attr port;
	size_t room;
	int rc = check_param(id, param);

	if (!rc && id->state != ID_ROUTE_RESOLVED)
		rc = id_refuse_state(id);
	if (rc)
		return answer(rc);
	choose_depths(id, param);
	if (id->iwcm) {
		rc = connect_iwarp(id, param);
		return rc ? answer(rc) : sync_complete(waiting);
	}
	room = is_ud(id) ? SIDR_REQ_ROOM : REQ_ROOM;
	rc = id->connect_bytes > room
		     ? refusal(-EINVAL, CAUSE_ARGUMENT_INVALID, "ai_connect is too long")
		     : fill_end(id, param, room - id->connect_bytes, &t.end);
	if (!rc && ibv_query_port(base->verbs, DEVICE_PORT, &port))
		rc = -ENODEV;
	if (rc)
		return answer(rc);
	put_connect_data(id, &t.end);
	t.end.path_mtu = path_mtu(id, &port);
	t.end.ack_timeout = qp_attr_ack_timeout(id);
	t.end.traffic_class = id->tos;
	t.end.hop_limit = QP_ATTR_HOP_LIMIT;
	id->retry_count = t.end.retry_count;
	id->rnr_retry_count = t.end.rnr_retry_count;
	/* The answer does not carry these two. */
	id->peer.path_mtu = t.end.path_mtu;
	id->peer.ack_timeout = t.end.ack_timeout;
	/* Before the request: the program may end the identifier as soon as it has the outcome. */
	id->state = ID_CONNECTING;
	rc = send_while_busy(id, &t, CTL_CM_CONNECT);
	if (rc) {
		id->state = ID_ROUTE_RESOLVED;
		return answer(rc);
	}
	return sync_complete(waiting);
}

CM_EXPORT int rdma_establish(struct rdma_cm_id *id)
{
	/* With a QP of the identifier, the library has done it already. */
	return answer(id->qp ? id_refuse_state(id_of(id))
			     : handshake_step(id_of(id), CTL_CM_READY));
}

/*
 * ------------------------------------------------------------------------------------------
 * The passive end.
 */

static void agree_depths(struct id *id, const struct rdma_conn_param *param)
{
	if (param && param->responder_resources != RDMA_MAX_RESP_RES)
		id->responder_resources = param->responder_resources;
	else
		id->responder_resources =
			min_u8(id->responder_resources, id->device->max_responder_resources);
	if (param && param->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = param->initiator_depth;
	else
		id->initiator_depth = min_u8(id->initiator_depth, id->device->max_initiator_depth);
}

static int make_ready(struct id *id)
{
	int rc;

	if (is_ud(id) || !id->base.qp)
		return 0;
	rc = qp_to_rtr(id);
	return rc ? rc : qp_to_rts(id);
}

CM_EXPORT int rdma_accept(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
	struct id *id = id_of(base), *waiting = is_ud(id) ? NULL : sync_begin(id);
	struct ctl_cm_request t = { .reason = 0 };
	int rc = check_param(id, param);

	if (!rc && id->state != ID_CONNECTING)
		rc = id_refuse_state(id);
	if (rc)
		return answer(rc);
	agree_depths(id, param);
	if (id->iwcm) {
		struct iwcm_param told;

		rc = fill_iwarp(id, param, &told);
		if (!rc)
			rc = iwcm_accept(id, &told);
		return rc ? answer(rc) : sync_complete(waiting);
	}
	rc = fill_end(id, param, is_ud(id) ? SIDR_REP_ROOM : REP_ROOM, &t.end);
	/* A QP that cannot be moved may be connected already. */
	if (!rc)
		rc = make_ready(id);
	if (rc)
		return answer(rc);
	rc = handshake_send(id, &t, CTL_CM_ACCEPT);
	/* The call alone tells: no event is about a child that was not accepted. */
	if (rc == -EINVAL)
		refusal(rc, CAUSE_CM_STATE,
			"no request awaits it; the other end may have taken it back");
	if (rc) {
		qp_fail(id);
		return answer(rc);
	}
	return sync_complete(waiting);
}

static int reject(struct id *id, const void *data, uint8_t len, uint16_t reason)
{
	struct ctl_cm_request t = { .reason = reason };

	if (len && !data)
		return -EINVAL;
	if (id->iwcm)
		return iwcm_reject(id, data, len);
	if (len > (is_ud(id) ? SIDR_REP_ROOM : REJ_ROOM))
		return -EINVAL;
	t.end.private_bytes = len;
	if (len)
		memcpy(t.end.private_data, data, len);
	return handshake_send(id, &t, CTL_CM_REJECT);
}

CM_EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return answer(reject(id_of(id), private_data, private_data_len, HANDSHAKE_CONSUMER));
}

CM_EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
			      uint8_t private_data_len)
{
	return answer(reject(id_of(id), private_data, private_data_len, HANDSHAKE_VENDOR_ECE));
}

/* EISCONN: the RTU was faster. */
CM_EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	if (id_of(id)->iwcm)
		return answer(0); /* iWARP needs no hint */
	return answer(event == IBV_EVENT_COMM_EST ? handshake_step(id_of(id), CTL_CM_ESTABLISH)
						  : -EINVAL);
}

/*
 * ------------------------------------------------------------------------------------------
 * Either end.
 */

CM_EXPORT int rdma_disconnect(struct rdma_cm_id *base)
{
	struct id *id = id_of(base), *waiting = sync_begin(id);
	int rc;

	if (id->iwcm) {
		rc = iwcm_disconnect(id);
	} else {
		rc = qp_fail(id);
		if (!rc)
			rc = handshake_disconnect(id);
	}
	/* 1: there is no event to wait for. */
	return rc ? answer(rc < 0 ? rc : 0) : sync_complete(waiting);
}

CM_EXPORT int rdma_set_local_ece(struct rdma_cm_id *base, struct ibv_ece *ece)
{
	/* An identifier with a QP uses the QP's ECE. */
	if (!base || base->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return answer(-EINVAL);
	id_of(base)->local_ece = *ece;
	return 0;
}

CM_EXPORT int rdma_get_remote_ece(struct rdma_cm_id *base, struct ibv_ece *ece)
{
	const struct id *id = base ? id_of(base) : NULL;

	if (!id || base->qp || !ece)
		return answer(-EINVAL);
	*ece = (struct ibv_ece){
		.vendor_id = id->peer.ece_vendor,
		.options = id->peer.ece_options,
	};
	return 0;
}
