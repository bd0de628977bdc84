/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"
#include "object/context.h"
#include "object/qp.h"

#define PORT 1

/* Offsets of header fields */
#define ETH_DST	       0
#define ETH_SRC	       6
#define ETH_TYPE       12
#define IP	       14 /* the Ethernet header's length */
#define IPV4_TOS       (IP + 1)
#define IPV4_FRAGMENT  (IP + 6)
#define IPV4_TTL       (IP + 8)
#define IPV4_PROTOCOL  (IP + 9)
#define IPV4_SRC       (IP + 12)
#define IPV4_DST       (IP + 16)
#define IPV6_NEXT      (IP + 6)
#define IPV6_HOP_LIMIT (IP + 7)
#define IPV6_SRC       (IP + 8)
#define IPV6_DST       (IP + 24)
#define BEHIND_IPV6    (IP + 40)
#define SRC_PORT       0
#define DST_PORT       2

#define FRAGMENT_OFFSET	 0x1fff
#define IPV6_LABEL	 0xfffffu
#define IPV6_CLASS_SHIFT 20
#define IPV4_WORDS_MASK	 0x0f
#define FLAGS_TAKEN	 IBV_FLOW_ATTR_FLAGS_DONT_TRAP /* every flow gets its own copy of a frame */

enum l3 { ANY_IP, IPV4, IPV6 };

/* The state of reading a list of specs. */
struct reading {
	struct flow *flow;
	struct flow_variant *variant; /* the flow's first variant */
	enum l3 l3;
	bool has_ports;
	struct ibv_flow_spec_tcp_udp ports;
	bool is_full;
};

static void add(struct reading *reading, struct flow_variant *variant, struct flow_match match)
{
	if (!match.mask)
		return;
	match.value &= match.mask;
	if (variant->count == FLOW_MATCHES_MAX)
		reading->is_full = true;
	else
		variant->match[variant->count++] = match;
}

static void add_word(struct reading *reading, struct flow_variant *variant, uint16_t offset,
		     uint8_t bytes, uint32_t value, uint32_t mask)
{
	add(reading, variant, (struct flow_match){ FLOW_FRAME, bytes, offset, mask, value });
}

