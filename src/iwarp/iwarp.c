/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/iwarp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "iwarp/close.h"
#include "iwarp/input.h"
#include "iwarp/iwarp_qp.h"
#include "iwarp/stage.h"
#include "iwarp/transmit.h"

#define MULPDU_MIN	    128
#define MULPDU_WITH_MARKERS 60000 /* a marker's pointer has 16 bits */

/* librdmacm agrees on the first, and does not see the second. */
static_assert(MPA_IRD_MAX == LIMIT_QP_RD_ATOM, "IRD of a connection, and of a QP");

struct iwarp_env iwarp_env;

void iwarp_init(const struct iwarp_env *env)
{
	iwarp_env = *env;
}

static void free_state(struct iwarp_qp *iq)
{
	stage_fini(&iq->stage);
	input_fini(&iq->input);
	free(iq->outstanding);
	free(iq->responses);
	free(iq);
}

static void free_path(struct qp *qp)
{
	struct iwarp_qp *iq = iwarp_of(qp);

	if (!iq)
		return;
	close_end(iq, IWARP_END_DISCONNECTED);
	free_state(iq);
	qp->path_data = NULL;
}

static uint16_t at_most(uint16_t value, uint16_t limit)
{
	return value < limit ? value : limit;
}

static struct iwarp_qp *make(struct qp *qp, void *stream, const struct iwarp_options *options)
{
	struct iwarp_qp *iq = calloc(1, sizeof(*iq));

	if (!iq)
		return NULL;
	iq->qp = qp;
	iq->stream = stream;
	iq->options = *options;
	iq->options.mpa.ird = at_most(options->mpa.ird, LIMIT_QP_RD_ATOM);
	iq->options.mpa.ord = at_most(options->mpa.ord, LIMIT_QP_RD_ATOM);
	if (options->mpa.sends_markers && options->mulpdu > MULPDU_WITH_MARKERS)
		iq->options.mulpdu = MULPDU_WITH_MARKERS;
	for (int i = 0; i < DDP_QUEUES; i++)
		iq->expected_msn[i] = 1;
	iq->sending.send_msn = iq->sending.request_msn = iq->sending.response_msn = 1;
	iq->sending.finish = qp->sq.head;
	iq->sending.gated = !options->mpa.initiator &&
			    (options->mpa.rtr != MPA_RTR_NONE || iwarp_may_be_early(&options->mpa));
	return iq;
}

static int make_rings(struct iwarp_qp *iq)
{
	const struct depth_ring outstanding = { .entry_bytes = sizeof(*iq->outstanding) };
	const struct depth_ring responses = { .entry_bytes = sizeof(*iq->responses) };
	uint32_t qpn = iq->qp->ib.qp_num;

	iq->outstanding_slots = depth_slots(iq->options.mpa.ord);
	iq->outstanding = depth_widen(&outstanding, iq->outstanding_slots, qpn);
	iq->response_slots = depth_slots(iq->options.mpa.ird);
	iq->responses = depth_widen(&responses, iq->response_slots, qpn);
	return iq->outstanding && iq->responses ? 0 : -ENOMEM;
}

static int prepare(struct iwarp_qp *iq, const void *early, size_t early_bytes)
{
	if (input_init(iq) || make_rings(iq) ||
	    (iq->options.mpa.initiator && iq->options.mpa.rtr != MPA_RTR_NONE && transmit_rtr(iq)))
		return ENOMEM;
	return input_add(&iq->input, early, early_bytes) ? 0 : EINVAL;
}

bool iwarp_is_held(const struct qp *qp)
{
	return qp_state(qp) == IBV_QPS_RTS && qp->path == &iwarp_path && !qp->path_data;
}

bool iwarp_may_attach(const struct qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);

	return qp->type == IBV_QPT_RC &&
	       (state == IBV_QPS_INIT || state == IBV_QPS_RTR || iwarp_is_held(qp));
}

