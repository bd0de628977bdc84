/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/request.h"

uint32_t request_psns(const struct roce_qp *tq, const struct wqe *wqe)
{
	/* a FLUSH's length is that of its range */
	return opcode_operation(wqe->opcode) == OPERATION_FLUSH ? 1
								: packets_of(wqe->length, tq->mtu);
}

static unsigned last_headers(const struct wqe *wqe)
{
	const struct opcode *opcode = &opcodes[wqe->opcode];

	return opcode->has_imm ? PACKET_HAS_IMM : opcode->has_inv ? PACKET_HAS_IETH : 0;
}

static uint8_t find_opcode(const struct roce_qp *tq, const struct wqe *wqe, bool first, bool last,
			   unsigned headers)
{
	return (uint8_t)packet_find_opcode(roce_service(tq->qp), opcode_operation(wqe->opcode),
					   first, last, headers);
}

/* Only what completes a receive can raise an event there (IBA 9.2.3). */
static bool is_solicited(const struct wqe *wqe)
{
	return wqe->flags & IBV_SEND_SOLICITED &&
	       (opcode_operation(wqe->opcode) == OPERATION_SEND || opcodes[wqe->opcode].has_imm);
}

struct packet request_message(const struct roce_qp *tq, const struct wqe *wqe, psn_t psn, bool last)
{
	return (struct packet){
		.opcode = find_opcode(tq, wqe, psn_equal(psn, wqe->first_psn), last,
				      last ? last_headers(wqe) : 0),
		.dest_qpn = tq->qp->attr.dest_qp_num,
		.psn = psn,
		.solicited = last && is_solicited(wqe),
		.va = wqe->remote_addr,
		.rkey = wqe->rkey,
		.length = wqe->length,
		.imm = wqe->imm,
		.invalidate_rkey = wqe->imm,
		.xrc_srqn = wqe->remote_srqn,
	};
}

static void set_read(struct packet *header, const struct roce_qp *tq, const struct wqe *wqe,
		     uint32_t packets)
{
	uint32_t offset = (uint32_t)psn_diff(header->psn, wqe->first_psn) * tq->mtu;

	header->va += offset;
	header->length -= offset;
	if (header->length > packets * (uint64_t)tq->mtu)
		header->length = packets * tq->mtu;
}

struct packet request_with_response(const struct roce_qp *tq, const struct wqe *wqe, psn_t psn,
				    uint32_t packets)
{
	const struct operands *operands = &wqe->operands;
	struct packet header = {
		.opcode = find_opcode(tq, wqe, true, true, 0),
		.dest_qpn = tq->qp->attr.dest_qp_num,
		.psn = psn,
		.ack_req = true,
		.va = wqe->remote_addr,
		.rkey = wqe->rkey,
		.length = wqe->length,
		.swap_add = operands->swap_add,
		.compare = operands->compare,
		.flush_types = (uint8_t)operands->swap_add,
		.flush_level = (uint8_t)operands->compare,
		.xrc_srqn = wqe->remote_srqn,
	};

	if (opcode_operation(wqe->opcode) == OPERATION_READ)
		set_read(&header, tq, wqe, packets);
	return header;
}

uint32_t request_piece(const struct wqe *wqe, psn_t psn)
{
	uint32_t at = (uint32_t)psn_diff(psn, wqe->first_psn);
	uint32_t left = (uint32_t)psn_diff(wqe->end_psn, psn);
	uint32_t piece = wqe->read_piece - at % wqe->read_piece;

	return piece < left ? piece : left;
}
