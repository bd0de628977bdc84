/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <string.h>

#include "adapter/adapter.h"
#include "base/gid.h"
#include "netdev/device.h"
#include "base/uncancelled.h"
#include "object/ah.h"
#include "base/lid.h"
#include "verbs/export.h"
#include "verbs/gid.h"
#include "verbs/link.h"
#include "verbs/error.h"

static int check(struct context *context, const struct ibv_ah_attr *attr, union ibv_gid *sgid)
{
	static const union ibv_gid none;

	if (attr->port_num != DEVICE_PORT)
		return error_report(EINVAL, CAUSE_PORT_UNKNOWN, "port %u", attr->port_num);
	if (!attr->is_global)
		return error_report(EINVAL, CAUSE_AH_INVALID, "is_global is 0");
	if (!gid_at(context, attr->grh.sgid_index, sgid) ||
	    (context->infiniband && !lid_resolve_gid(sgid, sgid)))
		return error_report(EINVAL, CAUSE_GID_UNKNOWN, "sgid_index %u",
				    attr->grh.sgid_index);
	if (memcmp(&attr->grh.dgid, &none, sizeof(none)) == 0)
		return error_report(EINVAL, CAUSE_AH_INVALID, "the destination GID is zero");
	return 0;
}

VERBS_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *asked)
{
	UNCANCELLED;
	struct context *context = context_of(pd->context);
	struct ibv_ah_attr resolved, *attr = &resolved;
	union ibv_gid sgid;
	struct ah *ah;
	int local;

	if (adapter_is_foreign(context)) {
		error_report(EINVAL, CAUSE_OTHER_PROCESS, "PD %u", pd->handle);
		return NULL;
	}
	if (context->iwarp) {
		error_report(EOPNOTSUPP, CAUSE_UNSUPPORTED, "iWARP has no address handles");
		return NULL;
	}
	if (!link_resolve(context, asked, attr)) {
		error_report(EINVAL, CAUSE_AH_INVALID, "dlid %u", asked->dlid);
		return NULL;
	}
	if (check(context, attr, &sgid) != 0)
		return NULL;
	local = gid_is_multicast(attr->grh.dgid.raw) ? 1 : adapter_stays_local(&attr->grh.dgid);
	if (local < 0) {
		errno = -local;
		return NULL;
	}
	if (error_from(ah_create(pd_of(pd), attr, &sgid, local, &ah)) != 0)
		return NULL;
	if (gid_is_multicast(attr->grh.dgid.raw))
		adapter_resolve_group(&attr->grh.dgid);
	ah->without_grh = context->infiniband && !asked->is_global;
	live_object_add(&ah->live, ah->ib.handle);
	return &ah->ib;
}

VERBS_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	UNCANCELLED;

	if (!live_object_remove(&ah_of(ah)->live, &ah->handle))
		return error_unknown_object("ibv_destroy_ah");
	ah_destroy(ah_of(ah));
	return 0;
}

/*
 * A datagram over IPv4 has its IPv4 header in the last 20 bytes of the 40 of a GRH (IBA A17.4.5.2).
 */
struct ipv4_header {
	uint8_t version_ihl, tos;
	uint16_t length, id, fragment;
	uint8_t ttl, protocol;
	uint16_t checksum;
	uint8_t source[4], destination[4];
};

static_assert(sizeof(struct ipv4_header) == 20 && sizeof(struct ibv_grh) == 40, "wire formats");