void iwarp_hold(struct qp *qp)
{
	qp->path->destroy(qp);
	qp->path = &iwarp_path;
	qp->path_data = NULL;
	qp->failure = CAUSE_NONE;
	qp->flush_reported = false;
	qp_set_state(qp, IBV_QPS_RTS);
}

int iwarp_attach(struct qp *qp, void *stream, const struct iwarp_options *options,
		 const void *early, size_t early_bytes)
{
	struct iwarp_qp *iq;
	bool any = false;
	int error;

	if (!iwarp_may_attach(qp) || options->mulpdu < MULPDU_MIN ||
	    options->mulpdu > FPDU_ULPDU_MAX)
		return EINVAL;
	iq = make(qp, stream, options);
	if (!iq)
		return ENOMEM;
	error = prepare(iq, early, early_bytes);
	if (error) {
		free_state(iq);
		return error;
	}
	qp->path->destroy(qp);
	qp->path = &iwarp_path;
	qp->path_data = iq;
	iq->state = STREAM_OPEN;
	qp->attr.max_rd_atomic = (uint8_t)iq->options.mpa.ord;
	qp->attr.max_dest_rd_atomic = (uint8_t)iq->options.mpa.ird;
	qp->failure = CAUSE_NONE;
	qp->flush_reported = false;
	qp_set_state(qp, IBV_QPS_RTS);
	if (early_bytes)
		iwarp_on_readable(qp, &any);
	else if (qp->sq.issue == qp->sq.tail)
		iwarp_on_writable(qp);
	return 0;
}

static bool is_over(const struct iwarp_qp *iq)
{
	return !iq || iq->state == STREAM_ENDED || iq->state == STREAM_NONE;
}

/*
 * Sends what may go, then looks at what the stream allows. Where it takes nothing any more, as its
 * peer is gone, all that came before is read first: a READ whose response is here succeeds. If the
 * peer is not gone, and sends without end, that has a limit of time.
 */
static void go_on(struct iwarp_qp *iq)
{
	bool any;

	transmit_run(iq);
	if (iq->sending.broken && iq->state == STREAM_OPEN)
		iwarp_env.ending(iq->stream, false);
	if (iq->sending.broken && !(iwarp_is_receiving(iq) && input_run(iq, &any)) &&
	    !iq->revoking && !iq->refused.pending)
		iq->lost = true;
	close_settle(iq);
	CHECK(iwarp_check(iq->qp));
}

void iwarp_open_gate(struct qp *qp)
{
	struct iwarp_qp *iq = iwarp_of(qp);

	if (is_over(iq) || !iq->sending.gated || !iwarp_may_be_early(&iq->options.mpa))
		return;
	iq->sending.gated = false;
	go_on(iq);
}

enum iwarp_progress iwarp_on_readable(struct qp *qp, bool *any)
{
	struct iwarp_qp *iq = iwarp_of(qp);
	bool more;

	*any = false;
	if (is_over(iq))
		return IWARP_OVER;
	more = iwarp_is_receiving(iq) ? input_run(iq, any) : input_discard(iq, any);
	go_on(iq);
	return is_over(iq) ? IWARP_OVER : more ? IWARP_MORE : IWARP_IDLE;
}

void iwarp_on_writable(struct qp *qp)
{
	struct iwarp_qp *iq = iwarp_of(qp);

	if (is_over(iq))
		return;
	iq->sending.blocked = iq->sending.yielded = false;
	go_on(iq);
}

void iwarp_give_up(struct qp *qp)
{
	struct iwarp_qp *iq = iwarp_of(qp);

	if (is_over(iq))
		return;
	iq->lost = true;
	close_settle(iq);
	CHECK(iwarp_check(qp));
}

bool iwarp_wants_room(const struct qp *qp)
{
	const struct iwarp_qp *iq = iwarp_of(qp);

	return !is_over(iq) && (iq->sending.blocked || iq->sending.yielded);
}

