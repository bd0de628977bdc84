/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/accept.h"

#include "execute/receive.h"
#include "iwarp/bytes.h"
#include "iwarp/close.h"
#include "iwarp/complete.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/memory.h"

#define LAST_WORD 8

/* How each opcode comes: RFC 5040 figure 4, RFC 7306 figure 3. */
static const struct form {
	bool known, tagged, extension;
	uint8_t queue;
	uint8_t control; /* bytes of its payload, if that is the engine's own */
} forms[RDMAP_OPCODES] = {
	[RDMAP_WRITE] = { true, true },
	[RDMAP_READ_REQUEST] = { true, .queue = QUEUE_REQUEST, .control = READ_REQUEST_BYTES },
	[RDMAP_READ_RESPONSE] = { true, true },
	[RDMAP_SEND] = { true, .queue = QUEUE_SEND },
	[RDMAP_SEND_INV] = { true, .queue = QUEUE_SEND },
	[RDMAP_SEND_SE] = { true, .queue = QUEUE_SEND },
	[RDMAP_SEND_SE_INV] = { true, .queue = QUEUE_SEND },
	[RDMAP_TERMINATE] = { true, .queue = QUEUE_TERMINATE },
	[RDMAP_IMMEDIATE] = { true, .extension = true, .queue = QUEUE_SEND,
			      .control = IMMEDIATE_BYTES },
	[RDMAP_IMMEDIATE_SE] = { true, .extension = true, .queue = QUEUE_SEND,
				 .control = IMMEDIATE_BYTES },
	[RDMAP_ATOMIC_REQUEST] = { true, .extension = true, .queue = QUEUE_REQUEST,
				   .control = ATOMIC_REQUEST_BYTES },
	[RDMAP_ATOMIC_RESPONSE] = { true, .extension = true, .queue = QUEUE_ATOMIC_RESPONSE,
				    .control = ATOMIC_RESPONSE_BYTES },
};

static bool is_send(const struct segment *segment)
{
	return segment->opcode >= RDMAP_SEND && segment->opcode <= RDMAP_SEND_SE_INV;
}

static bool invalidates(const struct segment *segment)
{
	return segment->opcode == RDMAP_SEND_INV || segment->opcode == RDMAP_SEND_SE_INV;
}

static bool is_solicited(const struct segment *segment)
{
	return segment->opcode == RDMAP_SEND_SE || segment->opcode == RDMAP_SEND_SE_INV ||
	       segment->opcode == RDMAP_IMMEDIATE_SE;
}

/* Versions, opcode, queue, MSN, MO: TERMINATE_NONE, or what is wrong. */
static enum terminate check_header(const struct iwarp_qp *iq)
{
	const struct input *input = &iq->input;
	const struct segment *segment = &input->segment;
	const struct form *form = &forms[segment->opcode % RDMAP_OPCODES];

	if (segment->ddp_version != 1)
		return segment->tagged ? TERMINATE_DDP_TAGGED_VERSION
				       : TERMINATE_DDP_UNTAGGED_VERSION;
	if (segment->rdmap_version != 1)
		return TERMINATE_RDMAP_VERSION;
	if (segment->opcode >= RDMAP_OPCODES || form->tagged != segment->tagged ||
	    (form->extension && !iq->options.mpa.extensions))
		return TERMINATE_RDMAP_OPCODE;
	if (segment->tagged)
		return segment->to + input->payload < segment->to ? TERMINATE_DDP_WRAP
								  : TERMINATE_NONE;
	if (segment->queue != form->queue)
		return TERMINATE_DDP_QN;
	if (segment->msn != iq->expected_msn[form->queue])
		return TERMINATE_DDP_MSN;
	if (form->queue == QUEUE_SEND && !is_send(segment) && iq->received)
		return TERMINATE_DDP_MSN; /* the SEND of this number has begun */
	if (segment->mo != (is_send(segment) ? iq->received : 0))
		return TERMINATE_DDP_MO;
	if (form->control && (input->payload != form->control || !segment->last))
		return TERMINATE_DDP_TOO_LONG;
	if (!is_send(segment) && !form->control && !segment->last)
		return TERMINATE_DDP_TOO_LONG;
	return TERMINATE_NONE;
}

