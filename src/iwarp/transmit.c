/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/transmit.h"

#include <errno.h>

#include "iwarp/gather.h"
#include "iwarp/bytes.h"
#include "iwarp/close.h"
#include "iwarp/request.h"
#include "iwarp/stage.h"

#define SHARE_BYTES (256 * 1024) /* then other QPs have their turn, and other threads this one */

static struct owed_response *oldest_response(struct iwarp_qp *iq)
{
	return response_at(iq, iq->response_head);
}

static enum gather_result add_atomic_response(struct iwarp_qp *iq, struct gather *gather,
					      const struct owed_response *response,
					      enum cause *cause)
{
	uint8_t bytes[ATOMIC_RESPONSE_BYTES];
	struct segment segment = {
		.opcode = RDMAP_ATOMIC_RESPONSE,
		.last = true,
		.queue = QUEUE_ATOMIC_RESPONSE,
		.msn = iq->sending.response_msn,
	};
	struct payload payload = { .control = bytes, .bytes = sizeof(bytes) };
	enum gather_result result;

	atomic_response_encode(response->sink_stag, response->value, bytes);
	result = gather_add(iq, gather, &segment, &payload, cause);
	if (result == GATHER_ADDED)
		iq->sending.response_msn++;
	return result;
}

static enum gather_result add_read_response(struct iwarp_qp *iq, struct gather *gather,
					    struct owed_response *response, enum cause *cause)
{
	uint32_t room = iwarp_segment_room(iq, TAGGED_BYTES);
	uint32_t bytes = response->left < room ? response->left : room;
	struct segment segment = {
		.opcode = RDMAP_READ_RESPONSE,
		.tagged = true,
		.last = bytes == response->left,
		.stag = response->sink_stag,
		.to = response->sink_to,
	};
	struct payload payload = { .response = response, .bytes = bytes };
	enum gather_result result = gather_add(iq, gather, &segment, &payload, cause);

	if (result != GATHER_ADDED)
		return result;
	response->sink_to += bytes;
	response->address += bytes;
	response->left -= bytes;
	return result;
}

static enum gather_result add_response(struct iwarp_qp *iq, struct gather *gather,
				       enum cause *cause)
{
	struct owed_response *response = oldest_response(iq);
	enum gather_result result = response->is_atomic
					    ? add_atomic_response(iq, gather, response, cause)
					    : add_read_response(iq, gather, response, cause);

	iq->sending.is_response = true;
	iq->sending.in_message = true;
	if (result == GATHER_ADDED && !response->left) {
		iq->response_head++;
		iq->sending.in_message = false;
	}
	return result;
}

/*
 * Whose turn it is. Messages are not mixed: siw takes it for an error if a READ response comes
 * within a WRITE.
 */
static enum request_turn choose(struct iwarp_qp *iq, const struct gather *gather, bool *is_response)
	REQUIRES(iq->qp->lock)
{
	enum request_turn turn;

	*is_response = iq->sending.is_response;
	if (iq->sending.in_message)
		return REQUEST_READY;
	*is_response = iwarp_owed(iq) && !iq->sending.is_response;
	if (*is_response)
		return REQUEST_READY;
	turn = request_next(iq, gather);
	if (turn == REQUEST_NONE && iwarp_owed(iq)) {
		*is_response = true;
		return REQUEST_READY;
	}
	return turn;
}

/*
 * The stream has all FPDUs but for the stage: finishes the requests that have left and wait for no
 * response. A READ or atomic cannot be answered before it has left, so requests finish in order.
 */
static void finish_sent(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	uint32_t taken = (uint32_t)(iq->sending.position - stage_bytes(&iq->stage));
	struct sq *sq = &iq->qp->sq;
	bool any = false;

	if (iq->lost || iq->sending.broken)
		return;
	if ((int32_t)(iq->sending.finish - sq->head) < 0)
		iq->sending.finish = sq->head;
	for (; iq->sending.finish != sq->issue; iq->sending.finish++) {
		struct wqe *wqe = sq_wqe(sq, iq->sending.finish);

		if (wqe->state == WQE_ISSUED && !wqe_has_failed(wqe)) {
			if ((int32_t)(taken - wqe->end_of_bytes) < 0)
				break;
			if (!operation_takes_response(opcode_operation(wqe->opcode)))
				wqe_finish(wqe, IBV_WC_SUCCESS, CAUSE_NONE);
		}
		any = true;
	}
	if (!any)
		return;
	qp_retire(iq->qp);
	local_complete_failed(iq->qp, &iq->failure);
}

