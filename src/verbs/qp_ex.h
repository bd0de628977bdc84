/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP ex - the builders of send requests: ibv_wr_start and its kin.
 *
 * The thread holds the QP's lock from ibv_wr_start to ibv_wr_complete or ibv_wr_abort.
 * ibv_wr_complete returns the first error, and then posts nothing.
 */
#ifndef VERBS_QP_EX_H
#define VERBS_QP_EX_H

#include "object/qp.h"

/*
 * Checks flags of enum ibv_qp_create_send_ops_flags: 0, or EOPNOTSUPP with a cause if the service
 * has not all of the operations.
 */
int qp_ex_check(unsigned type, uint64_t send_ops_flags);

/*
 * Sets the builders. wr_atomic_write and wr_flush are there only if send_ops_flags, which were
 * checked, ask for them; the others always, as on adapters.
 */
void qp_ex_init(struct qp *qp, uint64_t send_ops_flags);

#endif
