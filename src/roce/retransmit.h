/*
 * Retransmit - what a requester does when its packets are not answered: probes, goes back, gives up; and
 * what else waits for a moment.
 *
 * In:  answers, NAKs that allow another try, the passing of time.
 * Out: requests sent anew; or the failure of the QP.
 *
 * Two clocks run while something is on the way. The probe, a few measured round trips, finds losses
 * that no NAK tells of: everything is sent anew, beginning with one packet, and nothing is counted.
 * The transport timer of the IBA (9.7.6.1.3) is much longer; each time that it passes without any
 * progress counts against retry_cnt. It may take up to four times what the QP's attribute says, and
 * takes RETRANSMIT_TIMEOUTS: the responder may be a process that does not get a processor for a while,
 * and losses are found sooner anyway. It runs only while the responder might have answered: not before
 * a packet could leave, not while the responder wants to be left alone, and a time-out that is found
 * out of late does not count at first, as the answer may be waiting where nobody has looked.
 *
 * Only this file knows which deadlines a QP has. Callers hold the QP's lock unless said otherwise.
 */
#ifndef ROCE_RETRANSMIT_H
#define ROCE_RETRANSMIT_H

#include <stdint.h>

#include "roce/roce_qp.h"

#define RETRANSMIT_PROBE_FIRST_NS 5000000ull /* before a round trip was measured */
#define RETRANSMIT_PROBE_MIN_NS   1000000ull
#define RETRANSMIT_PROBE_TRIPS	  8 /* shortest round trips that it waits at most, if that is more */
#define RETRANSMIT_PROBE_MAX_NS   500000000ull
#define RETRANSMIT_PROBE_BACKOFF_MAX   7 /* doublings, for probes that were in vain */
#define RETRANSMIT_TIMEOUTS	  3
/* A shorter transport timer counts as this one: processes are scheduled, adapters are not. */
#define RETRANSMIT_TIMEOUT_MIN_NS 8000000ull
#define RETRANSMIT_LATE		  4 /* later than this part of the time-out */

/* The QP is about to start. */
void retransmit_start(struct roce_qp *tq);

/* A packet that asks for an answer is about to leave. */
void retransmit_on_ack_requested(struct roce_qp *tq, uint32_t psn, uint64_t now_ns);

/* Something is on the way. */
void retransmit_on_sent(struct roce_qp *tq, uint64_t now_ns);

/* Something should be on the way, and nothing is: the socket took none. */
void retransmit_on_held_up(struct roce_qp *tq);

/* una_psn moved on by `packets`. */
void retransmit_on_progress(struct roce_qp *tq, uint32_t packets, uint64_t now_ns);

/* The responder has not got una_psn, but what came behind it: goes back, unless it did just now. */
void retransmit_on_sequence_nak(struct roce_qp *tq);

/* A response is missing at una_psn; `psn` came instead. */
void retransmit_on_gap(struct roce_qp *tq, uint32_t psn);

/*
 * A response is missing at una_psn; instead, the responder told that it is in error. It may not be able
 * to repeat it, so going back for that counts as a try (retry_cnt): else, without a time-out, there
 * would be no end.
 */
void retransmit_on_refusal(struct roce_qp *tq);

/* The responder had no receive for the message at una_psn; `timer` is its RNR timer code. */
void retransmit_on_rnr_nak(struct roce_qp *tq, uint8_t timer);

/* The QP leaves its connection. */
void retransmit_stop(struct roce_qp *tq);

/* A timer of the QP fired. */
void retransmit_fire(struct roce_qp *tq, uint64_t now_ns);

#endif
