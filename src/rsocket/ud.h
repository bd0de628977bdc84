/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD - the UD QP of a datagram rsocket on one local address, with its buffers.
 *
 * In:  datagrams from peers' QPs. Out: datagrams to peers' QPs.
 *
 * The caller holds the rsocket's lock. Never sleeps, except in ud_get. A message without a valid
 * header is dropped, with a cause.
 */
#ifndef RSOCKET_UD_H
#define RSOCKET_UD_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "rsocket/datagram_state.h"
#include "rsocket/pieces.h"
#include "rsocket/protocol.h"

struct ud_end {
	struct list link;
	union socket_name local; /* with the port of the UDP socket */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	void *memory;
	size_t memory_bytes;
	struct ibv_mr *mr;
	uint8_t *send_slots, *receive_slots;
	struct ud_received *received; /* an entry for each receive slot */
	uint32_t posted, completed;   /* sends since the beginning */
	int gid_index;		      /* of the local address; -1: the port could not be queried */
	uint32_t mtu;		      /* bytes */
	struct ud_header header;      /* of all datagrams from here */
};

/* A datagram in d->arrived. */
struct ud_received {
	struct list link;
	struct ud_end *end;
	const struct ud_header *header;
	uint32_t length; /* without the header */
};

/*
 * Finds or creates the end on this local address: 0 or -errno; -ENODEV: no device has the address.
 * For a loopback address it waits for the CM.
 */
int ud_get(struct datagram *d, const union socket_name *local, struct ud_end **end)
	REQUIRES(d->lock);

/* Bytes of the longest datagram. */
uint32_t ud_max(const struct ud_end *end);

/* Whether the SQ has room. */
bool ud_can_send(const struct datagram *d, const struct ud_end *end);

/* Posts a datagram of `length` bytes, at most ud_max; ud_can_send is true. 0 or -errno. */
int ud_send(struct datagram *d, struct ud_end *end, struct ibv_ah *ah, uint32_t qpn,
	    struct pieces *pieces, uint32_t length) REQUIRES(d->lock);

/* Creates an AH for this address; NULL and errno, or NULL if the end has no GID. */
struct ibv_ah *ud_address(struct ud_end *end, const union socket_name *address);

/* Processes all completions that there are at all ends; true if there were any. */
bool ud_poll(struct datagram *d) REQUIRES(d->lock);

/* The sender of a datagram in d->arrived. */
void ud_sender(const struct ud_received *received, union socket_name *address);

/* Removes a datagram from d->arrived and posts its receive again. */
void ud_release(struct datagram *d, struct ud_received *received) REQUIRES(d->lock);

/* Arm the CQs of all ends, and take the events that they raised. */
void ud_arm(struct datagram *d) REQUIRES(d->lock);
void ud_disarm(struct datagram *d) REQUIRES(d->lock);

/* Whether all sends have completed. */
bool ud_all_done(const struct datagram *d) REQUIRES(d->lock);
void ud_free_all(struct datagram *d);

#endif
