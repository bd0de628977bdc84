/*
 * Ports - the UDP ports of this process: opened when they are needed, looked at by who makes
 * progress.
 *
 * In:  GIDs of this host that QPs use, groups that they are attached to.
 * Out: arrived packets, to the transport; the transport's packets, to the socket.
 *
 * A port is opened when the first connection with another host, the first datagram to one, or the
 * first UD QP that may receive (RTR) uses its address, and stays open for the life of the process:
 * a UD QP may be addressed by any GID of its device, so it opens all of them, but for the loopback
 * device's, which nobody reaches from elsewhere. A group's port lives from the first attachment to
 * the last detachment on its interface.
 *
 * Owner: any thread. Locks: ports_lock (opening and closing; inside qp->lock, and not held over
 * calls to verbatimd), and for each port a receive lock, only tried by those who look, outside of
 * qp->lock. Only opening, joining and leaving block, and only opening for verbatimd: never with a
 * QP's lock.
 */
#ifndef ADAPTER_PORTS_H
#define ADAPTER_PORTS_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "adapter/raw_sockets.h"
#include "ctl/client.h"
#include "object/context.h"
#include "udp/wire.h"

/* `arena`: where open ports are shown. 0 or -errno. */
int ports_init(struct ctl_client *ctl, void *arena);

/*
 * The port of an address of this host. `device` is the name for messages. 0, or an errno with a
 * cause: EADDRNOTAVAIL the address is gone, EADDRINUSE another program has the port, or what the
 * system or verbatimd answered. A failure is remembered for a second, and not reported again.
 */
int ports_open(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
	       struct wire_port **port);

/*
 * The same without blocking. EINPROGRESS: the progress thread asks verbatimd, and
 * shm_retry_on_peers tells when it has answered.
 */
int ports_look_up(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
		  struct wire_port **port);

/*
 * All addresses of the device, for a UD QP; and from now on all ports tell hop limits, which its
 * GRHs have. What does not succeed is reported, no more; if verbatimd is silent the rest is opened
 * when it answers.
 */
void ports_open_all(struct context *context);

/*
 * The progress thread's: asks what is wanted, without waiting, and tells when it is to be called
 * again, CLOCK_MONOTONIC ns; takes over an answer; and asks anew after another verbatimd was found.
 */
#define PORTS_NEVER UINT64_MAX
uint64_t ports_ask(uint64_t now_ns);
void ports_on_answer(const struct ctl_port_answer *answer);
void ports_ask_again(void);

/* A QP of this context is attached to a group, or detached: 0, or an errno with a cause. */
int ports_join(struct context *context, const union ibv_gid *group);
void ports_leave(struct context *context, const union ibv_gid *group);

extern _Atomic uint32_t ports_count;

/* False: no port is open, nor a packet socket; there is nothing to look at. */
static inline bool ports_any(void)
{
	return atomic_load_explicit(&ports_count, memory_order_acquire) != 0 || raw_sockets_any();
}

enum ports_look {
	PORTS_ALL,
	PORTS_BUSY_ONES, /* those where a packet came or left lately */
};

/*
 * Takes what arrived, a bounded number of packets, frames too. Returns how many; 0: none; -EBUSY:
 * another thread is at it. No lock may be held. The caller calls roce_flush if there were any.
 */
int ports_progress(uint64_t now_ns, enum ports_look which);

/*
 * All that has arrived by now has been taken when this returns, by this thread or by the one that was at it,
 * for which it waits. True: this thread took some; the caller calls roce_flush. No lock may be held.
 */
bool ports_catch_up(uint64_t now_ns);

/* struct roce_env's. */
enum wire_result ports_send(const struct wire_flow *flow, const struct wire_packet *packets,
			    unsigned count, unsigned *sent);
bool ports_sends_trains(const struct wire_flow *flow);

/* An epoll descriptor that is readable while any port, or packet socket, has packets. */
int ports_epoll(void);

/*
 * Whether packets make it readable: all but frames, which always do. Those that lie there already do when
 * this begins. False: it did not begin, for want of memory or by a limit of the system's (epoll(7)), and can
 * be tried again.
 */
bool ports_listen(bool on);

void ports_reset_after_fork(void);

#endif
