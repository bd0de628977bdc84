/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retransmit - selective repeat (repair.h) or go-back-N when a requester's packets are not
 * acknowledged: RTO, NAKs, RNR timer, retries.
 *
 * In:  acknowledgements, NAKs that allow a retry, time.
 * Out: a send queue that continues from una_psn (sendq_go_back); or a failed QP.
 *
 * Two timers run while packets are in flight:
 *
 * - The probe is the retransmission timeout (RTO) of TCP: a few measured round trips, with
 *   exponential backoff. It finds losses that no NAK reports. The requester sends everything again,
 *   beginning with one packet; no retry is counted. If an acknowledgement of more than that packet
 *   shows that the probe was spurious, the window is restored (half of it: RETRANSMIT_SLOW), and
 *   what was in flight counts as in flight again: it has arrived, or its loss will be noticed.
 * - The transport timer is the local ACK timeout of the IBA (9.7.6.1.3), and much longer. Each
 *   expiry without progress counts against retry_cnt. The IBA allows up to four times the QP's
 *   attribute; here it is RETRANSMIT_TIMEOUTS times as long, as the responder may be a process that
 *   waits for a processor.
 *
 * The transport timer runs only while the responder can acknowledge: not before a packet was sent,
 * not during an RNR wait. If this process notices a time-out late, the first such time-out does not
 * count: the acknowledgement may be in the socket already.
 *
 * Callers hold the QP's lock unless said otherwise.
 */
#ifndef ROCE_RETRANSMIT_H
#define ROCE_RETRANSMIT_H

#include <stdint.h>

#include "roce/roce_qp.h"

#define RETRANSMIT_PROBE_FIRST_NS    5000000ull /* before a round trip was measured */
#define RETRANSMIT_PROBE_MIN_NS	     1000000ull
#define RETRANSMIT_PROBE_TRIPS	     8 /* at most so many shortest round trips, if that is longer */
#define RETRANSMIT_PROBE_MAX_NS	     500000000ull
#define RETRANSMIT_PROBE_BACKOFF_MAX 7 /* doublings, after probes without progress */
#define RETRANSMIT_TIMEOUTS	     3
/* A shorter transport timer counts as this one: processes are scheduled, adapters are not. */
#define RETRANSMIT_TIMEOUT_MIN_NS 8000000ull
#define RETRANSMIT_LATE		  4		 /* late: by more than 1/4 of the time-out */
#define RETRANSMIT_RECENT_NS	  10000000000ull /* an interval of shortest round trips */
#define RETRANSMIT_SLOW		  4		 /* silence of 1/4 of it: the window is halved */

/* The QP is about to start. */
void retransmit_start(struct roce_qp *tq);

/* A packet that requests an acknowledgement is about to leave: a round trip can be measured. */
void retransmit_on_ack_requested(struct roce_qp *tq, psn_t psn, uint64_t now_ns);

/* Packets are in flight. */
void retransmit_on_sent(struct roce_qp *tq, uint64_t now_ns);

/* The socket was full: nothing is in flight, although there are requests. */
void retransmit_on_held_up(struct roce_qp *tq);

/* una_psn has advanced by `packets`. */
void retransmit_on_progress(struct roce_qp *tq, uint32_t packets, uint64_t now_ns);

/* During a repair: an acknowledgement, a NAK or a response came, and una_psn is as it says. */
void retransmit_on_answer(struct roce_qp *tq, bool is_nak);

/*
 * NAK (PSN sequence error): una_psn was lost. Repairs, or goes back, unless it has just done so for
 * the same loss.
 */
void retransmit_on_sequence_nak(struct roce_qp *tq);

/* The responder tells of a gap behind una_psn (gap_report.c). */
void retransmit_on_gap_report(struct roce_qp *tq, const struct packet *packet);

/*
 * A response came that was asked for again, or during a repair of responses: what it says of the
 * responder may make the requester go back. False: drop it.
 */
bool retransmit_on_response(struct roce_qp *tq, const struct packet *packet);

/*
 * A response is missing at una_psn; `packet` came instead. It is kept, or the requester goes back.
 */
void retransmit_on_gap(struct roce_qp *tq, const struct packet *packet);

/*
 * A response is missing at una_psn; instead, a NAK for a later request came. The responder may not
 * be able to repeat the response, so going back counts as a retry (retry_cnt): without a time-out
 * there would be no end otherwise.
 */
void retransmit_on_refusal(struct roce_qp *tq);

/* The responder had no receive for the message at una_psn; `timer` is its RNR timer code. */
void retransmit_on_rnr_nak(struct roce_qp *tq, uint8_t timer);

/* The QP leaves its connection. */
void retransmit_stop(struct roce_qp *tq);

/* A timer of the QP fired. */
void retransmit_fire(struct roce_qp *tq, uint64_t now_ns);

/* base/check.h */
void retransmit_check(const struct roce_qp *tq);

#endif
