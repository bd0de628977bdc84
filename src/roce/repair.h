/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Repair - sends again only what was lost, to a responder that keeps what is behind a gap.
 *
 * In:  a NAK (PSN sequence error); acknowledgements after it.
 * Out: the first packets from una_psn on, once more; or the verdict that the responder has kept
 *      nothing, and the requester has to go back.
 *
 * The wire does not tell whether a responder keeps packets (packet/kept.h) or drops them, as the
 * IBA says. So the requester finds out. It sends a short run of packets again, and the next
 * acknowledgement or NAK tells: one that is beyond the run shows that the responder had the rest.
 * One that ends with the run shows that it had not, and the requester goes back. Then it goes back
 * at the next losses, too, at twice as many after each repair in vain. So a responder that drops
 * costs a round trip at its first loss, and soon nothing.
 *
 * The run has more than the missing packet: if that one is lost again, the next has a PSN that is
 * not higher than the last one that came, for which every responder sends another NAK. A NAK at
 * the end of a run doubles the next one: a burst of losses takes few round trips.
 *
 * What is sent again asks for gap reports (gap_report.c), by which a Verbatim tells of gaps behind
 * the first one. What they name is sent again at once, too, so all gaps are repaired in one round
 * trip. Nothing is retired by them: the gap becomes the first one in its turn, and if there is
 * a NAK for it so late that the packets should have come, they are lost again.
 *
 * Callers hold the QP's lock.
 */
#ifndef ROCE_REPAIR_H
#define ROCE_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "packet/kept.h"
#include "roce/roce_qp.h"

#define REPAIR_RUN	   2	    /* packets of the first run */
#define REPAIR_RUN_MAX	   32	    /* the requester goes back instead of sending a longer one */
#define REPAIR_REPORT_MAX  64	    /* packets of a reported gap, at once */
#define REPAIR_WAIT_MIN_NS 50000ull /* and two round trips, for the answer */
#define REPAIR_TRIES	   2	    /* by the timer, before a probe */
#define REPAIR_SKIP_MAX	   6	    /* at most 2^6 losses without a repair */

/* More is in flight than an end keeps: much behind the gap was dropped. */
bool repair_exceeds_kept(const struct roce_qp *tq);

/* una_psn was lost. False: the requester should go back. */
bool repair_begin(struct roce_qp *tq);

/*
 * The responder tells of this gap, behind una_psn. False: it was told before, or cannot be one, or
 * there is no room.
 */
bool repair_on_report(struct roce_qp *tq, const struct gap *gap);

/* una_psn was lost. True: it is on its way, since a report; a repair is open as after repair_begin.
 */
bool repair_on_reported(struct roce_qp *tq, uint64_t now_ns);

/* una_psn has advanced. */
void repair_on_progress(struct roce_qp *tq);

/*
 * Nothing came for some time: what was sent again is lost, or a NAK, if the responder is known to
 * keep packets. False: it was tried often enough, or cannot help, and the requester should probe.
 */
bool repair_again(struct roce_qp *tq);
bool repair_is_possible(const struct roce_qp *tq);

/*
 * It is open. An acknowledgement, a NAK or a response came, and una_psn is as it says. False: the
 * responder has kept nothing, and the requester should go back.
 */
bool repair_on_answer(struct roce_qp *tq, bool is_nak);

/* The requester goes back, or the QP leaves its connection. */
void repair_stop(struct roce_qp *tq);

/* The connection is new: nothing is known of the responder. */
void repair_start(struct roce_qp *tq);

/*
 * The congestion window, for packets in flight: how many of them may be on their way. During a
 * repair una_psn stands still, while what arrives behind it is kept. What this end keeps it has: as
 * many packets more may be in flight as are kept, up to what an end keeps. Of what the other end
 * keeps is known what is before the last gap that it reported. Else half a window more may be in
 * flight, as the first half has arrived by then.
 */
static inline uint32_t repair_window(const struct roce_qp *tq)
{
	uint32_t size = tq->window.size, most = kept_most(tq->mtu), half = size, arrived = 0;

	if (tq->read_repair.open && tq->read_repair.trusted && tq->read_repair.kept)
		arrived = tq->read_repair.kept->count;
	if (tq->repair.open && tq->repair.trusted) {
		uint32_t reported = (uint32_t)psn_diff(tq->repair.reported_to, tq->una_psn);

		half += size / 2;
		arrived = reported > arrived ? reported : arrived;
	}
	arrived = size + arrived < most ? size + arrived : most;
	return arrived > half ? arrived : half;
}

/* Sends what is pending. */
void repair_send(struct roce_qp *tq);

static inline bool repair_owes_reported(const struct roce_qp *tq)
{
	return tq->repair.reports_sent != tq->repair.reports;
}

/* Sends what was reported as missing. */
void repair_send_reported(struct roce_qp *tq);

/* base/check.h */
void repair_check(const struct roce_qp *tq);

#endif
