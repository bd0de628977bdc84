/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Saved - saves one end of a connection as plain fields, and restores it in another process.
 *
 * In:  a connection; or fields from any source.
 * Out: the fields; or a connection in the same state.
 *
 * Pure. Messages under way may be lost; connection_resend repeats them.
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
	uint8_t is_xrc, awaits_ready, ack_timeout, is_active;
	struct ibcm_message sent;
};

void connection_save(const struct connection *c, struct connection_saved *saved);

/*
 * Restores into `c`, which is initialized with its local_id. Limits deadlines that are too far
 * away. False: no connection can have these fields, and `c` is unchanged.
 */
bool connection_restore(struct connection *c, const struct connection_saved *saved, int64_t now_ns);

#endif