/* False: what is staged waits for room, or the QP has ended. */
static bool send_staged(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	bool is_empty = stage_send(iq);

	finish_sent(iq);
	return is_empty && iwarp_is_sending(iq);
}

/* The payload of a request, or of a response, is not accessible. */
static void fail(struct iwarp_qp *iq, bool is_response, enum cause cause) REQUIRES(iq->qp->lock)
{
	struct qp *qp = iq->qp;

	iq->sending.in_message = false;
	if (is_response) {
		close_refuse_now(iq, VERDICT_ACCESS, cause, false);
		return;
	}
	iq->sending.immediate_owed = false;
	local_fail(qp, &iq->failure, qp->sq.issue++, IBV_WC_LOC_PROT_ERR, cause,
		   "payload of a request");
}

/* One segment, or the end of the burst. False: nothing is left to do for now. */
static bool step(struct iwarp_qp *iq, struct gather *gather) REQUIRES(iq->qp->lock)
{
	enum gather_result result = GATHER_ADDED;
	enum request_turn turn;
	enum cause cause = CAUSE_NONE;
	bool is_response;

	if (gather_is_empty(gather) &&
	    stage_bytes(&iq->stage) >= (stage_has_all(iq) ? GATHER_BYTES_MAX : 1) &&
	    !send_staged(iq))
		return false;
	turn = choose(iq, gather, &is_response);
	if (turn == REQUEST_OVER)
		return false;
	if (turn == REQUEST_READY && iq->sending.position >= iq->sending.share_end) {
		turn = REQUEST_NONE;
		iq->sending.yielded = true;
		iwarp_env.turn_over(iq->stream);
	}
	if (turn == REQUEST_READY) {
		result = is_response ? add_response(iq, gather, &cause)
				     : request_add(iq, gather, &cause);
		if (result == GATHER_ADDED)
			return true;
	}
	gather_send(iq, gather, result == GATHER_FULL);
	finish_sent(iq);
	if (turn == REQUEST_NONE || !iwarp_is_sending(iq))
		return false;
	if (turn == REQUEST_FLUSH || result == GATHER_FULL)
		return !iq->sending.blocked;
	if (result == GATHER_FAILED)
		iq->sending.broken = true;
	else
		fail(iq, is_response, cause);
	return false;
}

void transmit_run(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	struct gather gather;

	if (!iwarp_is_sending(iq) || iq->sending.gated || iq->sending.yielded || !send_staged(iq))
		return;
	iq->sending.share_end = iq->sending.position + SHARE_BYTES;
	gather_init(&gather);
	while (step(iq, &gather))
		;
	gather_fini(&gather);
	if (iwarp_is_sending(iq))
		send_staged(iq);
}

int transmit_rtr(struct iwarp_qp *iq)
{
	uint8_t *fpdu;
	unsigned bytes = 0;
	struct segment segment = { .last = true };

	if (iq->options.mpa.rtr == MPA_RTR_WRITE) {
		segment.opcode = RDMAP_WRITE;
		segment.tagged = true;
		bytes = TAGGED_BYTES;
	} else if (iq->options.mpa.rtr == MPA_RTR_READ) {
		segment.opcode = RDMAP_READ_REQUEST;
		segment.queue = QUEUE_REQUEST;
		segment.msn = iq->sending.request_msn++;
		bytes = UNTAGGED_BYTES + READ_REQUEST_BYTES;
		*outstanding_at(iq, iq->outstanding_tail++) =
			(struct outstanding){ .is_rtr = true, .msn = segment.msn };
	}
	fpdu = stage_open(iq, bytes);
	if (!fpdu)
		return -ENOMEM;
	if (bytes)
		segment_encode(&segment, fpdu + FPDU_LENGTH_BYTES);
	if (iq->options.mpa.rtr == MPA_RTR_READ)
		read_request_encode(&(struct read_request){ 0 },
				    fpdu + FPDU_LENGTH_BYTES + UNTAGGED_BYTES);
	stage_close(iq, fpdu, bytes);
	return 0;
}

bool transmit_is_idle(const struct iwarp_qp *iq)
{
	return iq->qp->sq.issue == iq->qp->sq.tail && !iwarp_owed(iq) && !stage_bytes(&iq->stage);
}
