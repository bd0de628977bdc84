/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Resolve - finds the QP of a peer by its address: the exchange over UDP, and its results.
 *
 * The caller holds the rsocket's lock. Never sleeps.
 */
#ifndef RSOCKET_RESOLVE_H
#define RSOCKET_RESOLVE_H

#include "rsocket/datagram.h"
#include "rsocket/ud.h"

struct peer {
	struct list link;   /* in the bucket */
	struct list recent; /* in d->peers */
	union socket_name address;
	struct ud_end *end; /* that talks to it */
	struct ibv_ah *ah;  /* NULL as long as `qpn` is unknown, or if there can be none */
	uint32_t qpn;
	uint64_t heard_ns; /* when it last told its QP, or sent something */
};

/* The peer at this address; -errno: there is no way to it. */
int resolve_get(struct datagram *d, const union socket_name *address, struct peer **peer)
	REQUIRES(d->lock);

/* Whether what is sent to it may go from QP to QP now. */
bool resolve_is_known(struct datagram *d, struct peer *peer) REQUIRES(d->lock);

/* Something came from this address. */
void resolve_heard(struct datagram *d, const union socket_name *address) REQUIRES(d->lock);

/* Sends over UDP, with what the peer needs to answer; the bytes of the payload, or -errno. */
ssize_t resolve_send(struct datagram *d, struct peer *peer, enum operation operation,
		     struct pieces *pieces, size_t length, bool nonblock) REQUIRES(d->lock);

/*
 * Takes messages from the UDP socket, answers and learns; stops at the first that holds a datagram:
 * that is d->udp_* then, and true is returned.
 */
bool resolve_poll(struct datagram *d) REQUIRES(d->lock);

/* The datagram in d->udp_buffer. */
const uint8_t *resolve_payload(const struct datagram *d, size_t *length);

void resolve_free_all(struct datagram *d);

#endif
