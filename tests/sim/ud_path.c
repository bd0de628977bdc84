/* SPDX-License-Identifier: BSD-2-Clause */
#include "ud_path.h"

#include "execute/receive.h"
#include "roce/datagram.h"

static int connect(struct qp *qp)
{
	return 0;
}

/* Sends until the socket is full; a later call continues. */
static void issue(struct qp *qp)
{
	struct sq *sq = &qp->sq;

	while (sq->issue != sq->tail) {
		unsigned sent;
		enum cause cause;
		enum wire_result result =
			datagram_transmit(qp, sq->issue, sq->tail - sq->issue, &sent, &cause);

		if (result == WIRE_FULL)
			break;
		if (result == WIRE_FAULT) {
			wqe_finish(sq_wqe(sq, sq->issue++),
				   cause == CAUSE_MESSAGE_TOO_LONG ? IBV_WC_LOC_LEN_ERR
								   : IBV_WC_LOC_PROT_ERR,
				   cause);
			continue;
		}
		while (sent--)
			wqe_finish(sq_wqe(sq, sq->issue++), IBV_WC_SUCCESS, CAUSE_NONE);
	}
	qp_retire(qp);
}

/* A receive was taken for a datagram that was too long, and kept for the next. */
static void quiesce(struct qp *qp)
{
	receive_stop(qp);
}

static void destroy(struct qp *qp)
{
}

const struct qp_path ud_path = {
	.connect = connect,
	.issue = issue,
	.quiesce = quiesce,
	.destroy = destroy,
};
