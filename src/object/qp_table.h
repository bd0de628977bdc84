/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP table - finds QPs by their numbers: qp_find_locked and qp_visit of qp.h, and the functions
 * that add and remove QPs.
 *
 * In:  qp_create, qp_destroy.
 * Out: locked QPs, to requesters and responders.
 *
 * Lock: the table's own, outside QP locks.
 */
#ifndef OBJECT_QP_TABLE_H
#define OBJECT_QP_TABLE_H

#include "object/qp.h"

/*
 * Allocates a QP with index, number and an entry in the arena; all else but the lock is 0. Lookups
 * do not find it yet. 0 or -ENOMEM, with a cause.
 */
int qp_table_reserve(struct qp **qp);

/* Lets lookups find the QP. */
void qp_table_publish(struct qp *qp);

/*
 * Hides the QP from lookups. A thread that has found it holds its lock, or will see that it is not
 * alive.
 */
void qp_table_withdraw(struct qp *qp);

/* Frees index and struct. The caller has freed what belongs to the QP. */
void qp_table_free(struct qp *qp);

#endif
