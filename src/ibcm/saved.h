/*
 * Saved - a connection's end as plain fields, that outlives whoever runs the protocol.
 *
 * In:  a connection; the fields, whoever wrote them.
 * Out: the fields; a connection that goes on from there.
 *
 * Pure. What a connection was told and had to tell is in its state; what was on the way to the other end
 * may be lost, as on any wire: connection_resend says it again.
 */
#ifndef IBCM_SAVED_H
#define IBCM_SAVED_H

#include "ibcm/connection.h"

struct connection_saved {
	uint32_t state; /* enum connection_state */
	uint32_t type;	/* of `sent` */
	uint32_t local_id, remote_id, local_qpn, remote_qpn;
	uint64_t transaction;
	int64_t deadline_ns, wait_ns;
	uint32_t tries_left;
	uint8_t is_xrc, has_mra, ack_timeout, is_active;
	struct ibcm_message sent;
};

void connection_save(const struct connection *c, struct connection_saved *saved);

/*
 * c is initialised, with its local_id. False: no connection can have these fields, and c is unchanged.
 * Deadlines that are too far away are brought nearer.
 */
bool connection_restore(struct connection *c, const struct connection_saved *saved, int64_t now_ns);

#endif
