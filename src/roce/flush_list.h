/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flush list - the QPs that this thread has something to send for, at its next roce_flush.
 *
 * QPs are listed by number: one may be destroyed meanwhile, and then is not found. Several threads
 * may have the same QP in their lists. Each thread flushes what it has put off itself, as the
 * others may not get a processor for a while; the second finds nothing left to do.
 *
 * Each thread has a list of its own: no locks.
 */
#ifndef ROCE_FLUSH_LIST_H
#define ROCE_FLUSH_LIST_H

#include "roce/roce_qp.h"

#define FLUSH_LIST_MAX 64

/*
 * Lists the QP, whose lock is held, unless it is listed. If the list is full the QP's timer flushes
 * it.
 */
void flush_list_add(struct roce_qp *tq);

/* Takes all that are listed: FLUSH_LIST_MAX numbers at most. Returns how many. */
uint32_t flush_list_take(uint32_t *qpns);

bool flush_list_any(void);

/* No QP is listed any more. */
void flush_list_reset(void);

#endif
