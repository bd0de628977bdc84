/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CQ ex - polls completions one by one and field by field: ibv_start_poll and its kin.
 */
#ifndef VERBS_CQ_EX_H
#define VERBS_CQ_EX_H

#include "object/cq.h"

/* Sets the functions of a CQ of ibv_create_cq_ex. `wc_flags` is of enum ibv_create_cq_wc_flags. */
void cq_ex_init(struct cq *cq, uint64_t wc_flags);

#endif
