/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local - send requests that end without the peer: BIND_MW, LOCAL_INV, and those that fail at this end.
 *
 * In:  the request at the head of what is not issued yet.
 * Out: a finished request, or a QP in ERR.
 *
 * A request that fails here completes behind all earlier ones, which may still be on the way: until
 * then it is in the queue with ROUTE_FAILED, and the QP issues nothing. Going back in the queue forgets
 * the failure; it is found again when the request's turn comes.
 *
 * Callers hold the QP's lock.
 */
#ifndef EXECUTE_LOCAL_H
#define EXECUTE_LOCAL_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cause.h"
#include "object/qp.h"
#include "object/sq.h"

/* Of a QP. While it is pending the request at sq.issue - 1 waits for its turn to complete so. */
struct local_failure {
	bool pending;
	uint8_t status; /* enum ibv_wc_status */
	enum cause cause;
};

/*
 * The request `seq` failed; sq.issue is behind it. Reports the cause with this text. If nothing is before
 * it, it completes, and the QP fails.
 */
void local_fail(struct qp *qp, struct local_failure *failure, uint32_t seq, enum ibv_wc_status status,
		enum cause cause, const char *text);

/* Once the pending failure's request is the oldest: completes it, fails the QP, and returns true. */
bool local_complete_failed(struct qp *qp, struct local_failure *failure);

/*
 * BIND_MW or LOCAL_INV, at sq.issue. CAUSE_NONE: it is finished. CAUSE_COPY_UNFINISHED: it is to be called
 * again later, as a thread still copies by the key; `looks` counts such calls for this request. Any other:
 * it has failed, and sq.issue is behind it.
 */
enum cause local_execute(struct qp *qp, struct local_failure *failure, struct wqe *wqe,
			 uint32_t looks);

#endif
