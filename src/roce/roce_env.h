/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE environment - the transport's clock, sockets and addresses.
 *
 * The adapter, the simulator and the tests each have their own (roce_init). The transport uses no
 * other I/O and no other clock.
 */
#ifndef ROCE_ROCE_ENV_H
#define ROCE_ROCE_ENV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "udp/wire.h"

struct context;

/* Functions of the environment. */
struct roce_env {
	/* CLOCK_MONOTONIC in ns, or a simulator's. */
	uint64_t (*now)(void);
	/*
	 * Sends packets of one flow, in order; *sent: how many were sent. Called with the QP's
	 * lock. Never blocks.
	 */
	enum wire_result (*send)(const struct wire_flow *flow, const struct wire_packet *packets,
				 unsigned count, unsigned *sent);
	/* Packets of one `send` call leave as GSO batches. */
	bool (*sends_gso)(const struct wire_flow *flow);
	/*
	 * Fills *flow from the QP's or AH's address (attr->grh, sgid_index of the QP's device) and
	 * the QPN at the other end. 0, or an errno with a cause reported; EINPROGRESS: the
	 * address's port is not open, but has been asked for. Does not block.
	 */
	int (*resolve)(struct context *context, const struct ibv_ah_attr *attr, uint32_t remote_qpn,
		       struct wire_flow *flow);
	/* Fills *flow for an answer to a QP of the sender of an arrival. Does not block. */
	void (*answer)(const struct wire_flow *arrival, uint32_t remote_qpn,
		       struct wire_flow *flow);
	/* A timer was armed that is due before all others. */
	void (*deadline)(uint64_t ns);
	/* Calls visit for each QP of this process that is attached to the group. */
	void (*group_visit)(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg),
			    void *arg);
};

/* Set once, before the first QP. */
extern struct roce_env roce_env;

#endif
