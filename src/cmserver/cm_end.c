/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "ibcm/ip_header.h"
#include "ibcm/mad.h"

#define MTU_MAX 5 /* IBV_MTU_4096 */
#define BITS_24 0xffffffu

/* A REQ names the asking end's service (IBA 12.6.6); XRC's initiator asks for a target. */
static void fill_transport(struct ibcm_message *m, enum ctl_cm_qp_type qp_type)
{
	switch (qp_type) {
	case CTL_CM_QP_UC:
		m->transport = IBCM_UC;
		break;
	case CTL_CM_QP_XRC_SEND:
		m->transport = IBCM_EXTENDED;
		m->extended_transport = IBCM_EXTENDED_XRC;
		/* An initiator responds to nothing, and has no SRQ. */
		m->responder_resources = m->retry_count = m->rnr_retry_count = m->has_srq = 0;
		break;
	default:
		m->transport = IBCM_RC;
		break;
	}
}

int cm_end_fill_request(struct ibcm_message *m, uint16_t space, enum ctl_cm_qp_type qp_type,
			const struct ctl_cm_request *request)
{
	const struct ctl_cm_end *end = &request->end;
	struct ip_header header = {
		.is_v4 = request->remote.family == AF_INET,
		.source_port = ntohs(request->local.port),
	};

	memset(m, 0, sizeof(*m));
	m->type = qp_type == CTL_CM_QP_UD ? IBCM_SIDR_REQ : IBCM_REQ;
	if (end->private_bytes + 0u + IP_HEADER_BYTES > mad_private_bytes(m->type) ||
	    end->private_bytes > CTL_CM_PRIVATE_BYTES)
		return -EINVAL;
	m->service_id = ip_header_service_id(space, ntohs(request->remote.port));
	m->qpn = end->qpn & BITS_24;
	m->psn = end->psn & BITS_24;
	m->responder_resources = end->responder_resources;
	m->initiator_depth = end->initiator_depth;
	m->flow_control = end->flow_control & 1;
	m->retry_count = end->retry_count & 7;
	m->rnr_retry_count = end->rnr_retry_count & 7;
	m->has_srq = end->has_srq & 1;
	m->path_mtu = end->path_mtu & 15;
	m->ack_timeout = end->ack_timeout & 31;
	m->traffic_class = end->traffic_class;
	m->hop_limit = end->hop_limit;
	m->ece_vendor = end->ece_vendor & BITS_24;
	m->ece_options = end->ece_options;
	fill_transport(m, qp_type);
	memcpy(m->local_gid, request->local.gid, sizeof(m->local_gid));
	memcpy(m->remote_gid, request->remote.gid, sizeof(m->remote_gid));
	memcpy(&m->ca_guid, request->local.gid + 8, sizeof(m->ca_guid));
	memcpy(header.source, request->local.gid, sizeof(header.source));
	memcpy(header.destination, request->remote.gid, sizeof(header.destination));
	ip_header_encode(&header, m->private_data);
	memcpy(m->private_data + IP_HEADER_BYTES, end->private_data, end->private_bytes);
	m->private_bytes = (uint16_t)(IP_HEADER_BYTES + end->private_bytes);
	return 0;
}

int cm_end_fill_answer(struct ibcm_message *m, enum ibcm_type type,
		       const uint8_t local_gid[CTL_GID_BYTES], const struct ctl_cm_request *request)
{
	const struct ctl_cm_end *end = &request->end;

	if (end->private_bytes > mad_private_bytes(type) ||
	    end->private_bytes > CTL_CM_PRIVATE_BYTES)
		return -EINVAL;
	*m = (struct ibcm_message){
		.qpn = end->qpn & BITS_24,
		.psn = end->psn & BITS_24,
		.qkey = end->qkey,
		.responder_resources = end->responder_resources,
		.initiator_depth = end->initiator_depth,
		.flow_control = end->flow_control & 1,
		.rnr_retry_count = end->rnr_retry_count & 7,
		.has_srq = end->has_srq & 1,
		.ece_vendor = end->ece_vendor & BITS_24,
		.ece_options = end->ece_options,
		.reason = (uint16_t)request->reason,
		.private_bytes = end->private_bytes,
	};
	memcpy(&m->ca_guid, local_gid + 8, sizeof(m->ca_guid));
	memcpy(m->private_data, end->private_data, end->private_bytes);
	return 0;
}

/* Mirrors the resources: what the other end offers is what this end may use, and the reverse. */
void cm_end_read(const struct ibcm_message *m, unsigned skip, struct ctl_cm_end *end)
{
	memset(end, 0, sizeof(*end));
	end->qpn = m->qpn;
	end->psn = m->psn;
	end->qkey = m->qkey;
	end->responder_resources = m->initiator_depth;
	end->initiator_depth = m->responder_resources;
	end->flow_control = m->flow_control;
	end->retry_count = m->retry_count;
	end->rnr_retry_count = m->rnr_retry_count;
	end->has_srq = m->has_srq;
	end->path_mtu = m->path_mtu <= MTU_MAX ? m->path_mtu : MTU_MAX;
	end->ack_timeout = m->ack_timeout;
	end->traffic_class = m->traffic_class;
	end->hop_limit = m->hop_limit;
	end->ece_vendor = m->ece_vendor;
	end->ece_options = m->ece_options;

	/* All of the message's field, however much of it the other end has filled. */
	unsigned room = mad_private_bytes(m->type);

	room = room > skip ? room - skip : 0;
	end->private_bytes = (uint16_t)(room < CTL_CM_PRIVATE_BYTES ? room : CTL_CM_PRIVATE_BYTES);
	memcpy(end->private_data, m->private_data + skip, end->private_bytes);
}

enum ctl_cm_qp_type cm_end_wanted_type(const struct ibcm_message *m)
{
	if (m->type == IBCM_SIDR_REQ)
		return CTL_CM_QP_UD;
	if (m->transport == IBCM_RC)
		return CTL_CM_QP_RC;
	if (m->transport == IBCM_UC)
		return CTL_CM_QP_UC;
	if (m->transport == IBCM_EXTENDED && m->extended_transport == IBCM_EXTENDED_XRC)
		return CTL_CM_QP_XRC_RECV;
	return CTL_CM_QP_NONE;
}