static uint32_t word_at(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static uint32_t half_at(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 8 | bytes[1];
}

static void add_mac(struct reading *reading, uint16_t offset, const uint8_t value[6],
		    const uint8_t mask[6])
{
	add_word(reading, reading->variant, offset, 4, word_at(value), word_at(mask));
	add_word(reading, reading->variant, offset + 4, 2, half_at(value + 4), half_at(mask + 4));
}

static bool is_group(const uint8_t mac[6])
{
	return mac[0] & 1;
}

/* Determines which addresses the interface has to receive for this spec. */
static void add_wish(struct flow *flow, const struct ibv_flow_eth_filter *val,
		     const struct ibv_flow_eth_filter *mask)
{
	static const uint8_t none[6], whole[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

	if (!memcmp(mask->dst_mac, none, 6) || flow->wish != FLOW_NO_WISH)
		return;
	if (!memcmp(mask->dst_mac, whole, 6)) {
		flow->wish = FLOW_ADDRESS;
		memcpy(flow->mac, val->dst_mac, 6);
	} else {
		flow->wish =
			is_group(mask->dst_mac) && is_group(val->dst_mac) ? FLOW_GROUPS : FLOW_ALL;
	}
}

static int read_eth(struct reading *reading, const struct ibv_flow_spec_eth *eth)
{
	add_mac(reading, ETH_DST, eth->val.dst_mac, eth->mask.dst_mac);
	add_mac(reading, ETH_SRC, eth->val.src_mac, eth->mask.src_mac);
	add_word(reading, reading->variant, ETH_TYPE, 2, ntohs(eth->val.ether_type),
		 ntohs(eth->mask.ether_type));
	add(reading, reading->variant,
	    (struct flow_match){ FLOW_VLAN, 2, 0, ntohs(eth->mask.vlan_tag),
				 ntohs(eth->val.vlan_tag) });
	add_wish(reading->flow, &eth->val, &eth->mask);
	return 0;
}

static int refuse_twice(const char *what)
{
	cause_report(CAUSE_ARGUMENT_INVALID, 0, "ibv_create_flow: %s", what);
	return -EINVAL;
}

static int begin_ip(struct reading *reading, enum l3 l3)
{
	if (reading->l3 != ANY_IP)
		return refuse_twice("two specs of IP");
	reading->l3 = l3;
	return 0;
}

static int read_ipv4(struct reading *reading, const struct ibv_flow_spec_ipv4 *ip)
{
	add_word(reading, reading->variant, IPV4_SRC, 4, ntohl(ip->val.src_ip),
		 ntohl(ip->mask.src_ip));
	add_word(reading, reading->variant, IPV4_DST, 4, ntohl(ip->val.dst_ip),
		 ntohl(ip->mask.dst_ip));
	return begin_ip(reading, IPV4);
}

static int read_ipv4_ext(struct reading *reading, const struct ibv_flow_spec_ipv4_ext *ip)
{
	const struct ibv_flow_spec_ipv4 addresses = {
		.val = { ip->val.src_ip, ip->val.dst_ip },
		.mask = { ip->mask.src_ip, ip->mask.dst_ip },
	};

	if (ip->mask.flags) {
		cause_report(CAUSE_UNSUPPORTED, 0, "flags of an IPv4 spec");
		return -EOPNOTSUPP;
	}
	add_word(reading, reading->variant, IPV4_PROTOCOL, 1, ip->val.proto, ip->mask.proto);
	add_word(reading, reading->variant, IPV4_TOS, 1, ip->val.tos, ip->mask.tos);
	add_word(reading, reading->variant, IPV4_TTL, 1, ip->val.ttl, ip->mask.ttl);
	return read_ipv4(reading, &addresses);
}

static int read_ipv6(struct reading *reading, const struct ibv_flow_spec_ipv6 *ip)
{
	struct flow_variant *variant = reading->variant;

	for (uint16_t i = 0; i < 16; i += 4) {
		add_word(reading, variant, IPV6_SRC + i, 4, word_at(ip->val.src_ip + i),
			 word_at(ip->mask.src_ip + i));
		add_word(reading, variant, IPV6_DST + i, 4, word_at(ip->val.dst_ip + i),
			 word_at(ip->mask.dst_ip + i));
	}
	add_word(reading, variant, IP, 4,
		 (ntohl(ip->val.flow_label) & IPV6_LABEL) | (uint32_t)ip->val.traffic_class
								    << IPV6_CLASS_SHIFT,
		 (ntohl(ip->mask.flow_label) & IPV6_LABEL) | (uint32_t)ip->mask.traffic_class
								     << IPV6_CLASS_SHIFT);
	add_word(reading, variant, IPV6_NEXT, 1, ip->val.next_hdr, ip->mask.next_hdr);
	add_word(reading, variant, IPV6_HOP_LIMIT, 1, ip->val.hop_limit, ip->mask.hop_limit);
	return begin_ip(reading, IPV6);
}

/* Ports are placed after all specs were read, because the L3 protocol determines their offset. */
static int read_ports(struct reading *reading, const struct ibv_flow_spec_tcp_udp *ports)
{
	if (reading->has_ports)
		return refuse_twice("two specs of ports");
	reading->has_ports = true;
	reading->ports = *ports;
	return 0;
}

static int read_count(struct reading *reading, const struct ibv_flow_spec_counter_action *count)
{
	if (reading->flow->counters)
		return refuse_twice("two counters");
	if (!count->counters || count->counters->context != reading->flow->ib.context) {
		cause_report(CAUSE_OTHER_CONTEXT, 0, "QP and counters");
		return -EINVAL;
	}
	reading->flow->counters = counters_of(count->counters);
	return 0;
}

static size_t size_of(uint32_t type)
{
	switch (type) {
	case IBV_FLOW_SPEC_ETH:
		return sizeof(struct ibv_flow_spec_eth);
	case IBV_FLOW_SPEC_IPV4:
		return sizeof(struct ibv_flow_spec_ipv4);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return sizeof(struct ibv_flow_spec_ipv4_ext);
	case IBV_FLOW_SPEC_IPV6:
		return sizeof(struct ibv_flow_spec_ipv6);
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP:
		return sizeof(struct ibv_flow_spec_tcp_udp);
	case IBV_FLOW_SPEC_ACTION_COUNT:
		return sizeof(struct ibv_flow_spec_counter_action);
	default:
		return 0;
	}
}

/* Copies a spec: specs follow each other without alignment. */
static int fetch_spec(const char *pos, struct ibv_flow_spec *spec)
{
	size_t size;

	memcpy(&spec->hdr, pos, sizeof(spec->hdr));
	size = size_of(spec->hdr.type);
	if (!size) {
		cause_report(CAUSE_UNSUPPORTED, 0, "flow spec 0x%x", spec->hdr.type);
		return -EOPNOTSUPP;
	}
	if (spec->hdr.size < size) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0, "flow spec 0x%x of %u bytes, not %zu",
			     spec->hdr.type, spec->hdr.size, size);
		return -EINVAL;
	}
	memcpy(spec, pos, size);
	return 0;
}

