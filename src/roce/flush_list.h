/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flush list - the QPs for which this thread has to send packets at its next roce_flush.
 *
 * QPs are listed by number: a QP that is destroyed meanwhile is not found. Several threads may have
 * the same QP in their lists. Each thread flushes its own list, as other threads may have to wait
 * for a processor; the second finds nothing left to send.
 *
 * Each thread has a list of its own: no locks.
 */
#ifndef ROCE_FLUSH_LIST_H
#define ROCE_FLUSH_LIST_H

#include "roce/roce_qp.h"

#define FLUSH_LIST_MAX 64

/*
 * Lists the QP, whose lock is held, unless it is listed. If the list is full, the QP's timer
 * flushes the QP.
 */
void flush_list_add(struct roce_qp *tq);

/* Empties the list: FLUSH_LIST_MAX numbers at most. Returns how many. */
uint32_t flush_list_take(uint32_t *qpns);

bool flush_list_any(void);

/* Empties the list. */
void flush_list_reset(void);

#endif
