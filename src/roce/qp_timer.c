/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/qp_timer.h"

void qp_timer_arm(struct roce_qp *tq)
{
	const uint64_t deadlines[] = { tq->probe_ns, tq->rnr_ns, tq->again_ns };
	uint64_t first = TIMER_NEVER;

	for (unsigned i = 0; i < sizeof(deadlines) / sizeof(deadlines[0]); i++)
		if (deadlines[i] && deadlines[i] < first)
			first = deadlines[i];
	if (first < tq->timer_ns) {
		tq->timer_ns = first;
		timer_arm(&tq->timer, first);
	}
}

void qp_timer_again(struct roce_qp *tq, uint64_t when_ns)
{
	if (tq->again_ns && tq->again_ns <= when_ns)
		return;
	tq->again_ns = when_ns ? when_ns : 1;
	qp_timer_arm(tq);
}

void qp_timer_stop(struct roce_qp *tq)
{
	tq->probe_ns = tq->rnr_ns = tq->again_ns = 0;
	tq->timer_ns = TIMER_NEVER;
	timer_disarm(&tq->timer);
}
