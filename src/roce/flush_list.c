/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/flush_list.h"

#include <string.h>

#include "roce/qp_timer.h"
#include "roce/roce_env.h"

static _Thread_local struct {
	uint32_t count;
	uint32_t qpns[FLUSH_LIST_MAX];
} list __attribute__((tls_model("initial-exec")));

void flush_list_add(struct roce_qp *tq)
{
	uint32_t qpn = tq->qp->ib.qp_num;

	for (uint32_t i = list.count; i-- > 0;)
		if (list.qpns[i] == qpn)
			return;
	if (list.count == FLUSH_LIST_MAX)
		qp_timer_again(tq, roce_env.now());
	else
		list.qpns[list.count++] = qpn;
}

uint32_t flush_list_take(uint32_t *qpns)
{
	uint32_t count = list.count;

	memcpy(qpns, list.qpns, count * sizeof(*qpns));
	list.count = 0;
	return count;
}

bool flush_list_any(void)
{
	return list.count != 0;
}

void flush_list_reset(void)
{
	list.count = 0;
}
