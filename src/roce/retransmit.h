/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retransmit - go-back-N when a requester's packets are not acknowledged: RTO, NAKs, RNR timer,
 * retries.
 *
 * In:  acknowledgements, NAKs that allow a retry, the passing of time.
 * Out: a send queue that goes on from una_psn (sendq_go_back); or the failure of the QP.
 *
 * Two timers run while packets are in flight:
 *
 * - The probe is the retransmission timeout (RTO) of TCP: a few measured round trips, with
 *   exponential backoff. It finds losses that no NAK tells of. Everything is sent anew, beginning
 *   with one packet; no retry is counted. If an acknowledgement shows that the probe was spurious,
 *   the window is restored.
 * - The transport timer is the local ACK timeout of the IBA (9.7.6.1.3), and much longer. Each time
 *   that it passes without progress counts against retry_cnt. It may take up to four times what the
 *   QP's attribute says; here it takes RETRANSMIT_TIMEOUTS times as long, as the responder may be a
 *   process that does not get a processor for a while.
 *
 * The transport timer runs only while the responder could have acknowledged: not before a packet
 * could leave, not during an RNR wait. A time-out that this process notices late does not count at
 * first: the acknowledgement may be in the socket, where no thread has looked yet.
 *
 * Callers hold the QP's lock unless said otherwise.
 */
#ifndef ROCE_RETRANSMIT_H
#define ROCE_RETRANSMIT_H

#include <stdint.h>

#include "roce/roce_qp.h"

#define RETRANSMIT_PROBE_FIRST_NS    5000000ull /* before a round trip was measured */
#define RETRANSMIT_PROBE_MIN_NS	     1000000ull
#define RETRANSMIT_PROBE_TRIPS	     8 /* shortest round trips that it waits at most, if that is more */
#define RETRANSMIT_PROBE_MAX_NS	     500000000ull
#define RETRANSMIT_PROBE_BACKOFF_MAX 7 /* doublings, for probes that were in vain */
#define RETRANSMIT_TIMEOUTS	     3
/* A shorter transport timer counts as this one: processes are scheduled, adapters are not. */
#define RETRANSMIT_TIMEOUT_MIN_NS 8000000ull
#define RETRANSMIT_LATE		  4 /* later than this part of the time-out */

/* The QP is about to start. */
void retransmit_start(struct roce_qp *tq);

/* A packet that requests an acknowledgement is about to leave: a round trip can be measured. */
void retransmit_on_ack_requested(struct roce_qp *tq, uint32_t psn, uint64_t now_ns);

/* Packets are in flight. */
void retransmit_on_sent(struct roce_qp *tq, uint64_t now_ns);

/* Nothing is in flight, although there are requests: the socket was full. */
void retransmit_on_held_up(struct roce_qp *tq);

/* una_psn moved on by `packets`. */
void retransmit_on_progress(struct roce_qp *tq, uint32_t packets, uint64_t now_ns);

/*
 * NAK (PSN sequence error): una_psn was lost. Goes back, unless that was just done for the same
 * loss.
 */
void retransmit_on_sequence_nak(struct roce_qp *tq);

/* A response is missing at una_psn; `psn` came instead. */
void retransmit_on_gap(struct roce_qp *tq, uint32_t psn);

/*
 * A response is missing at una_psn; instead, the responder told that it is in error. It may not be
 * able to repeat it, so going back for that counts as a try (retry_cnt): else, without a time-out,
 * there would be no end.
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
