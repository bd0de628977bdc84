/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local - send requests that end without the peer: BIND_MW, LOCAL_INV, and those that fail at this
 * end.
 *
 * In:  the request at sq.issue.
 * Out: a finished request, or a QP in ERR.
 *
 * A request that fails here completes after all earlier ones, which may still wait for the peer.
 * Until then its route is ROUTE_FAILED, and the QP issues nothing. A requester that goes back
 * forgets the failure; the request fails again when its turn comes.
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

/* Of a QP. While `pending`, the request at sq.issue - 1 waits to complete with `status`. */
struct local_failure {
	bool pending;
	uint8_t status; /* enum ibv_wc_status */
	enum cause cause;
};

/*
 * Fails the request `seq`; sq.issue is past it. Reports the cause with this text. If the request
 * is the oldest, completes it and fails the QP.
 */
void local_fail(struct qp *qp, struct local_failure *failure, uint32_t seq,
		enum ibv_wc_status status, enum cause cause, const char *text);

/*
 * If the request of the pending failure is the oldest, completes it, fails the QP and returns true.
 */
bool local_complete_failed(struct qp *qp, struct local_failure *failure);

/*
 * Executes BIND_MW or LOCAL_INV at sq.issue. CAUSE_NONE: it is finished. CAUSE_COPY_UNFINISHED: a
 * thread still copies by the key, and the caller repeats the call later; `looks` counts these
 * calls. Any other cause: the request has failed, and sq.issue is past it.
 */
enum cause local_execute(struct qp *qp, struct local_failure *failure, struct wqe *wqe,
			 uint32_t looks);

#endif
