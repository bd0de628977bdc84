/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD - the QP of a datagram rsocket on one local address: its buffers, what it sends and receives.
 *
 * The caller holds the rsocket's lock. Never sleeps. A message that is no datagram of an rsocket is
 * dropped.
 */
#ifndef RSOCKET_UD_H
#define RSOCKET_UD_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "rsocket/datagram.h"

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
	struct ud_received *received; /* one a receive */
	uint32_t posted, completed;   /* sends */
	int gid_index;		      /* of the local address; -1: QPs cannot be addressed by it */
	uint32_t mtu;
	struct ud_header header; /* before what it sends */
};

/* In d->arrived. */
struct ud_received {
	struct list link;
	struct ud_end *end;
	const struct ud_header *header;
	uint32_t length; /* without the header */
};

/* The end on this local address, made if there is none; -errno: there is no device. */
int ud_get(struct datagram *d, const union socket_name *local, struct ud_end **end)
	REQUIRES(d->lock);

/* Longest datagram that goes through. */
uint32_t ud_max(const struct ud_end *end);

/* Whether something can be posted. */
bool ud_can_send(const struct datagram *d, const struct ud_end *end);

/* `length` bytes, at most ud_max; needs ud_can_send. -errno. */
int ud_send(struct datagram *d, struct ud_end *end, struct ibv_ah *ah, uint32_t qpn,
	    struct pieces *pieces, uint32_t length) REQUIRES(d->lock);

/* An address handle of this address; NULL: QPs there cannot be addressed. */
struct ibv_ah *ud_address(struct ud_end *end, const union socket_name *address);

/* Takes completions of all ends; true if there were any. */
bool ud_poll(struct datagram *d) REQUIRES(d->lock);

/* The sender of a datagram in d->arrived; its payload follows the header. */
void ud_sender(const struct ud_received *received, union socket_name *address);

/* A datagram has been read: its receive is posted again. */
void ud_release(struct datagram *d, struct ud_received *received) REQUIRES(d->lock);

void ud_arm(struct datagram *d) REQUIRES(d->lock);
void ud_disarm(struct datagram *d) REQUIRES(d->lock);
bool ud_all_done(const struct datagram *d) REQUIRES(d->lock);
void ud_free_all(struct datagram *d);

#endif
