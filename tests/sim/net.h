/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Net - a virtual clock, and a virtual network between the ends of one simulation.
 *
 * In:  packets from the transport (struct roce_env), which leave flattened and with their ICRC.
 * Out: packets to the transport, some of them late, twice, in another order, damaged, or never.
 *      Code of udp/ and packet/ rejects packets as for a receiving socket.
 *
 * The seed decides everything. One thread.
 */
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "object/context.h"
#include "random.h"
#include "udp/wire.h"

#define NET_NEVER UINT64_MAX

/* How bad the network is; chances in permille. */
struct net_weather {
	uint32_t loss, duplication, reordering, damage, lateness;
	uint32_t full;	      /* of a call of send: the socket takes only a part */
	uint32_t unreachable; /* of a call of send: no route for the rest of the packets */
	uint32_t marks;	      /* ECN: congestion experienced */
	uint32_t forgery; /* a packet of a connection comes once more, altered, from another host */
	uint64_t delay_ns, jitter_ns;
	bool v6;
	/*
	 * time of a router for each byte to a host; it marks packets that wait long, and drops
	 * those that wait longer. 0: no limit
	 */
	uint32_t byte_ns;
	bool gso_damaged; /* only the first packet of a GSO batch arrives */
};

/* Counted since net_start. */
struct net_counts {
	uint64_t sent, delivered, lost, damaged, duplicated, refused, undetected;
	uint64_t one_by_one; /* packets sent one by one because GSO batches do not arrive */
	uint64_t queued_marked, queued_lost;
};

extern struct net_counts net_counts;
extern bool net_verbose; /* a line per packet to standard output */

void net_start(const struct net_weather *weather, uint64_t seed);

/* Drops all packets under way, and frees the memory. */
void net_stop(void);

uint64_t net_now(void);
void net_advance(uint64_t to_ns);

/* When the next packet arrives; NET_NEVER. */
uint64_t net_next_ns(void);

/* Delivers what has arrived by now, `max` packets at most, then flushes the transport. */
void net_deliver(unsigned max);

/* The GID of an end, by which its packets are addressed. */
union ibv_gid net_gid(unsigned host);

/* Called for each packet that leaves, that is lost or damaged, and that is delivered. */
struct net_observer {
	void (*sent)(const uint8_t *bytes, uint32_t length);
	void (*lost)(uint32_t dest_qpn);
	void (*delivered)(const uint8_t *bytes, uint32_t length);
};
void net_observe(const struct net_observer *observer);

/* For an observer, of the packet that is sent or delivered: they are numbered as they are sent. */
uint64_t net_number(void);

/* For struct roce_env. */
enum wire_result net_send(const struct wire_flow *flow, const struct wire_packet *packets,
			  unsigned count, unsigned *sent);
bool net_sends_gso(const struct wire_flow *flow);
int net_resolve(struct context *context, const struct ibv_ah_attr *attr, uint32_t remote_qpn,
		struct wire_flow *flow);
void net_answer(const struct wire_flow *arrival, uint32_t remote_qpn, struct wire_flow *flow);

/* Packets come that did not pass through this network (the fuzzer's), marked ones among them. */
extern bool net_is_bypassed;

#endif