static bool refuse(struct iwarp_qp *iq, enum verdict verdict, enum cause cause)
	REQUIRES(iq->qp->lock)
{
	close_note_segment(iq);
	close_refuse(iq, verdict, cause, iq->input.segment.tagged);
	return false;
}

static bool malformed(struct iwarp_qp *iq, enum terminate terminate) REQUIRES(iq->qp->lock)
{
	close_note_segment(iq);
	close_on_bad_segment(iq, terminate, CAUSE_IWARP_SEGMENT);
	return false;
}

/* A segment of a SEND, or immediate data: it takes a receive. */
static bool begin_receive(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	uint64_t bytes = (uint64_t)iq->received + iq->input.payload;
	enum verdict verdict;
	enum cause cause;

	if (!is_send(&iq->input.segment)) {
		if (receive_take(iq->qp))
			return true;
		return refuse(iq, VERDICT_NO_RECEIVE, CAUSE_NO_RECEIVE);
	}
	verdict = receive_take_for(iq->qp, bytes, &cause);
	return verdict == VERDICT_OK || refuse(iq, verdict, cause);
}

static bool begin_write(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	enum cause cause;

	if (!iq->in_write)
		iq->written = 0;
	iq->in_write = !iq->input.segment.last;
	iq->written += iq->input.payload;
	if (!iq->input.payload ||
	    execute_check_right(iq->qp, IBV_ACCESS_REMOTE_WRITE, &cause) == VERDICT_OK)
		return true;
	return refuse(iq, VERDICT_ACCESS, cause);
}

bool accept_begin(struct iwarp_qp *iq)
{
	const struct segment *segment = &iq->input.segment;
	enum terminate terminate = check_header(iq);

	iq->input.control_bytes = 0;
	if (terminate != TERMINATE_NONE)
		return malformed(iq, terminate);
	if (segment->opcode == RDMAP_WRITE)
		return begin_write(iq);
	if (segment->opcode == RDMAP_READ_RESPONSE) {
		terminate = complete_check_response(iq);
		return terminate == TERMINATE_NONE || malformed(iq, terminate);
	}
	if (segment->queue == QUEUE_SEND)
		return begin_receive(iq);
	if (segment->queue == QUEUE_REQUEST && iwarp_owed(iq) >= iq->options.mpa.ird)
		return malformed(iq, TERMINATE_DDP_NO_BUFFER);
	return true;
}

/* Of the payload, to its next byte. */
static uint32_t payload_at(const struct input *input)
{
	return input->payload - input->left;
}

bool accept_payload(struct iwarp_qp *iq, const uint8_t *bytes, uint32_t count)
{
	struct input *input = &iq->input;
	const struct segment *segment = &input->segment;
	uint32_t at = payload_at(input);
	struct iovec piece = { (void *)bytes, count };
	struct remote_range range = { segment->stag, input->left, segment->to + at };
	enum verdict verdict;
	enum cause cause;

	if (is_send(segment)) {
		verdict = receive_deliver(iq->qp, (size_t)iq->received + at, bytes, count, &cause);
		return verdict == VERDICT_OK || refuse(iq, verdict, cause);
	}
	if (segment->opcode == RDMAP_WRITE) {
		verdict = execute_write(iq->qp, &range, &piece, 1, count, &cause);
		return verdict == VERDICT_OK || refuse(iq, verdict, cause);
	}
	if (segment->opcode == RDMAP_READ_RESPONSE)
		return complete_response_payload(iq, at, bytes, count);
	/* a TERMINATE may be longer than what this end looks at */
	if (count > CONTROL_MAX - input->control_bytes)
		count = CONTROL_MAX - input->control_bytes;
	memcpy(input->control + input->control_bytes, bytes, count);
	input->control_bytes += count;
	return true;
}

/* What the next bytes of payload go to. */
struct target {
	uint32_t key, pd, qpn, access;
	uint64_t address;
	uint32_t bytes;
	uint32_t check; /* bytes that the key has to be good for */
};

