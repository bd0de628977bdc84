/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmit - what a QP sends: requests of its SQ and responses, in turns, a message at a time.
 *
 * In:  posted requests, owed responses, room in the stream.
 * Out: FPDUs; finished requests.
 *
 * A SEND or WRITE is finished when the stream has its last byte (RFC 5040 3.1; so does siw): what
 * the stream has arrives even if the QP is destroyed, or the process ends. READs and atomics wait
 * for their responses (complete.h).
 *
 * Callers hold the QP's lock. Never waits. The QP may be in ERR afterwards.
 */
#ifndef IWARP_TRANSMIT_H
#define IWARP_TRANSMIT_H

#include "iwarp/iwarp_qp.h"

/* Sends what may go now, some 256 KiB at most: sending.yielded then. */
void transmit_run(struct iwarp_qp *iq);

/* The initiator's first FPDU (mpa_rtr). 0, -ENOMEM. */
int transmit_rtr(struct iwarp_qp *iq);

/* Nothing that was posted or is owed waits to be sent. */
bool transmit_is_idle(const struct iwarp_qp *iq);

#endif
