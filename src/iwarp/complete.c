/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/complete.h"

#include "iwarp/bytes.h"
#include "memory/memory.h"

static struct outstanding *oldest(const struct iwarp_qp *iq)
{
	if (!iwarp_outstanding(iq))
		return NULL;
	return outstanding_at(iq, iq->outstanding_head);
}

const struct wqe *complete_responding(struct iwarp_qp *iq)
{
	const struct outstanding *outstanding = oldest(iq);

	return outstanding && !outstanding->is_rtr ? sq_wqe(&iq->qp->sq, outstanding->seq) : NULL;
}

uint32_t complete_offset(const struct iwarp_qp *iq)
{
	return oldest(iq)->received;
}

enum terminate complete_check_response(const struct iwarp_qp *iq)
{
	const struct input *input = &iq->input;
	const struct outstanding *outstanding = oldest(iq);
	uint32_t left;

	if (!outstanding || outstanding->is_atomic || input->segment.stag != outstanding->stag)
		return TERMINATE_DDP_STAG;
	left = outstanding->length - outstanding->received;
	if (input->segment.to != outstanding->to + outstanding->received || input->payload > left ||
	    (input->segment.last && input->payload != left))
		return TERMINATE_DDP_BOUNDS;
	return TERMINATE_NONE;
}

/* Takes the oldest request off the list, and completes all that may complete now. */
static bool finish(struct iwarp_qp *iq, enum ibv_wc_status status, enum cause cause)
	REQUIRES(iq->qp->lock)
{
	struct outstanding *outstanding = oldest(iq);

	if (!outstanding->is_rtr)
		wqe_finish(sq_wqe(&iq->qp->sq, outstanding->seq), status, cause);
	iq->outstanding_head++;
	qp_retire(iq->qp);
	local_complete_failed(iq->qp, &iq->failure);
	return qp_state(iq->qp) != IBV_QPS_ERR;
}

static bool store(struct iwarp_qp *iq, size_t offset, const void *bytes, uint32_t count)
	REQUIRES(iq->qp->lock)
{
	const struct wqe *wqe = complete_responding(iq);
	enum cause cause =
		memory_scatter(wqe->sge, wqe->num_sge, iq->qp->pd->number, offset, bytes, count);

	if (cause == CAUSE_NONE)
		return true;
	cause_report(cause, iq->qp->ib.qp_num, "response to a READ or atomic");
	finish(iq, IBV_WC_LOC_PROT_ERR, cause);
	/* the READ waits for requests that a broken stream keeps; no byte is read behind it */
	if (qp_state(iq->qp) != IBV_QPS_ERR)
		iq->lost = true;
	return false;
}

bool complete_response_payload(struct iwarp_qp *iq, uint32_t at, const void *bytes, uint32_t count)
{
	return store(iq, (size_t)oldest(iq)->received + at, bytes, count);
}

bool complete_response(struct iwarp_qp *iq)
{
	oldest(iq)->received += iq->input.payload;
	return !iq->input.segment.last || finish(iq, IBV_WC_SUCCESS, CAUSE_NONE);
}

bool complete_is_due(const struct iwarp_qp *iq)
{
	const struct outstanding *outstanding = oldest(iq);

	return outstanding && outstanding->is_atomic &&
	       get32(iq->input.control) == outstanding->msn;
}

bool complete_atomic(struct iwarp_qp *iq)
{
	uint64_t value = get64(iq->input.control + 4);

	return store(iq, 0, &value, sizeof(value)) && finish(iq, IBV_WC_SUCCESS, CAUSE_NONE);
}
