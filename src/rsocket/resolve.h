/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Resolve - finds the QP of a peer by its address, with messages over UDP, and remembers it.
 *
 * In:  messages of the UDP socket. Out: answers there; peers with AH and QP number.
 *
 * The caller holds the rsocket's lock. Never sleeps.
 */
#ifndef RSOCKET_RESOLVE_H
#define RSOCKET_RESOLVE_H

#include "rsocket/datagram_state.h"
#include "rsocket/pieces.h"
#include "rsocket/protocol.h"
#include "rsocket/ud.h"

struct peer {
	struct list link;   /* in the bucket */
	struct list recent; /* in d->peers */
	union socket_name address;
	struct ud_end *end; /* the local QP that sends to the peer */
	struct ibv_ah *ah;  /* NULL while `qpn` is unknown, or if no GID leads to the peer */
	uint32_t qpn;
	uint64_t heard_ns; /* when the peer last told its QP, or sent a datagram */
};

/* Finds the peer at this address or adds it: 0, or -errno if there is no route or no device. */
int resolve_get(struct datagram *d, const union socket_name *address, struct peer **peer)
	REQUIRES(d->lock);

/*
 * Whether the next datagram may go to the peer's QP. At most once a second it returns false to ask
 * anew.
 */
bool resolve_is_known(struct datagram *d, struct peer *peer) REQUIRES(d->lock);

/* Notes that a datagram came from this address. */
void resolve_heard(struct datagram *d, const union socket_name *address) REQUIRES(d->lock);

/* Sends over UDP, with the local QP's number. Returns the bytes of the payload, or -errno. */
ssize_t resolve_send(struct datagram *d, struct peer *peer, enum operation operation,
		     struct pieces *pieces, size_t length, bool nonblock) REQUIRES(d->lock);

/*
 * Reads messages from the UDP socket, learns the peers' QPs and answers. Stops at the first message
 * that carries a datagram, leaves it in d->udp_*, and returns true.
 */
bool resolve_poll(struct datagram *d) REQUIRES(d->lock);

/* The payload of the datagram in d->udp_buffer, and its bytes. */
const uint8_t *resolve_payload(const struct datagram *d, size_t *length);

void resolve_free_all(struct datagram *d);

#endif
