/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP ex - the builders of send requests, ibv_wr_*.
 *
 * From ibv_wr_start to ibv_wr_complete or ibv_wr_abort the QP's lock is held. Errors are kept and
 * told by ibv_wr_complete, which then posts nothing.
 */
#ifndef VERBS_QP_EX_H
#define VERBS_QP_EX_H

#include "object/qp.h"

/* 0, or EOPNOTSUPP with a cause: one of enum ibv_qp_create_send_ops_flags is not of this service. */
int qp_ex_check(enum ibv_qp_type type, uint64_t send_ops_flags);

/* Sets the builders. */
void qp_ex_init(struct qp *qp);

#endif
