/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accept - executes the DDP segments of the peer: its requests, and responses to ours.
 *
 * In:  input.segment, then its payload in pieces of any size, then the end of its FPDU.
 * Out: data in memory; completions; owed responses; the end of the connection.
 *
 * Checks come in the order of RFC 5041 7 and RFC 5040 7: versions, opcode and queue, MSN and MO,
 * the buffer. Callers hold the QP's lock. Never waits. False: the stream's FPDUs are of no interest
 * any more, or (accept_end) the next one has to wait.
 */
#ifndef IWARP_ACCEPT_H
#define IWARP_ACCEPT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "iwarp/iwarp_qp.h"

/* input.segment, ulpdu and payload are set. */
bool accept_begin(struct iwarp_qp *iq) REQUIRES(iq->qp->lock);

/* The next bytes of the payload, of which input.left are missing yet. */
bool accept_payload(struct iwarp_qp *iq, const uint8_t *bytes, uint32_t count)
	REQUIRES(iq->qp->lock);

/*
 * The memory of the next bytes of payload, if they can be received there: *piece, and the hazard of
 * its key, which the caller clears after the bytes came. NULL: they cannot. The payload's last word
 * is left out: it is stored after all others (tests/contract/README.md, rule 27).
 */
struct arena_hazard *accept_place(struct iwarp_qp *iq, struct iovec *piece);

/* The whole FPDU is there. False: see above; iq->revoking: call it again later. */
bool accept_end(struct iwarp_qp *iq) REQUIRES(iq->qp->lock);

#endif
