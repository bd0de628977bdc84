/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP table - which QP has which number: qp_find_locked and qp_visit of qp.h, and how QPs come into
 * the table and leave it.
 *
 * In:  qp_create, qp_destroy.
 * Out: QPs, locked, to whoever moves data.
 *
 * Lock: the table's own, outside QP locks.
 */
#ifndef OBJECT_QP_TABLE_H
#define OBJECT_QP_TABLE_H

#include "object/qp.h"

/*
 * A QP with an index, a number and an entry in the arena; all else but the lock is zero. Nobody
 * finds it yet. 0 or -ENOMEM, with a cause.
 */
int qp_table_reserve(struct qp **qp);

/* From now on it is found. */
void qp_table_publish(struct qp *qp);

/* From now on it is not found; whoever had found it still holds its lock, or will see that it died. */
void qp_table_withdraw(struct qp *qp);

/* Gives back what qp_table_reserve took. The caller has freed what hangs on it. */
void qp_table_free(struct qp *qp);

/* Its process was forked off after it was made: nothing shared may be touched. */
bool qp_table_is_orphan(const struct qp *qp);

#endif
