/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Response - the packets that a responder owes: responses, and one NAK or coalesced
 * acknowledgement.
 *
 * In:  what responder.c found out.
 * Out: packets in a burst, in the order that a requester relies on; transmit.c sends it.
 *
 * Callers hold the QP's lock. Packets that the socket does not take stay owed until the QP's timer
 * fires. They are bounded, like the responder resources of an adapter: READs and atomics for which
 * max_dest_rd_atomic made room, as many duplicates of them, one NAK, one acknowledgement for all
 * requests before it.
 */
#ifndef ROCE_RESPONSE_H
#define ROCE_RESPONSE_H

#include "roce/roce_qp.h"

/*
 * Rings for max_dest_rd_atomic, at RTR or when it changes in SQD. 0 or ENOMEM with a cause: those
 * that are there stay.
 */
int response_make_room(struct roce_qp *tq);
void response_fini(struct roce_qp *tq);

/* One of them has no data, as that to a FLUSH. */
bool response_any_is_empty(const struct responses *responses);

/* Adds the response to a READ. The caller has checked that there is room (max_dest_rd_atomic). */
void response_add_read(struct responses *responses, struct roce_qp *tq,
		       const struct packet *request, uint32_t pd, uint32_t msn);
void response_add_atomic(struct responses *responses, struct roce_qp *tq,
			 const struct packet *request, uint64_t value, uint32_t msn);
/* The response to an ATOMIC WRITE or a FLUSH is that of a READ of length 0 (annex A19). */
void response_add_empty(struct responses *responses, struct roce_qp *tq,
			const struct packet *request, uint32_t msn);

/*
 * The same for a duplicate request. Nothing happens if its response is still owed. A READ is
 * executed anew, unless the request asks for the original and there is a copy of that.
 */
void response_repeat_read(struct roce_qp *tq, const struct packet *request, uint32_t pd);
void response_repeat_empty(struct roce_qp *tq, const struct packet *request);
void response_repeat_atomic(struct roce_qp *tq, const struct packet *request);

/* A NAK acknowledges all earlier requests. A NAK that ended the connection stays. */
void response_nak(struct roce_qp *tq, const struct nak *nak);

/* There is room for one more response, whatever max_dest_rd_atomic says. */
bool response_has_room(const struct responses *responses);

/* The responder owes more than an acknowledgement. */
bool response_owes_more(const struct roce_qp *tq);
bool response_is_owed(const struct roce_qp *tq);

/* The responder owes an acknowledgement, and nothing else. */
bool response_is_ack_only(const struct roce_qp *tq);

/* Makes the acknowledgement's packet, which the caller sends. It is no longer owed. */
void response_take_ack(struct roce_qp *tq, struct wire_packet *packet);

/* Gap reports (gap_report.c): the connection is new, or ends */
void gap_report_start(struct roce_qp *tq);

/* The expected request came. */
static inline void gap_report_on_request(struct roce_qp *tq, const struct packet *packet)
{
	tq->gap_reports.wanted |= packet->gap_report;
}

/* It was kept; `alone`: nothing else is. */
void gap_report_on_kept(struct roce_qp *tq, const struct packet *packet, bool alone);

static inline bool gap_report_is_owed(const struct roce_qp *tq)
{
	return tq->gap_reports.count != 0;
}

/* Those of gaps that are still open. What the socket does not take is not sent. */
void gap_report_send(struct roce_qp *tq);

struct burst;

/*
 * Fills the burst with responses, as far as it has room; at most *turn packets, which it reduces.
 * The responses count as sent, unless response_restore follows. A cause: the memory of the next
 * READ is not accessible.
 */
enum cause response_fill(struct roce_qp *tq, struct burst *burst, uint32_t *turn);

/* Adds the owed NAK, or else an acknowledgement, to the burst, which has room. */
void response_fill_ack(const struct roce_qp *tq, struct burst *burst);

static_assert((LIMIT_QP_RD_ATOM & (LIMIT_QP_RD_ATOM - 1)) == 0, "a full ring has no more entries");

/* The responses owed before a burst was filled, for when the socket does not take all of it. */
struct saved_responses {
	uint32_t head, tail;
	struct response entries[LIMIT_QP_RD_ATOM]; /* head to tail */
};

struct response_state {
	struct saved_responses responses, replays;
};

void response_save(const struct roce_qp *tq, struct response_state *state);

/*
 * Only the first `left` packets of the burst were sent. These must not stay owed: the requester may
 * send more READs as soon as it has them, and would find no room (check_resources).
 */
void response_restore(struct roce_qp *tq, const struct response_state *state, unsigned left);

/* Owes no response: the QP leaves its connection. */
void response_drop_all(struct roce_qp *tq);

/*
 * The memory of the next READ is no longer accessible: owes a NAK, and fails the QP. Or drops the
 * response to a duplicate, as if that came now: the requester may have the first response, and have
 * revoked the key after it.
 */
void response_fail_read(struct roce_qp *tq, enum cause cause);

/* base/check.h */
void response_check(const struct roce_qp *tq);

#endif
