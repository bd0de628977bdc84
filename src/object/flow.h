/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow - chooses the Ethernet frames that a RAW_PACKET QP receives: ibv_create_flow(3).
 *
 * In:  the program's list of specs.
 * Out: comparisons with words of a frame, all of which have to hold.
 *
 * raw/filter.h compiles the comparisons to a filter of the kernel. flow_takes repeats them for each
 * frame, because frames that were queued before a change of the filter still arrive.
 *
 * A flow belongs to its QP, whose lock guards the list of flows.
 */
#ifndef OBJECT_FLOW_H
#define OBJECT_FLOW_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "object/counters.h"
#include "object/live_object.h"

#define FLOW_MATCHES_MAX  32
#define FLOW_VARIANTS_MAX 2
#define FLOW_MAC_BYTES	  6

enum flow_place {
	FLOW_FRAME,	  /* at `offset` of the frame */
	FLOW_BEHIND_IPV4, /* at `offset` after the IPv4 header, whose length varies */
	FLOW_VLAN,	  /* the VLAN tag, which the kernel has stripped from the frame */
};

/* (word & mask) == value, in host order. */
struct flow_match {
	uint8_t place; /* enum flow_place */
	uint8_t bytes; /* 1, 2 or 4 */
	uint16_t offset;
	uint32_t mask, value;
};

/* A flow with ports and without IP spec has two variants, for IPv4 and IPv6. */
struct flow_variant {
	uint32_t count;
	struct flow_match match[FLOW_MATCHES_MAX];
};

/* The addresses that the interface has to receive for a flow, beside its own. */
enum flow_wish {
	FLOW_NO_WISH,
	FLOW_ADDRESS, /* frames to `mac`, unicast or multicast */
	FLOW_GROUPS,  /* all multicast frames */
	FLOW_ALL,
};

struct flow {
	struct ibv_flow ib;
	struct qp *qp;
	struct list link;	   /* in the QP's list, lowest `priority` first */
	struct counters *counters; /* or NULL; counts this flow in counters->flows */
	uint16_t priority;
	bool sniffer; /* takes frames that this host sends, too */
	uint8_t wish; /* enum flow_wish */
	uint8_t mac[FLOW_MAC_BYTES];
	uint32_t variants;
	struct flow_variant variant[FLOW_VARIANTS_MAX];
	struct live_object live;
};

static inline struct flow *flow_of(struct ibv_flow *ib)
{
	return (struct flow *)ib;
}

/* A received frame, without its VLAN tag. */
struct flow_frame {
	const uint8_t *bytes;
	size_t length;
	bool has_vlan;
	uint16_t vlan; /* the TCI: priority 3 bits, DEI 1, VLAN ID 12 */
};

/*
 * Creates the flow that `attr` describes, in no list yet: 0, -EINVAL (port, sizes), -EOPNOTSUPP
 * (specs and actions that are not implemented), -ENOMEM, with a cause reported.
 */
int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **flow);
void flow_free(struct flow *flow);

bool flow_takes(const struct flow *flow, const struct flow_frame *frame);

#endif
