/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transport - the IB transport between hosts: struct qp_path for RC, UC and XRC, and
 * datagrams.
 *
 * A library without I/O, clock or thread: packets come in as arguments, packets and the next
 * deadline go out through struct roce_env, which also tells the time. So the adapter puts it
 * on sockets, a simulator on a virtual clock, and a fuzzer feeds it.
 *
 * The way of a request down: roce.c (struct qp_path) -> requester.c (posted work becomes packets;
 * request.c: what these say, payload.c: their data) -> transmit.c (merges them with acknowledgements and
 * sends bursts; gso.c, burst.c) -> struct roce_env. What comes back: completer.c -> retransmit.c (losses,
 * RTO, RNR) -> sendq.c (go-back-N, order of completions). What peers ask: responder.c (refusal.c: syndromes) ->
 * response.c (responses and NAKs owed) -> transmit.c. How much is on the way: window.c (congestion window),
 * base/pace.h, congestion.c (CNPs, and the pace of responses). Time: timer.c, qp_timer.c, flush_list.c.
 * UD: datagram.c. Calls go down only, but for qp_fail, which comes back through struct qp_path.
 *
 * Threads: a QP's state is only touched with its lock, which each function takes that is not given a
 * QP. A thread that received for QPs remembers them by number until its roce_flush; they may be
 * destroyed meanwhile, and are not found then. Within a QP's lock only those of bursts (pool) and
 * timers are taken, for a few instructions each, and whatever roce_env needs. A key is published
 * (memory/hazard.h) only from the moment that a packet points to its memory until env.send returns, so
 * that its deregistration waits for no peer.
 */
#ifndef ROCE_ROCE_H
#define ROCE_ROCE_H

#include <stdbool.h>
#include <stdint.h>

#include "object/qp.h"
#include "udp/wire.h"

/* No timer is armed. */
#define TRANSPORT_NEVER UINT64_MAX

/* What the transport needs of its surroundings. Set once, before the first QP. */
struct roce_env {
	/* CLOCK_MONOTONIC in ns, or a simulator's. */
	uint64_t (*now)(void);
	/*
	 * Sends packets of one flow, in order; *sent tells how many left. Called with the QP's lock.
	 * Never blocks.
	 */
	enum wire_result (*send)(const struct wire_flow *flow, const struct wire_packet *packets,
				 unsigned count, unsigned *sent);
	/* Packets that `send` gets at once arrive at once, if the network leaves them together. */
	bool (*sends_gso)(const struct wire_flow *flow);
	/*
	 * Fills *flow from the QP's or AH's address (attr->grh, sgid_index of the QP's device) and the QPN
	 * at the other end. 0, or an errno with a cause reported; EINPROGRESS: the address's port is not open,
	 * but has been asked for. Does not block.
	 */
	int (*resolve)(struct context *context, const struct ibv_ah_attr *attr, uint32_t remote_qpn,
		       struct wire_flow *flow);
	/* A timer was armed that is due before all others. */
	void (*deadline)(uint64_t ns);
	/* Calls visit for each QP of this process that is attached to the group. */
	void (*group_visit)(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg),
			    void *arg);
};

void roce_init(const struct roce_env *env);
void roce_reset_after_fork(void);

extern const struct qp_path roce_path; /* RC, UC, XRC */

/*
 * A packet came. Any thread, without locks held; packets of one QP in the order of the wire.
 * Whatever is in it, the worst that follows is that it is dropped. The caller calls
 * roce_flush afterwards.
 */
void roce_receive(const struct wire_arrival *arrival);

/*
 * Sends what roce_receive put off so that it is sent once a burst: acknowledgements, and what
 * the window now lets go. The same thread, without locks.
 */
void roce_flush(void);

/* True: requests that this thread posted wait for its next roce_flush, or for an acknowledgement. */
bool roce_owes(void);

/*
 * The same, but acknowledgements wait until this thread posts to their QP, or for its next
 * roce_flush, so that what the program does about the data that came goes first. True: some do.
 * It should not be long; a timer sends them otherwise, some 100 us after `now_ns`.
 */
bool roce_flush_urgent(uint64_t now_ns);

/* When the next timer is due, CLOCK_MONOTONIC ns, or TRANSPORT_NEVER. Any thread, no lock. */
uint64_t roce_deadline_ns(void);

/* Runs what is due. No lock of a QP may be held. */
void roce_run(uint64_t now_ns);

/*
 * Sends the datagram of a UD QP, whose lock is held; multicast too. WIRE_SENT also if it was lost on
 * the way out; WIRE_FULL, WIRE_NO_PORT: try again later; WIRE_FAULT: *cause tells (L_Key, memory, too long).
 */
enum wire_result roce_send_datagram(struct qp *qp, struct wqe *wqe, enum cause *cause);

#endif