static int read_spec(struct reading *reading, const struct ibv_flow_spec *spec)
{
	switch (spec->hdr.type) {
	case IBV_FLOW_SPEC_ETH:
		return read_eth(reading, &spec->eth);
	case IBV_FLOW_SPEC_IPV4:
		return read_ipv4(reading, &spec->ipv4);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return read_ipv4_ext(reading, &spec->ipv4_ext);
	case IBV_FLOW_SPEC_IPV6:
		return read_ipv6(reading, &spec->ipv6);
	case IBV_FLOW_SPEC_ACTION_COUNT:
		return read_count(reading, &spec->flow_count);
	default:
		return read_ports(reading, &spec->tcp_udp);
	}
}

static void add_ip(struct reading *reading, struct flow_variant *variant, enum l3 l3)
{
	const struct ibv_flow_spec_tcp_udp *ports = &reading->ports;
	uint8_t protocol = ports->type == IBV_FLOW_SPEC_TCP ? IPPROTO_TCP : IPPROTO_UDP;
	uint8_t place = l3 == IPV4 ? FLOW_BEHIND_IPV4 : FLOW_FRAME;
	uint16_t behind = l3 == IPV4 ? 0 : BEHIND_IPV6;

	add_word(reading, variant, ETH_TYPE, 2, l3 == IPV4 ? ETHERTYPE_IP : ETHERTYPE_IPV6, 0xffff);
	if (!reading->has_ports)
		return;
	add_word(reading, variant, l3 == IPV4 ? IPV4_PROTOCOL : IPV6_NEXT, 1, protocol, 0xff);
	if (l3 == IPV4) /* only a first fragment has ports */
		add_word(reading, variant, IPV4_FRAGMENT, 2, 0, FRAGMENT_OFFSET);
	add(reading, variant,
	    (struct flow_match){ place, 2, behind + SRC_PORT, ntohs(ports->mask.src_port),
				 ntohs(ports->val.src_port) });
	add(reading, variant,
	    (struct flow_match){ place, 2, behind + DST_PORT, ntohs(ports->mask.dst_port),
				 ntohs(ports->val.dst_port) });
}

static void finish(struct reading *reading)
{
	struct flow *flow = reading->flow;

	flow->variants = 1;
	if (reading->l3 != ANY_IP) {
		add_ip(reading, reading->variant, reading->l3);
	} else if (reading->has_ports) {
		flow->variants = 2;
		flow->variant[1] = flow->variant[0];
		add_ip(reading, &flow->variant[0], IPV4);
		add_ip(reading, &flow->variant[1], IPV6);
	}
}

