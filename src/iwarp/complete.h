/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Complete - responses of the peer to READs and atomics.
 *
 * In:  segments of READ responses, atomic responses.
 * Out: data in the memory of the requests, which are finished.
 *
 * Responses come in the order of the requests (RFC 5040 5.2, RFC 7306 5): the oldest outstanding
 * request is the one. Callers hold the QP's lock. Never waits.
 */
#ifndef IWARP_COMPLETE_H
#define IWARP_COMPLETE_H

#include <stdbool.h>
#include <stdint.h>

#include "iwarp/iwarp_qp.h"

/* The request of the READ response that comes; NULL: none, or the RTR's. */
const struct wqe *complete_responding(struct iwarp_qp *iq);
/* Bytes of its data in earlier segments. */
uint32_t complete_offset(const struct iwarp_qp *iq);

/* Whether input.segment is the next part of the response that is due. */
enum terminate complete_check_response(const struct iwarp_qp *iq);

/* Stores bytes from `at` of the segment on. False: the QP has failed. */
bool complete_response_payload(struct iwarp_qp *iq, uint32_t at, const void *bytes, uint32_t count)
	REQUIRES(iq->qp->lock);

/* The segment is complete. False: the QP has failed. */
bool complete_response(struct iwarp_qp *iq) REQUIRES(iq->qp->lock);

/* Whether the atomic response in input.control is the one that is due. */
bool complete_is_due(const struct iwarp_qp *iq);
/* Executes it. False: the QP has failed. */
bool complete_atomic(struct iwarp_qp *iq) REQUIRES(iq->qp->lock);

#endif
