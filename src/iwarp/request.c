/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/request.h"

#include "iwarp/bytes.h"

/* CAUSE_NONE, or why this connection has no such request. */
static enum cause check(const struct iwarp_qp *iq, const struct wqe *wqe)
{
	enum operation operation = opcode_operation(wqe->opcode);
	bool extension = operation_is_atomic(operation) || opcodes[wqe->opcode].has_imm;

	if (operation == OPERATION_ATOMIC_WRITE || operation == OPERATION_FLUSH ||
	    (operation == OPERATION_SEND && opcodes[wqe->opcode].has_imm))
		return CAUSE_OPCODE_UNSUPPORTED;
	if (extension && !iq->options.mpa.extensions)
		return CAUSE_IWARP_EXTENSION;
	if (operation_takes_response(operation) && !iq->options.mpa.ord)
		return CAUSE_IWARP_ORD;
	return wqe_length_is_wrong(wqe) ? CAUSE_ATOMIC_LENGTH : CAUSE_NONE;
}

/* BIND_MW, LOCAL_INV. */
static enum request_turn execute(struct iwarp_qp *iq, struct wqe *wqe) REQUIRES(iq->qp->lock)
{
	struct qp *qp = iq->qp;
	enum cause cause = local_execute(qp, &iq->failure, wqe, iq->revoke_tries);

	if (cause == CAUSE_COPY_UNFINISHED) {
		iq->revoke_tries++;
		iwarp_env.again(iq->stream, qp);
		return REQUEST_NONE;
	}
	iq->revoke_tries = 0;
	if (cause != CAUSE_NONE)
		return qp_state(qp) == IBV_QPS_ERR ? REQUEST_OVER : REQUEST_NONE;
	qp->sq.issue++;
	return REQUEST_READY;
}

enum request_turn request_next(struct iwarp_qp *iq, const struct gather *gather)
{
	struct qp *qp = iq->qp;
	struct sq *sq = &qp->sq;

	while (sq->issue != sq->tail && !iq->failure.pending) {
		struct wqe *wqe = sq_wqe(sq, sq->issue);
		enum request_turn turn;
		enum cause cause;

		if (iq->input.at_end && sq->issue == iq->input.until)
			return REQUEST_NONE;
		if (wqe->flags & IBV_SEND_FENCE && iwarp_outstanding(iq))
			return REQUEST_NONE;
		if (operation_is_of_this_end(opcode_operation(wqe->opcode))) {
			if (!gather_is_empty(gather))
				return REQUEST_FLUSH;
			turn = execute(iq, wqe);
			if (turn != REQUEST_READY)
				return turn;
			continue;
		}
		cause = check(iq, wqe);
		if (cause != CAUSE_NONE) {
			if (!gather_is_empty(gather))
				return REQUEST_FLUSH;
			local_fail(qp, &iq->failure, sq->issue++, IBV_WC_LOC_QP_OP_ERR, cause,
				   opcodes[wqe->opcode].name);
			return qp_state(qp) == IBV_QPS_ERR ? REQUEST_OVER : REQUEST_NONE;
		}
		if (operation_takes_response(opcode_operation(wqe->opcode)) &&
		    iwarp_outstanding(iq) >= iq->options.mpa.ord)
			return REQUEST_NONE;
		return REQUEST_READY;
	}
	return REQUEST_NONE;
}

static uint8_t send_opcode(const struct wqe *wqe)
{
	bool solicited = wqe->flags & IBV_SEND_SOLICITED;

	if (opcodes[wqe->opcode].has_inv)
		return solicited ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;
	return solicited ? RDMAP_SEND_SE : RDMAP_SEND;
}

/* The request is sent as a whole. */
static void end_message(struct iwarp_qp *iq)
{
	struct wqe *wqe = sq_wqe(&iq->qp->sq, iq->qp->sq.issue++);

	iq->sending.in_message = false;
	wqe->end_of_bytes = (uint32_t)iq->sending.position;
	wqe->state = WQE_ISSUED;
}

static enum gather_result add_message(struct iwarp_qp *iq, struct gather *gather, struct wqe *wqe,
				      enum cause *cause)
{
	bool is_write = opcode_operation(wqe->opcode) == OPERATION_WRITE;
	uint32_t room = iwarp_segment_room(iq, is_write ? TAGGED_BYTES : UNTAGGED_BYTES);
	uint32_t bytes = wqe->length - wqe->done < room ? wqe->length - wqe->done : room;
	struct segment segment = { .last = wqe->done + bytes == wqe->length };
	struct payload payload = { .wqe = wqe, .offset = wqe->done, .bytes = bytes };
	enum gather_result result;

