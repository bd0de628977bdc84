/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow - which Ethernet frames a RAW_PACKET QP receives: ibv_create_flow(3).
 *
 * In:  the program's list of specs.
 * Out: comparisons with words of a frame, all of which have to hold. They are what the kernel's filter
 *      is made of (raw/filter.h), and what each frame is judged by once more (flow_takes), since those
 *      that were queued before a filter changed come after it.
 *
 * A flow belongs to its QP, whose lock guards the list of them.
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
	FLOW_BEHIND_IPV4, /* at `offset` behind the IPv4 header, whose length the frame tells */
	FLOW_VLAN,	  /* the VLAN tag, which the kernel has taken out of the frame */
};

/* (word & mask) == value, in host order. */
struct flow_match {
	uint8_t place; /* enum flow_place */
	uint8_t bytes; /* 1, 2 or 4 */
	uint16_t offset;
	uint32_t mask, value;
};

/* Ports without IP addresses are those of IPv4 or IPv6: two variants of one flow. */
struct flow_variant {
	uint32_t count;
	struct flow_match match[FLOW_MATCHES_MAX];
};

/* What the interface has to let in for it, beside what it takes anyway. */
enum flow_wish {
	FLOW_NO_WISH,
	FLOW_ADDRESS, /* frames to `mac`, of one station or of a group */
	FLOW_GROUPS,  /* those to all groups */
	FLOW_ALL,
};

struct flow {
	struct ibv_flow ib;
	struct qp *qp;
	struct list link;	   /* in the QP's list, the lowest number in `priority` first */
	struct counters *counters; /* or NULL; counted there as a flow */
	uint16_t priority;
	bool sniffer;		   /* frames that this host sends, too */
	uint8_t wish;		   /* enum flow_wish */
	uint8_t mac[FLOW_MAC_BYTES];
	uint32_t variants;
	struct flow_variant variant[FLOW_VARIANTS_MAX];
	struct live_object live;
};

static inline struct flow *flow_of(struct ibv_flow *ib)
{
	return (struct flow *)ib;
}

/* An arrived frame, without the VLAN tag. */
struct flow_frame {
	const uint8_t *bytes;
	size_t length;
	bool has_vlan;
	uint16_t vlan; /* priority 3, DEI 1, number 12 bits */
};

/*
 * What `attr` describes, not yet attached to anything: 0, or with a cause reported -EINVAL (port, sizes),
 * -EOPNOTSUPP (specs and actions that a filter of frames cannot have), -ENOMEM.
 */
int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **flow);
void flow_free(struct flow *flow);

bool flow_takes(const struct flow *flow, const struct flow_frame *frame);

#endif
