/*
 * Requester - posted work becomes packets.
 *
 * In:  the QP's send queue, from sq.issue on; what the window and the retries allow.
 * Out: request packets, or finished WQEs.
 *
 * Callers hold the QP's lock. Never waits: what may not leave now stays in the queue, and
 * requester_transmit is called again when that changes. One call sends at most a window, and of a UC QP
 * what its pace allows.
 *
 * A READ is asked for in pieces of the window: its responses are not acknowledged, so that this is
 * what governs how many of them are on the way.
 */
#ifndef ROCE_REQUESTER_H
#define ROCE_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/roce_qp.h"

#define REQUESTER_AGAIN_NS  100000 /* after the socket was full */
#define REQUESTER_ENOUGH    62	   /* packets that are worth a call: a GSO batch with a path MTU of 1024 */
#define REQUESTER_ACK_EVERY 16	   /* packets of a message, for each acknowledgement asked for */

/* A READ is asked for in so many pieces of the window, of at least so many packets. */
#define READ_PIECES    4
#define READ_PIECE_MIN 4

void requester_transmit(struct qp *qp);

/*
 * The request `seq` (sq.issue is behind it) failed. Its completion comes after those of all earlier
 * ones; then the QP fails. The text is reported with the cause.
 */
void requester_fail_wqe(struct qp *qp, uint32_t seq, enum ibv_wc_status status, enum cause cause,
		    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Makes completions, and the failure that waited for them. The QP may be in ERR afterwards. */
void requester_on_answer(struct qp *qp);

/* From `psn` on, which is on the way, everything is sent anew. */
void requester_go_back(struct qp *qp, uint32_t psn);

/* una_psn passed next_psn: what was sent before the requester went back did arrive. */
void requester_catch_up(struct qp *qp);

#endif
