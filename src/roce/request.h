/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Request - the opcode and the headers of a send request's packets.
 *
 * In:  a WQE, and a PSN of it.
 * Out: the fields of that packet.
 *
 * Pure; callers hold the QP's lock. requester.c decides when a packet is sent.
 */
#ifndef ROCE_REQUEST_H
#define ROCE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/roce_qp.h"

/* Its responses are those of a READ: with data, or empty (annex A19). */
static inline bool request_is_answered_as_read(const struct wqe *wqe)
{
	enum operation operation = opcode_operation(wqe->opcode);

	return operation_takes_response(operation) && !operation_is_atomic(operation);
}

/* Its response is empty; else it brings wqe->length bytes. */
static inline bool request_brings_nothing(const struct wqe *wqe)
{
	return request_is_answered_as_read(wqe) && opcode_operation(wqe->opcode) != OPERATION_READ;
}

/* Only a response completes it, and no ACK; max_rd_atomic limits how many are outstanding. */
static inline bool request_takes_response(const struct wqe *wqe)
{
	return operation_takes_response(opcode_operation(wqe->opcode));
}

/* How many PSNs it takes. */
uint32_t request_psns(const struct roce_qp *tq, const struct wqe *wqe);

/* The packet with this PSN of a SEND or WRITE; `last` of its message. */
struct packet request_message(const struct roce_qp *tq, const struct wqe *wqe, psn_t psn,
			      bool last);

/* The packet with this PSN of a request with `packets` response packets. */
struct packet request_with_response(const struct roce_qp *tq, const struct wqe *wqe, psn_t psn,
				    uint32_t packets);

/*
 * Response packets of the READ request from `psn` on. A repeated piece ends where it did at first:
 * a duplicate request must not reach beyond what the responder has executed (IBA 9.7.5.1.4).
 */
uint32_t request_piece(const struct wqe *wqe, psn_t psn);

#endif
