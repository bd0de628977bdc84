/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adapter - this process's software HCA: its slot, its arena, its peers.
 *
 * In:  contexts that are opened, QPs that choose a path.
 * Out: a path for each QP. The calls of threads that poll are in adapter/progress.h.
 *
 * There is one per process. The first ibv_open_device makes it, and it lasts until the process
 * ends, however often devices are closed. After fork() the child has none; the first device that it
 * opens makes a new one.
 */
#ifndef ADAPTER_ADAPTER_H
#define ADAPTER_ADAPTER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "iwarp/same_host.h"
#include "object/context.h"
#include "object/flow.h"
#include "object/mr.h"
#include "object/qp.h"

/*
 * Makes the adapter unless there is one. 0, or a positive errno with a cause reported (no daemon,
 * no slot left, no memory). Blocks while the daemon starts (CTL_CONNECT_MS).
 */
int adapter_start(void);

/* The context is open, or is about to close (adapter/contexts.h). */
void adapter_add_context(struct context *context);
void adapter_remove_context(struct context *context);

/* True in a child of the process that made the adapter: objects made before the fork are dead. */
bool adapter_is_foreign(const struct context *context);

uint32_t adapter_slot(void);   /* 1..SLOT_MAX */
uint64_t adapter_cookie(void); /* of the arena */

/* The path for a new QP of this type; NULL with errno EOPNOTSUPP if there is none. */
const struct qp_path *adapter_path(const struct context *context, enum ibv_qp_type type);

/*
 * Imports an MR of the process that made the context of `pd` (ibv_import_mr). `pd_number`: the PD's
 * number in that process. 0, or an errno with a cause: EINVAL (no such process, or MR), EOPNOTSUPP,
 * ENOMEM.
 */
int adapter_import_region(struct pd *pd, uint32_t pd_number, uint32_t handle, struct mr **mr);

/*
 * Finds the process of a peer that has told its place (iwarp/same_host.h), by verbatimd if need be:
 * false, with a cause, if there is no such process, or no link to it. Blocks for that exchange; no
 * locks.
 */
bool adapter_meet(const struct same_host_place *peer);

/* Gives a new RAW_PACKET QP its raw socket: 0, or an errno with a cause. */
int adapter_open_raw_socket(struct qp *qp);

/* A RAW_PACKET QP receives what the flow takes, or no longer. 0, or an errno with a cause. */
int adapter_attach_flow(struct qp *qp, struct flow *flow);
void adapter_detach_flow(struct qp *qp, struct flow *flow);

/*
 * The Ethernet address of another host's GID, or of the router: 0 or an errno. May block for a
 * second.
 */
int adapter_find_mac(struct context *context, const union ibv_gid *gid, uint8_t mac[6]);

/* The path to this GID is shared memory, not UDP: 1 or 0, or -errno with a cause. */
int adapter_stays_local(const union ibv_gid *gid);

/*
 * A QP is about to move to RTR with these attributes. Asks verbatimd for what the move needs, while
 * no lock is held: the UDP ports of a UD QP's device, the UDP port to another host, or the link to
 * a process of this host. If a port fails, the move reports it. If a link fails, only the QP's
 * first request is delayed; but with VERBATIM_SOCKET_DIR a link to another network namespace
 * decides on the path, and if verbatimd does not answer, the move fails with ETIMEDOUT. Blocks: for
 * ports as long as ctl_port, for a process BACKOFF_PEER_NS at most.
 */
void adapter_prepare(struct qp *qp, const struct ibv_qp_attr *attr, int attr_mask);

/*
 * Waits until the members of a group are known. Else the datagrams of a program that sends to the
 * group and ends at once would be lost. Blocks, BACKOFF_PEER_NS at most.
 */
void adapter_resolve_group(const union ibv_gid *group);

/* Multicast membership of this process's QPs: 0 or errno. The QP keeps no reference. */
int adapter_mcast_attach(struct qp *qp, const union ibv_gid *gid);
int adapter_mcast_detach(struct qp *qp, const union ibv_gid *gid);

#endif