static bool checksum_is_right(const void *header)
{
	const uint8_t *bytes = header;
	uint32_t sum = 0;

	for (unsigned int i = 0; i < sizeof(struct ipv4_header); i += 2)
		sum += bytes[i] << 8 | bytes[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return ((sum & 0xffff) + (sum >> 16)) == 0xffff;
}

/* The addresses of a received datagram. IPv4 addresses become IPv4-mapped GIDs. */
struct sender {
	union ibv_gid sgid, dgid;
	uint32_t flow_label;
	uint8_t hop_limit, traffic_class;
};

static void read_grh(const struct ibv_grh *grh, struct sender *sender)
{
	struct ipv4_header ipv4;
	uint32_t flow = be32toh(grh->version_tclass_flow);

	memcpy(&ipv4, (const char *)grh + sizeof(*grh) - sizeof(ipv4), sizeof(ipv4));
	if (ipv4.version_ihl == 0x45 && (flow >> 28 != 6 || checksum_is_right(&ipv4))) {
		gid_from_v4(ipv4.source, sender->sgid.raw);
		gid_from_v4(ipv4.destination, sender->dgid.raw);
		sender->flow_label = 0;
		sender->hop_limit = ipv4.ttl;
		sender->traffic_class = ipv4.tos;
		return;
	}
	sender->sgid = grh->sgid;
	sender->dgid = grh->dgid;
	sender->flow_label = flow & 0xfffff;
	sender->traffic_class = flow >> 20 & 0xff;
	sender->hop_limit = grh->hop_limit;
}

/*
 * A local GID of the sender's family, for a datagram to a multicast group, whose dgid is not local.
 */
static int index_for_group(struct context *context, const union ibv_gid *sender)
{
	union ibv_gid gid;

	for (uint32_t i = 0; i < DEVICE_GIDS; i++)
		if (gid_at(context, i, &gid) && gid_is_v4(gid.raw) == gid_is_v4(sender->raw))
			return i;
	return -1;
}

VERBS_EXPORT int ibv_init_ah_from_wc(struct ibv_context *ib, uint8_t port_num, struct ibv_wc *wc,
				     struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
{
	struct context *context = context_of(ib);
	struct sender sender;
	int index;

	memset(ah_attr, 0, sizeof(*ah_attr));
	ah_attr->dlid = wc->slid;
	ah_attr->sl = wc->sl;
	ah_attr->src_path_bits = wc->dlid_path_bits;
	ah_attr->port_num = port_num;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;

	read_grh(grh, &sender);
	if (gid_is_multicast(sender.dgid.raw))
		index = index_for_group(context, &sender.sgid);
	else
		index = gid_index_of(context, &sender.dgid);
	if (index < 0) {
		error_report(EINVAL, CAUSE_GID_UNKNOWN, "the destination of what was received");
		return -1;
	}
	ah_attr->is_global = 1;
	ah_attr->grh.dgid = sender.sgid;
	ah_attr->grh.flow_label = sender.flow_label;
	ah_attr->grh.sgid_index = index;
	ah_attr->grh.hop_limit = sender.hop_limit;
	ah_attr->grh.traffic_class = sender.traffic_class;
	return 0;
}

VERBS_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
						  struct ibv_grh *grh, uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0)
		return NULL;
	return ibv_create_ah(pd, &attr);
}

VERBS_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *ib, struct ibv_ah_attr *attr,
					     uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	UNCANCELLED;
	struct device *device = context_of(ib)->device;
	const uint8_t *raw = attr->grh.dgid.raw;
	int error;

	if (gid_is_v4_multicast(raw)) {
		memcpy(eth_mac,
		       (const uint8_t[]){ 0x01, 0x00, 0x5e, raw[13] & 0x7f, raw[14], raw[15] },
		       ETHERNET_LL_SIZE);
	} else if (gid_is_multicast(attr->grh.dgid.raw)) {
		eth_mac[0] = eth_mac[1] = 0x33;
		memcpy(&eth_mac[2], &raw[12], 4);
	} else if (device_gid_is_local(&attr->grh.dgid) > 0) {
		lock_acquire(&device->lock);
		memcpy(eth_mac, device->mac, ETHERNET_LL_SIZE);
		lock_release(&device->lock);
	} else {
		error = adapter_find_mac(context_of(ib), &attr->grh.dgid, eth_mac);
		if (error)
			return error_report(error, CAUSE_NO_PATH, "no Ethernet address: %s",
					    strerror(error));
	}
	if (vid)
		*vid = 0xffff; /* no VLAN */
	return 0;
}
