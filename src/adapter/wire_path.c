/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/wire_path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "adapter/path.h"
#include "adapter/port_open.h"
#include "base/gid.h"
#include "netdev/device.h"
#include "object/ah.h"
#include "roce/datagram.h"
#include "udp/udp.h"

#define HOP_LIMIT_DEFAULT 64

/* The address of this index, and its interface. False: there is none. */
static bool read_own(struct device *device, unsigned index, union ibv_gid *own, uint32_t *ifindex)
{
	memset(own, 0, sizeof(*own));
	lock_acquire(&device->lock);
	if (index < DEVICE_GIDS)
		*own = device->gid[index];
	*ifindex = device->ifindex;
	lock_release(&device->lock);
	return !gid_is_zero(own->raw);
}

void wire_path_open(struct context *context, const struct ibv_ah_attr *attr)
{
	struct device *device = context->device;
	struct wire_port *port;
	uint8_t remote[WIRE_GID_BYTES];
	union ibv_gid own;
	uint32_t ifindex;

	gid_canonical(remote, attr->grh.dgid.raw);
	if (read_own(device, attr->grh.sgid_index, &own, &ifindex) &&
	    gid_is_v4(own.raw) == gid_is_v4(remote))
		port_open(own.raw, ifindex, device->ib.name, &port);
}

int wire_path_resolve(struct context *context, const struct ibv_ah_attr *attr, uint32_t remote_qpn,
		      struct wire_flow *flow)
{
	struct device *device = context->device;
	char text[INET6_ADDRSTRLEN];
	union ibv_gid own;
	uint32_t ifindex;
	int error;

	if (!read_own(device, attr->grh.sgid_index, &own, &ifindex)) {
		char why[128];

		device_explain_gid(device, attr->grh.sgid_index, why, sizeof(why));
		cause_report(CAUSE_GID_UNKNOWN, 0, "%s", why);
		return EINVAL;
	}
	memset(flow, 0, sizeof(*flow));
	memcpy(flow->local, own.raw, sizeof(flow->local));
	gid_canonical(flow->remote, attr->grh.dgid.raw);
	if (gid_is_v4(flow->local) != gid_is_v4(flow->remote)) {
		inet_ntop(AF_INET6, flow->remote, text, sizeof(text));
		cause_report(CAUSE_NO_PATH, 0, "sgid_index %u is of %s, the destination is %s",
			     attr->grh.sgid_index, gid_is_v4(flow->local) ? "IPv4" : "IPv6", text);
		return ENETUNREACH;
	}
	if (gid_is_multicast(flow->remote) || gid_is_link_local(flow->remote))
		flow->ifindex = ifindex;
	flow->flow_label = attr->grh.flow_label & 0xfffff;
	flow->traffic_class = (attr->grh.traffic_class & ~WIRE_ECN_MASK) | WIRE_ECN_ECT_0;
	flow->hop_limit = attr->grh.hop_limit ? attr->grh.hop_limit : HOP_LIMIT_DEFAULT;
	error = port_open_nowait(flow->local, ifindex, device->ib.name, &flow->port);
	if (error)
		return error;
	flow->sender = udp_sender(flow->port, remote_qpn);
	/* The other end's buffer is not known. It is taken to be like ours; losses correct that. */
	flow->buffer_bytes = udp_buffer_bytes(flow->port);
	return 0;
}

void wire_path_answer(const struct wire_flow *arrival, uint32_t remote_qpn, struct wire_flow *flow)
{
	*flow = *arrival;
	flow->hop_limit = HOP_LIMIT_DEFAULT;
	flow->sender = udp_sender(flow->port, remote_qpn);
}

int wire_path_send_datagrams(struct qp *qp, unsigned most, unsigned *sent, enum cause *cause)
{
	const struct wqe *wqe = sq_wqe(&qp->sq, qp->sq.issue);

	/* The loopback interface reaches only members on this host, so no port is needed. */
	if (qp->context->device->loopback && !path_is_forced() &&
	    gid_is_multicast(wqe->ah->attr.grh.dgid.raw)) {
		*sent = 1;
		return 0;
	}
	switch (datagram_transmit(qp, qp->sq.issue, most, sent, cause)) {
	case WIRE_FULL:
		return -EAGAIN;
	case WIRE_NO_PORT:
		return -EINPROGRESS;
	case WIRE_FAULT:
	case WIRE_TOO_LONG:
		return -EFAULT;
	case WIRE_SENT:
	case WIRE_NO_ROUTE:
	default:
		return 0;
	}
}
