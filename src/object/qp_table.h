/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP table - finds QPs by their numbers, and adds and removes them.
 *
 * In:  qp_create, qp_destroy.
 * Out: locked QPs, to requesters and responders.
 *
 * Lock: the table's own, outside QP locks. Lookups take none but the QP's: see qp_table.c.
 */
#ifndef OBJECT_QP_TABLE_H
#define OBJECT_QP_TABLE_H

#include "object/qp.h"

/* Once per adapter. */
int qp_table_init(void *arena, uint32_t slot);

/*
 * Rotates the list of free numbers, right after qp_table_init. Otherwise processes that get the
 * same slot one after another would use the same QP numbers, which peers still remember: Linux's
 * connection manager takes the second QP for the first.
 */
void qp_table_turn(uint32_t by);
void qp_table_reset_after_fork(void);

/*
 * Finds the QP with this number and locks it; false: there is none, or it is being destroyed. Any
 * thread that holds no QP's lock. A locked QP is not freed.
 */
bool qp_find_locked(uint32_t qpn, struct qp **qp) TRY_ACQUIRES((*qp)->lock);

/*
 * For a number that qp_find_locked does not find: this process had a QP with it, and has destroyed
 * it. Any thread, no lock.
 */
bool qp_was_destroyed(uint32_t qpn);

/*
 * Calls `visit`, which REQUIRES(qp->lock), with each QP of the process until it returns false. No
 * thread creates QPs meanwhile, and `visit` must not; those that are being destroyed are whole
 * until the end, and in RESET once they have stopped. The caller holds no QP's lock.
 */
void qp_visit(bool (*visit)(struct qp *qp, void *arg), void *arg);

/*
 * Allocates a QP with index, number and an entry in the arena; all else but the lock is 0. Lookups
 * do not find it yet. 0 or -ENOMEM, with a cause.
 */
int qp_table_reserve(struct qp **qp);

/* Lets lookups find the QP. */
void qp_table_publish(struct qp *qp);

/*
 * Hides the QP from lookups. A thread that has found it holds its lock, or will see that it is not
 * alive. qp_visit still meets it, until it has stopped and qp_table_forget is called.
 */
void qp_table_withdraw(struct qp *qp);
void qp_table_forget(struct qp *qp);

/* Frees index and struct. The caller has freed what belongs to the QP. */
void qp_table_free(struct qp *qp);

#endif