static bool find_sge(const struct ibv_sge *sge, uint32_t count, uint64_t offset,
		     struct target *target)
{
	for (uint32_t i = 0; i < count; offset -= sge[i++].length) {
		if (offset >= sge[i].length)
			continue;
		target->key = sge[i].lkey;
		target->address = sge[i].addr + offset;
		if (sge[i].length - offset < target->bytes)
			target->bytes = (uint32_t)(sge[i].length - offset);
		target->check = target->bytes;
		target->access = IBV_ACCESS_LOCAL_WRITE;
		return true;
	}
	return false;
}

static bool find_target(struct iwarp_qp *iq, struct target *target)
{
	const struct input *input = &iq->input;
	const struct segment *segment = &input->segment;
	const struct qp *qp = iq->qp;
	uint32_t at = payload_at(input);
	const struct wqe *wqe;

	*target = (struct target){ .bytes = input->left - LAST_WORD };
	if (is_send(segment)) {
		target->pd = qp->srq ? qp->srq->pd->number : qp->remote_pd;
		return find_sge(qp->receive.sge, qp->receive.num_sge, (uint64_t)iq->received + at,
				target);
	}
	if (segment->opcode == RDMAP_WRITE) {
		target->key = segment->stag;
		target->pd = qp->remote_pd;
		target->qpn = qp->ib.qp_num;
		target->access = IBV_ACCESS_REMOTE_WRITE;
		target->address = segment->to + at;
		target->check = input->left; /* a segment that is refused stores nothing */
		return true;
	}
	if (segment->opcode != RDMAP_READ_RESPONSE)
		return false;
	wqe = complete_responding(iq);
	target->pd = qp->pd->number;
	return wqe && find_sge(wqe->sge, wqe->num_sge, complete_offset(iq) + at, target);
}

/*
 * The kernel stores there, which the userfaultfd guard does not stop but in a user's own accesses:
 * so not while pages move, and they do not begin to move while the hazard is there.
 */
struct arena_hazard *accept_place(struct iwarp_qp *iq, struct iovec *piece)
{
	struct arena_hazard *hazard;
	struct target target;
	uint64_t host;
	uint32_t flags;

	if (iq->input.left <= LAST_WORD || !find_target(iq, &target))
		return NULL;
	hazard = hazard_set_in_heap(memory_slot(), target.key);
	if (key_check(key_table(), target.key, target.pd, target.qpn, target.address, target.check,
		      target.access, &host, &flags) == KEY_OK &&
	    !(flags & (KEY_NULL | KEY_IMPORTED | KEY_MOVING))) {
		*piece = (struct iovec){ (void *)(uintptr_t)host, target.bytes };
		return hazard;
	}
	hazard_clear(hazard); /* accept_payload finds out why */
	return NULL;
}

static bool end_send(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	const struct segment *segment = &iq->input.segment;
	struct receive_end end = {
		.opcode = IBV_WC_RECV,
		.status = IBV_WC_SUCCESS,
		.src_qp = iq->qp->attr.dest_qp_num,
		.solicited = is_solicited(segment),
	};
	enum verdict verdict;
	enum cause cause;

	if (!iq->revoking)
		iq->received += iq->input.payload;
	if (!segment->last)
		return true;
	if (invalidates(segment)) {
		verdict = execute_invalidate(iq->qp, segment->stag, &iq->revoked, &cause);
		iq->revoking = verdict == VERDICT_REVOKING;
		if (iq->revoking) {
			iwarp_env.again(iq->stream, iq->qp);
			return false;
		}
		if (verdict != VERDICT_OK)
			return refuse(iq, verdict, cause);
		iq->revoked = 0;
		end.wc_flags = IBV_WC_WITH_INV;
		end.imm = segment->stag;
	}
	end.byte_len = iq->received;
	iq->received = 0;
	iq->expected_msn[QUEUE_SEND]++;
	receive_complete(iq->qp, &end);
	return true;
}

