/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CQ ex - reading completions one by one and field by field: ibv_start_poll and its family.
 */
#ifndef VERBS_CQ_EX_H
#define VERBS_CQ_EX_H

#include "object/cq.h"

/* Sets the pollers of a CQ that ibv_create_cq_ex made. */
void cq_ex_init(struct cq *cq, uint64_t wc_flags);

#endif
