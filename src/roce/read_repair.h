/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Read repair - asks again for the responses that were lost, and keeps those behind them.
 *
 * In:  responses, acknowledgements and NAKs that came before their turn; time.
 * Out: requests for the missing responses alone, with packet.original set; the packets that were
 *      kept, one by one, when it is their turn; or the verdict that the requester has to go back.
 *
 * A READ that is executed anew would show newer memory than the later READs whose responses are
 * kept. So this holds:
 *
 *   What is kept, or accepted while anything is kept, was executed for the first time since the
 *   last going back: the responder says so by the bit, as it has a copy (execute/copies.h), or it
 *   was asked for once, and nothing behind it had come.
 *
 * A responder answers in the order in which it executes. So if a READ was executed once more behind
 * a later one, because the network brought its request twice, something behind it has come before,
 * or was lost. It follows that
 *
 * - what comes before `asked` or `seen` without the bit is refused, unless nothing is kept. If it
 *   was both asked for and overtaken, it is the answer of a responder that has no copies: then the
 *   requester drops what it has kept and goes back, and does so at once at the next losses, at
 *   twice as many after each repair in vain;
 * - no repair begins before `anew`, where responses were asked for without the bit by going back,
 *   or came without it though they had been asked for with it. What has the bit there is late, and
 *   refused once something there came without it;
 * - exactly what is missing is only asked for once the responder has shown that it has copies;
 * - a responder that sets the bit where it was not asked to sets it always: it is never trusted
 *   again on this connection.
 *
 * Callers hold the QP's lock, which guards all of it.
 */
#ifndef ROCE_READ_REPAIR_H
#define ROCE_READ_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/roce_qp.h"

/*
 * So many doublings of the RTO after going back a response with the bit is taken, late or not: a
 * responder that sets the bit at each repetition sends no other.
 */
#define READ_REPAIR_REFUSING_RTOS 4

enum read_repair_result {
	READ_REPAIR_GOES_ON, /* or there is none */
	READ_REPAIR_LATE,    /* nothing was lost, the responses were only late */
	READ_REPAIR_REFUSED, /* drop it: it may be of another execution, and will be asked for */
	READ_REPAIR_FAILED,  /* the requester has to go back */
};

/* The connection is new: nothing is known of the responder. */
void read_repair_start(struct roce_qp *tq);

/* una_psn is the PSN of a response that was lost; `packet` came instead. False: go back. */
bool read_repair_begin(struct roce_qp *tq, const struct packet *packet);

/* The same for a request at una_psn that was lost: a NAK says so. */
bool read_repair_on_nak(struct roce_qp *tq);

/*
 * Nothing came for some time. False: it was tried often enough, or cannot help, and the requester
 * should probe.
 */
bool read_repair_again(struct roce_qp *tq);
bool read_repair_is_possible(const struct roce_qp *tq);

/* A response came that is in flight, and is about to be executed or kept, if it may be. */
enum read_repair_result read_repair_on_response(struct roce_qp *tq, const struct packet *packet);

/* Whether read_repair_on_response has to look at it. */
static inline bool read_repair_concerns(const struct roce_qp *tq, const struct packet *packet)
{
	return packet->original || tq->read_repair.open ||
	       psn_before(packet->psn, tq->read_repair.asked) ||
	       psn_before(packet->psn, tq->read_repair.anew);
}

/* A response or acknowledgement before its turn. False: no repair is open. */
bool read_repair_keep(struct roce_qp *tq, const struct packet *packet);

/* A repair is open. The next packet whose turn it is, which the caller frees (kept_free); or NULL.
 */
struct kept_packet *read_repair_take(struct roce_qp *tq);

/*
 * New READs have to wait, until all responses are in that may be of another execution: while there
 * are any a loss makes the requester go back, and there would be as many again.
 */
static inline bool read_repair_holds(const struct roce_qp *tq)
{
	const struct read_repair *repair = &tq->read_repair;

	return !repair->skip && !repair->distrusted && psn_before(tq->una_psn, repair->anew) &&
	       !psn_before(tq->next_psn, repair->anew);
}

/* una_psn was `from`. */
void read_repair_on_progress(struct roce_qp *tq, psn_t from);

/* The requester is about to go back, or the QP leaves its connection. */
void read_repair_stop(struct roce_qp *tq);

/* Asks for what is pending. */
void read_repair_send(struct roce_qp *tq);

/* base/check.h */
void read_repair_check(const struct roce_qp *tq);

#endif
