/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP timer - the deadlines of one QP, which share its one timer (timer.h).
 *
 * A deadline is a field of struct roce_qp, 0 if it is not armed: probe_ns and rnr_ns belong to
 * retransmit.c, again_ns is for all other retries. Callers hold the QP's lock.
 */
#ifndef ROCE_QP_TIMER_H
#define ROCE_QP_TIMER_H

#include "roce/roce_qp.h"

/* A deadline was set: arms the timer for the earliest of them, or earlier. */
void qp_timer_arm(struct roce_qp *tq);

/* The QP gets a flush (flush_list.h) at this time, CLOCK_MONOTONIC ns, or earlier. */
void qp_timer_again(struct roce_qp *tq, uint64_t when_ns);

/* No deadline is armed any more. */
void qp_timer_stop(struct roce_qp *tq);

#endif