static bool end_immediate(struct iwarp_qp *iq)
{
	struct receive_end end = {
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		.status = IBV_WC_SUCCESS,
		.byte_len = iq->written,
		.wc_flags = IBV_WC_WITH_IMM,
		.src_qp = iq->qp->attr.dest_qp_num,
		.solicited = is_solicited(&iq->input.segment),
	};

	memcpy(&end.imm, iq->input.control, sizeof(end.imm));
	iq->written = 0;
	iq->expected_msn[QUEUE_SEND]++;
	receive_complete(iq->qp, &end);
	return true;
}

static void owe(struct iwarp_qp *iq, const struct owed_response *response)
{
	*response_at(iq, iq->response_tail++) = *response;
	iq->expected_msn[QUEUE_REQUEST]++;
}

static bool end_read_request(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	struct read_request request;
	struct remote_range range;
	enum verdict verdict = VERDICT_OK;
	enum cause cause;

	read_request_decode(iq->input.control, &request);
	range = (struct remote_range){ request.source_stag, request.size, request.source_to };
	if (request.size) /* the RTR reads nothing, whatever the QP grants */
		verdict = execute_check_right(iq->qp, IBV_ACCESS_REMOTE_READ, &cause);
	if (verdict == VERDICT_OK)
		verdict = execute_check_read(iq->qp, &range, iq->qp->remote_pd, &cause);
	if (verdict != VERDICT_OK)
		return refuse(iq, verdict, cause);
	owe(iq, &(struct owed_response){
			.sink_stag = request.sink_stag,
			.sink_to = request.sink_to,
			.rkey = request.source_stag,
			.address = request.source_to,
			.left = request.size,
		});
	return true;
}

/* Verbs have no masks: other ends may, but not here. */
static bool find_atomic(const struct atomic_request *request, enum operation *operation)
{
	if (request->code == ATOMIC_COMPARE_SWAP) {
		*operation = OPERATION_COMPARE_SWAP;
		return request->swap_mask == UINT64_MAX && request->compare_mask == UINT64_MAX;
	}
	*operation = OPERATION_FETCH_ADD;
	return request->code == ATOMIC_FETCH_ADD && !(request->swap_mask & ~(1ull << 63));
}

static bool end_atomic_request(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	struct atomic_request request;
	struct owed_response response;
	struct remote_range range;
	enum operation operation;
	enum verdict verdict;
	enum cause cause = CAUSE_IWARP_SEGMENT;
	uint64_t before;

	atomic_request_decode(iq->input.control, &request);
	if (!find_atomic(&request, &operation))
		return malformed(iq, TERMINATE_RDMAP_OPERATION);
	range = (struct remote_range){ request.stag, sizeof(before), request.to };
	verdict = execute_single(iq->qp, operation, &range, &request.operands, &before, &cause);
	if (verdict != VERDICT_OK)
		return refuse(iq, verdict, cause);
	response = (struct owed_response){
		.is_atomic = true,
		.sink_stag = request.id,
		.value = before,
	};
	owe(iq, &response);
	return true;
}

static bool end_terminate(struct iwarp_qp *iq) REQUIRES(iq->qp->lock)
{
	struct terminate_received received;

	if (!terminate_decode(iq->input.control, iq->input.control_bytes, &received))
		return malformed(iq, TERMINATE_DDP_TOO_LONG);
	close_on_terminate(iq, &received);
	return false;
}

bool accept_end(struct iwarp_qp *iq)
{
	const struct segment *segment = &iq->input.segment;

	if (is_send(segment))
		return end_send(iq);
	switch (segment->opcode) {
	case RDMAP_READ_RESPONSE:
		return complete_response(iq);
	case RDMAP_READ_REQUEST:
		return end_read_request(iq);
	case RDMAP_ATOMIC_REQUEST:
		return end_atomic_request(iq);
	case RDMAP_ATOMIC_RESPONSE:
		iq->expected_msn[QUEUE_ATOMIC_RESPONSE]++;
		if (!complete_is_due(iq))
			return malformed(iq, TERMINATE_RDMAP_OPERATION);
		return complete_atomic(iq);
	case RDMAP_IMMEDIATE:
	case RDMAP_IMMEDIATE_SE:
		return end_immediate(iq);
	case RDMAP_TERMINATE:
		return end_terminate(iq);
	default: /* a WRITE */
		return true;
	}
}
