/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/close.h"

#include "execute/reaction.h"
#include "execute/receive.h"
#include "iwarp/stage.h"
#include "iwarp/transmit.h"

void close_end(struct iwarp_qp *iq, enum iwarp_end end)
{
	if (iq->state == STREAM_ENDED || iq->state == STREAM_NONE)
		return;
	if (!iq->end)
		iq->end = (uint8_t)end;
	iq->state = STREAM_ENDED;
	iwarp_env.ended(iq->stream, iq->qp, (enum iwarp_end)iq->end);
}

static void set_end(struct iwarp_qp *iq, enum iwarp_end end)
{
	if (!iq->end)
		iq->end = (uint8_t)end;
}

static void set_terminate(struct iwarp_qp *iq, enum terminate terminate)
{
	if (!iq->terminate)
		iq->terminate = (uint8_t)terminate;
}

void close_note_segment(struct iwarp_qp *iq)
{
	const struct input *input = &iq->input;
	unsigned bytes = segment_header_bytes(input->header[0]);

	memcpy(iq->terminate_header, input->header, bytes);
	if (input->segment.opcode == RDMAP_READ_REQUEST && !input->segment.tagged &&
	    input->control_bytes == READ_REQUEST_BYTES) {
		memcpy(iq->terminate_header + bytes, input->control, READ_REQUEST_BYTES);
		bytes += READ_REQUEST_BYTES;
	}
	iq->terminate_header_bytes = (uint8_t)bytes;
	iq->terminate_length = (uint16_t)input->ulpdu;
}

/* No receive is an error that ends the connection: iWARP has no RNR NAK. */
static const struct reaction no_receive = { .fails_qp = true, .event = IBV_EVENT_QP_FATAL };

void close_refuse_now(struct iwarp_qp *iq, enum verdict verdict, enum cause cause, bool tagged)
{
	const struct segment *segment = &iq->input.segment;
	const struct reaction *reaction =
		verdict == VERDICT_NO_RECEIVE ? &no_receive : reaction_of(iq->qp, verdict);
	struct refused_request request = {
		.unit = "message",
		.number = segment->msn,
		.src_qpn = iq->qp->attr.dest_qp_num,
		.rkey = segment->stag,
		.address = segment->to,
		.length = iq->input.payload,
	};

	set_end(iq, IWARP_END_ERROR);
	set_terminate(iq, terminate_of_verdict(verdict, cause, tagged));
	reaction_begin(iq->qp, reaction, cause, &request);
	reaction_end(iq->qp, reaction, cause);
}

void close_refuse(struct iwarp_qp *iq, enum verdict verdict, enum cause cause, bool tagged)
{
	iq->refused = (struct refused){ true, tagged, (uint8_t)verdict, cause };
	iwarp_env.ending(iq->stream, false);
}

void close_on_bad_segment(struct iwarp_qp *iq, enum terminate terminate, enum cause cause)
{
	set_end(iq, IWARP_END_ERROR);
	set_terminate(iq, terminate);
	cause_report(cause, iq->qp->ib.qp_num, "%s", terminate_sentence(terminate));
	qp_raise(iq->qp, IBV_EVENT_QP_FATAL);
	qp_fail(iq->qp, cause);
}

/* Whether the segment that the peer refused is of this request. */
static bool is_of(const struct iwarp_qp *iq, uint32_t seq, const struct segment *segment)
{
	const struct wqe *wqe = sq_wqe(&iq->qp->sq, seq);
	enum operation operation = opcode_operation(wqe->opcode);

	if (wqe->state == WQE_DONE || !wqe->begun)
		return false;
	if (segment->tagged)
		return operation == OPERATION_WRITE && segment->stag == wqe->rkey &&
		       segment->to - wqe->remote_addr <= wqe->length;
	if (segment->queue == QUEUE_SEND)
		return operation == OPERATION_SEND && segment->msn == wqe->msn;
	for (uint32_t i = iq->outstanding_head; i != iq->outstanding_tail; i++) {
		const struct outstanding *outstanding = outstanding_at(iq, i);

		if (!outstanding->is_rtr && outstanding->seq == seq &&
		    outstanding->msn == segment->msn)
			return segment->queue == QUEUE_REQUEST;
	}
	return false;
}

/* Fails the request that the peer refused, if it is not complete yet. */
static bool blame(struct iwarp_qp *iq, const struct segment *segment, enum ibv_wc_status status)
{
	struct sq *sq = &iq->qp->sq;

	for (uint32_t seq = sq->head; seq != sq->tail; seq++) {
		if (!is_of(iq, seq, segment))
			continue;
		wqe_finish(sq_wqe(sq, seq), status, CAUSE_IWARP_TERMINATED);
		return true;
	}
	return false;
}

