/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Close - how a stream ends, and the QP with it: TERMINATE, half close, the peer's end.
 *
 * In:  errors of either end, the end of the stream, a QP that leaves RTS.
 * Out: a QP in ERR, its last FPDUs; env.shutdown, env.ended.
 *
 * See the table of states in docs/design/iwarp.md. Callers hold the QP's lock. Never waits.
 */
#ifndef IWARP_CLOSE_H
#define IWARP_CLOSE_H

#include <stdbool.h>

#include "base/cause.h"
#include "execute/verdict.h"
#include "iwarp/iwarp_qp.h"

/*
 * The peer's segment gets this verdict: TERMINATE, receive and event by the table of reactions. The
 * responses to earlier requests leave first, and nothing is received meanwhile (CONTRACT 15).
 */
void close_refuse(struct iwarp_qp *iq, enum verdict verdict, enum cause cause, bool tagged)
	REQUIRES(iq->qp->lock);

/* The same at once: a response cannot be sent. */
void close_refuse_now(struct iwarp_qp *iq, enum verdict verdict, enum cause cause, bool tagged)
	REQUIRES(iq->qp->lock);

/* The peer's bytes are no FPDUs of this stream: TERMINATE, and QP_FATAL. */
void close_on_bad_segment(struct iwarp_qp *iq, enum terminate terminate, enum cause cause)
	REQUIRES(iq->qp->lock);

/* A TERMINATE of the peer. */
void close_on_terminate(struct iwarp_qp *iq, const struct terminate_received *received)
	REQUIRES(iq->qp->lock);

/* Remembers what to name in the TERMINATE: the segment that is being received. */
void close_note_segment(struct iwarp_qp *iq);

/*
 * Looks at what the stream allows now: it broke (iq->lost); the peer has ended it and all is
 * answered; a QP that ends has sent the rest. Where each entry of the engine ends.
 */
void close_settle(struct iwarp_qp *iq);

/* struct qp_path: the QP enters ERR or RESET. */
void close_quiesce(struct iwarp_qp *iq);

/* The stream is given back at once. */
void close_end(struct iwarp_qp *iq, enum iwarp_end end);

#endif