	if (is_write) {
		segment.opcode = RDMAP_WRITE;
		segment.tagged = true;
		segment.stag = wqe->rkey;
		segment.to = wqe->remote_addr + wqe->done;
	} else {
		segment.opcode = send_opcode(wqe);
		segment.stag = opcodes[wqe->opcode].has_inv ? wqe->imm : 0;
		segment.queue = QUEUE_SEND;
		segment.msn = wqe->msn = iq->sending.send_msn;
		segment.mo = wqe->done;
	}
	result = gather_add(iq, gather, &segment, &payload, cause);
	if (result != GATHER_ADDED)
		return result;
	wqe->done += bytes;
	if (!segment.last)
		return result;
	iq->sending.send_msn += !is_write;
	if (is_write && opcodes[wqe->opcode].has_imm)
		iq->sending.immediate_owed = true;
	else
		end_message(iq);
	return result;
}

/* RFC 7306 6: eight bytes, of which verbs have the first four (as cxgb4 does). */
static enum gather_result add_immediate(struct iwarp_qp *iq, struct gather *gather, struct wqe *wqe,
					enum cause *cause)
{
	uint8_t bytes[IMMEDIATE_BYTES] = { 0 };
	struct segment segment = {
		.opcode = wqe->flags & IBV_SEND_SOLICITED ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE,
		.last = true,
		.queue = QUEUE_SEND,
		.msn = iq->sending.send_msn,
	};
	struct payload payload = { .control = bytes, .bytes = sizeof(bytes) };
	enum gather_result result;

	memcpy(bytes, &wqe->imm, sizeof(wqe->imm));
	result = gather_add(iq, gather, &segment, &payload, cause);
	if (result != GATHER_ADDED)
		return result;
	iq->sending.send_msn++;
	iq->sending.immediate_owed = false;
	end_message(iq);
	return result;
}

/*
 * The sink of a READ is known to this end alone, so it need not be a key of the table: STag and TO
 * are those of the first SGE, and the others follow it. Adapters have one SGE there.
 */
static void set_sink(struct outstanding *outstanding, const struct wqe *wqe)
{
	if (!wqe->num_sge || wqe_data(wqe))
		return;
	outstanding->stag = wqe->sge[0].lkey;
	outstanding->to = wqe->sge[0].addr;
}

static enum gather_result add_with_response(struct iwarp_qp *iq, struct gather *gather,
					    struct wqe *wqe, enum cause *cause)
{
	bool is_atomic = operation_is_atomic(opcode_operation(wqe->opcode));
	uint8_t bytes[ATOMIC_REQUEST_BYTES];
	struct segment segment = {
		.opcode = is_atomic ? RDMAP_ATOMIC_REQUEST : RDMAP_READ_REQUEST,
		.last = true,
		.queue = QUEUE_REQUEST,
		.msn = iq->sending.request_msn,
	};
	struct payload payload = {
		.control = bytes,
		.bytes = is_atomic ? ATOMIC_REQUEST_BYTES : READ_REQUEST_BYTES,
	};
	struct outstanding outstanding = {
		.is_atomic = is_atomic,
		.seq = iq->qp->sq.issue,
		.msn = segment.msn,
		.length = wqe->length,
	};
	enum gather_result result;

	set_sink(&outstanding, wqe);
	if (is_atomic) {
		bool swaps = operation_has_compare(opcode_operation(wqe->opcode));

		atomic_request_encode(
			&(struct atomic_request){
				.code = swaps ? ATOMIC_COMPARE_SWAP : ATOMIC_FETCH_ADD,
				.id = segment.msn,
				.stag = wqe->rkey,
				.to = wqe->remote_addr,
				.operands = wqe->operands,
				.swap_mask = swaps ? UINT64_MAX : 0,
				.compare_mask = swaps ? UINT64_MAX : 0,
			},
			bytes);
	} else {
		read_request_encode(
			&(struct read_request){
				.sink_stag = outstanding.stag,
				.sink_to = outstanding.to,
				.size = wqe->length,
				.source_stag = wqe->rkey,
				.source_to = wqe->remote_addr,
			},
			bytes);
	}
	result = gather_add(iq, gather, &segment, &payload, cause);
	if (result != GATHER_ADDED)
		return result;
	*outstanding_at(iq, iq->outstanding_tail++) = outstanding;
	iq->sending.request_msn++;
	end_message(iq);
	return result;
}

enum gather_result request_add(struct iwarp_qp *iq, struct gather *gather, enum cause *cause)
{
	struct wqe *wqe = sq_wqe(&iq->qp->sq, iq->qp->sq.issue);
	enum gather_result result;

	iq->sending.in_message = true;
	iq->sending.is_response = false;
	if (iq->sending.immediate_owed)
		result = add_immediate(iq, gather, wqe, cause);
	else if (operation_takes_response(opcode_operation(wqe->opcode)))
		result = add_with_response(iq, gather, wqe, cause);
	else
		result = add_message(iq, gather, wqe, cause);
	if (result == GATHER_ADDED)
		wqe->begun = 1;
	return result;
}