static int read_type(struct reading *reading, const struct ibv_flow_attr *attr)
{
	struct flow *flow = reading->flow;

	switch (attr->type) {
	case IBV_FLOW_ATTR_NORMAL:
		break;
	case IBV_FLOW_ATTR_SNIFFER:
		flow->sniffer = true;
		__attribute__((fallthrough));
	case IBV_FLOW_ATTR_ALL_DEFAULT:
		flow->wish = FLOW_ALL;
		break;
	case IBV_FLOW_ATTR_MC_DEFAULT:
		flow->wish = FLOW_GROUPS;
		add_word(reading, reading->variant, ETH_DST, 1, 1, 1);
		break;
	default:
		cause_report(CAUSE_UNSUPPORTED, 0, "flow of type %d", attr->type);
		return -EOPNOTSUPP;
	}
	return 0;
}

static int check(const struct ibv_flow_attr *attr)
{
	if (attr->comp_mask) {
		cause_report(CAUSE_FLAGS_UNKNOWN, 0, "ibv_create_flow: comp_mask 0x%x",
			     attr->comp_mask);
		return -EINVAL;
	}
	if (attr->port != PORT) {
		cause_report(CAUSE_PORT_UNKNOWN, 0, "ibv_create_flow: port %u", attr->port);
		return -EINVAL;
	}
	if (attr->flags & ~(uint32_t)FLAGS_TAKEN) {
		cause_report(CAUSE_UNSUPPORTED, 0, "ibv_create_flow: flags 0x%x", attr->flags);
		return -EOPNOTSUPP;
	}
	return 0;
}

static int read_all(struct reading *reading, const struct ibv_flow_attr *attr)
{
	const char *pos = (const char *)(attr + 1);
	int error = read_type(reading, attr);

	for (unsigned i = 0; i < attr->num_of_specs && !error; i++) {
		struct ibv_flow_spec spec;

		error = fetch_spec(pos, &spec);
		if (!error)
			error = read_spec(reading, &spec);
		pos += spec.hdr.size;
	}
	if (error)
		return error;
	finish(reading);
	if (!reading->is_full)
		return 0;
	cause_report(CAUSE_LIMIT_EXCEEDED, 0, "a flow of more than %u comparisons",
		     FLOW_MATCHES_MAX);
	return -EINVAL;
}

int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **out)
{
	struct reading reading = { 0 };
	struct flow *flow;
	int error = check(attr);

	if (error)
		return error;
	flow = calloc(1, sizeof(*flow));
	if (!flow) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "flow");
		return -ENOMEM;
	}
	flow->ib.context = &qp->context->verbs.context;
	flow->qp = qp;
	flow->priority = attr->priority;
	list_init(&flow->link);
	reading.flow = flow;
	reading.variant = &flow->variant[0];
	error = read_all(&reading, attr);
	if (error) {
		free(flow);
		return error;
	}
	if (flow->counters)
		atomic_fetch_add(&flow->counters->flows, 1);
	*out = flow;
	return 0;
}

void flow_free(struct flow *flow)
{
	if (flow->counters)
		atomic_fetch_sub(&flow->counters->flows, 1);
	free(flow);
}

static bool load(const struct flow_match *match, const struct flow_frame *frame, uint32_t *word)
{
	const uint8_t *bytes = frame->bytes;
	size_t offset = match->offset;

	if (match->place == FLOW_VLAN) {
		*word = frame->vlan;
		return frame->has_vlan;
	}
	if (match->place == FLOW_BEHIND_IPV4) {
		if (frame->length <= IP)
			return false;
		offset += IP + (bytes[IP] & IPV4_WORDS_MASK) * 4u;
	}
	if (offset + match->bytes > frame->length)
		return false;
	*word = match->bytes == 4   ? word_at(bytes + offset)
		: match->bytes == 2 ? half_at(bytes + offset)
				    : bytes[offset];
	return true;
}

static bool holds(const struct flow_variant *variant, const struct flow_frame *frame)
{
	uint32_t word;

	for (uint32_t i = 0; i < variant->count; i++) {
		const struct flow_match *match = &variant->match[i];

		if (!load(match, frame, &word) || (word & match->mask) != match->value)
			return false;
	}
	return true;
}

bool flow_takes(const struct flow *flow, const struct flow_frame *frame)
{
	for (uint32_t i = 0; i < flow->variants; i++)
		if (holds(&flow->variant[i], frame))
			return true;
	return false;
}