void iwarp_disconnect(struct qp *qp)
{
	struct iwarp_qp *iq = iwarp_of(qp);

	if (iwarp_is_held(qp))
		qp_enter_error(qp, CAUSE_NONE);
	if (is_over(iq) || iq->state != STREAM_OPEN)
		return;
	iq->state = STREAM_CLOSING;
	iwarp_env.ending(iq->stream, false);
	go_on(iq);
}

enum iwarp_end iwarp_end_of(const struct qp *qp)
{
	const struct iwarp_qp *iq = iwarp_of(qp);

	return iq && iq->state == STREAM_ENDED ? (enum iwarp_end)iq->end : IWARP_END_NONE;
}

/* A QP may go to RTR by ibv_modify_qp, as with siw; only iwarp_attach connects it. */
static int connect(struct qp *qp)
{
	return 0;
}

static void issue(struct qp *qp) REQUIRES(qp->lock)
{
	struct iwarp_qp *iq = iwarp_of(qp);

	if (is_over(iq))
		return;
	go_on(iq);
}

static void quiesce(struct qp *qp)
{
	struct iwarp_qp *iq = iwarp_of(qp);

	if (iq)
		close_quiesce(iq);
}

const struct qp_path iwarp_path = {
	.connect = connect,
	.issue = issue,
	.quiesce = quiesce,
	.destroy = free_path,
	.close = iwarp_disconnect,
};

#ifdef VERBATIM_CHECK
/*
 * - at most ORD requests, or the RTR, are outstanding, at most IRD responses are owed;
 * - outstanding requests are in the order of the SQ, and were issued;
 * - a message is under way only while something is to be sent;
 * - what is staged is within its buffer, and so is what was read;
 * - a stream that has ended has a reason.
 */
void iwarp_check(const struct qp *qp)
{
	const struct iwarp_qp *iq = iwarp_of(qp);
	uint32_t qpn = qp->ib.qp_num;
	const struct outstanding *before = NULL;

	if (!iq)
		return;
	INVARIANT(iwarp_outstanding(iq) <= depth_of((uint8_t)iq->options.mpa.ord) &&
			  iwarp_owed(iq) <= iq->options.mpa.ird,
		  "QP 0x%06x: %u outstanding, ORD %u; %u owed, IRD %u", qpn, iwarp_outstanding(iq),
		  iq->options.mpa.ord, iwarp_owed(iq), iq->options.mpa.ird);
	for (uint32_t i = iq->outstanding_head; i != iq->outstanding_tail; i++) {
		const struct outstanding *one = outstanding_at(iq, i);

		INVARIANT(one->is_rtr || ((int32_t)(one->seq - qp->sq.head) >= 0 &&
					  (int32_t)(qp->sq.issue - one->seq) > 0),
			  "QP 0x%06x: request %u, head %u, issue %u", qpn, one->seq, qp->sq.head,
			  qp->sq.issue);
		INVARIANT(one->received <= one->length &&
				  (!before || (int32_t)(one->msn - before->msn) > 0),
			  "QP 0x%06x: MSN %u, %u of %u bytes", qpn, one->msn, one->received,
			  one->length);
		before = one;
	}
	INVARIANT(!iq->sending.in_message || iwarp_owed(iq) || qp->sq.issue != qp->sq.tail,
		  "QP 0x%06x: a message of nothing", qpn);
	INVARIANT(iq->stage.head <= iq->stage.tail && iq->stage.tail <= iq->stage.room &&
			  iq->input.start <= iq->input.end && iq->input.end <= INPUT_BYTES,
		  "QP 0x%06x: staged %zu to %zu of %zu, read %u to %u", qpn, iq->stage.head,
		  iq->stage.tail, iq->stage.room, iq->input.start, iq->input.end);
	INVARIANT(iq->state != STREAM_ENDED || iq->end, "QP 0x%06x: no reason", qpn);
}
#endif
