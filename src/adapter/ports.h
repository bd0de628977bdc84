/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports - the UDP ports of this process as a source of progress, and their groups.
 *
 * In:  groups that QPs are attached to; the transport's packets.
 * Out: arrived packets, to the transport; the transport's packets, to the socket.
 *
 * A group's port lives from the first attachment on its interface to the last detachment, or until
 * the interface is made anew.
 *
 * Any thread. Locks: each port's receive lock, outside of qp->lock; a look only tries it.
 */
#ifndef ADAPTER_PORTS_H
#define ADAPTER_PORTS_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "adapter/port_table.h"
#include "adapter/raw_sockets.h"
#include "ctl/client.h"
#include "tcp/streams.h"
#include "udp/wire.h"

struct device;

/* `arena`: where open ports are shown. 0 or -errno. */
int ports_init(struct ctl_client *ctl, void *arena);

/* The interface to join groups on, now; 0: none, all members are on this host. */
uint32_t ports_group_interface(struct device *device);
/*
 * A QP of this device is attached to a group, or detached: 0, or an errno with a cause. A group is
 * left on the interface that it was joined on.
 */
int ports_join(struct device *device, uint32_t ifindex, const union ibv_gid *group);
void ports_leave(uint32_t ifindex, const union ibv_gid *group);

/*
 * Progress thread: interfaces have `changed`, and devices know it. One that was made anew has
 * another index: its groups are joined there, and what is sent to groups leaves there. False: some
 * could not be joined; the caller calls again after a while. A call without a change reports no
 * failure, as the one before has.
 */
bool ports_follow_interfaces(bool changed);

/* False: no port is open, nor a packet socket, nor a stream; there is nothing to look at. */
static inline bool ports_any(void)
{
	return atomic_load_explicit(&port_table_count, memory_order_acquire) != 0 ||
	       raw_sockets_any() || streams_any();
}

enum ports_look {
	PORTS_ALL,
	PORTS_BUSY_ONES, /* those where a packet came or left lately */
};

/*
 * Takes a bounded number of arrived packets, frames, and bytes of streams. Returns how many; 0:
 * none; -EBUSY: another thread is at the ports. No lock may be held. The caller calls roce_flush if
 * there were any.
 */
int ports_progress(uint64_t now_ns, enum ports_look which);

/*
 * Takes all that has arrived at the time of the call. If another thread is at a port, waits until
 * that one has taken it. True: this thread took some; the caller calls roce_flush. No lock may be
 * held.
 */
bool ports_catch_up(uint64_t now_ns);

/* struct roce_env's. */
enum wire_result ports_send(const struct wire_flow *flow, const struct wire_packet *packets,
			    unsigned count, unsigned *sent);
bool ports_sends_gso(const struct wire_flow *flow);

void ports_reset_after_fork(void);

#endif