void close_on_terminate(struct iwarp_qp *iq, const struct terminate_received *received)
{
	cause_report(CAUSE_IWARP_TERMINATED, iq->qp->ib.qp_num,
		     "%s (layer %u, type %u, code 0x%02x)", terminate_sentence(received->terminate),
		     received->layer, received->type, received->code);
	set_end(iq, IWARP_END_TERMINATED);
	if (!received->has_segment ||
	    !blame(iq, &received->segment, terminate_status(received->terminate)))
		qp_raise(iq->qp, IBV_EVENT_QP_FATAL);
	qp_fail(iq->qp, CAUSE_IWARP_TERMINATED);
}

/* Adds the TERMINATE behind what is staged. */
static void stage_terminate(struct iwarp_qp *iq)
{
	struct segment segment = {
		.opcode = RDMAP_TERMINATE,
		.last = true,
		.queue = QUEUE_TERMINATE,
		.msn = 1,
	};
	uint8_t bytes[TERMINATE_BYTES_MAX];
	size_t n = terminate_encode(bytes, (enum terminate)iq->terminate, iq->terminate_length,
				    iq->terminate_header, iq->terminate_header_bytes);
	uint8_t *fpdu = stage_open(iq, UNTAGGED_BYTES + (uint32_t)n);

	if (!fpdu) {
		iq->lost = true;
		return;
	}
	segment_encode(&segment, fpdu + FPDU_LENGTH_BYTES);
	memcpy(fpdu + FPDU_LENGTH_BYTES + UNTAGGED_BYTES, bytes, n);
	stage_close(iq, fpdu, UNTAGGED_BYTES + (uint32_t)n);
}

/* The stream of a QP in ERR: what is staged, then the half close, then the peer's end. */
static void drain(struct iwarp_qp *iq)
{
	if (iq->state == STREAM_DRAINING && !iq->lost) {
		if (!stage_send(iq) && !iq->sending.broken)
			return;
		iq->lost |= iq->sending.broken;
		if (!iq->lost)
			iwarp_env.shutdown(iq->stream);
		iq->state = STREAM_LINGERING;
	}
	if (iq->lost || iq->input.at_end)
		close_end(iq, IWARP_END_LOST);
}

void close_quiesce(struct iwarp_qp *iq)
{
	bool was_sending = iwarp_is_sending(iq);

	iq->outstanding_head = iq->outstanding_tail;
	iq->response_head = iq->response_tail;
	iq->sending.in_message = iq->sending.immediate_owed = false;
	iq->failure.pending = false;
	iq->revoking = iq->refused.pending = false;
	receive_stop(iq->qp);
	if (iq->state == STREAM_NONE || iq->state == STREAM_ENDED)
		return;
	if (qp_state(iq->qp) != IBV_QPS_ERR) {
		close_end(iq, IWARP_END_DISCONNECTED);
		return;
	}
	/* a request that failed at this end */
	if (!iq->end && iq->qp->failure)
		set_terminate(iq, TERMINATE_RDMAP_LOCAL);
	set_end(iq, iq->terminate ? IWARP_END_ERROR : IWARP_END_DISCONNECTED);
	if (iq->terminate && was_sending)
		stage_terminate(iq);
	iq->state = was_sending ? STREAM_DRAINING : STREAM_LINGERING;
	iwarp_env.ending(iq->stream, true);
	drain(iq);
}

/*
 * The stream is of no use any more, without a word of the peer. A close with nothing outstanding is
 * a normal end, and no cause of a failure.
 */
static void on_end(struct iwarp_qp *iq, enum iwarp_end end, enum cause cause) REQUIRES(iq->qp->lock)
{
	bool is_normal = end != IWARP_END_LOST && iq->qp->sq.head == iq->qp->sq.tail;

	set_end(iq, end);
	cause_note(cause, iq->qp->ib.qp_num, NULL);
	qp_fail(iq->qp, is_normal ? CAUSE_NONE : cause);
}

void close_settle(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	if (iq->state == STREAM_DRAINING || iq->state == STREAM_LINGERING) {
		drain(iq);
		return;
	}
	if (iq->state == STREAM_NONE || iq->state == STREAM_ENDED)
		return;
	if (iq->refused.pending && (!iwarp_owed(iq) || !iwarp_is_sending(iq))) {
		close_refuse_now(iq, (enum verdict)iq->refused.verdict, iq->refused.cause,
				 iq->refused.tagged);
		return;
	}
	if (iq->lost) {
		on_end(iq, IWARP_END_LOST, CAUSE_IWARP_LOST);
		return;
	}
	if (iq->state == STREAM_CLOSING && transmit_is_idle(iq)) {
		iwarp_env.shutdown(iq->stream);
		iq->state = STREAM_FINISHED;
	}
	if (!iq->input.at_end || iq->revoking || iq->revoke_tries || iq->refused.pending ||
	    (iwarp_is_sending(iq) &&
	     (iwarp_owed(iq) || stage_bytes(&iq->stage) || iq->sending.yielded)))
		return;
	on_end(iq, iq->state == STREAM_OPEN ? IWARP_END_CLOSED : IWARP_END_DISCONNECTED,
	       CAUSE_IWARP_CLOSED);
}
