/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timer - the deadlines of waiting requesters, one a QP.
 *
 * In:  begins and ends of waits; answers of verbatimd.
 * Out: the next deadline, to the adapter (shm_env.deadline); QPs whose wait is over, to retry.c.
 *
 * Callers hold the QP's lock unless said otherwise. Has a lock of its own, inside QP locks.
 */
#ifndef SHM_TIMER_H
#define SHM_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/shm_qp.h"

/* No timer is armed. */
#define SHM_TIMER_NEVER UINT64_MAX

/*
 * The requester is in this state until the deadline, CLOCK_MONOTONIC ns. Replaces an earlier timer.
 */
void shm_timer_arm(struct shm_qp *lq, enum requester_state state, uint64_t deadline_ns);
void shm_timer_disarm(struct shm_qp *lq);
/* Also while a thread that has found it due waits for the QP's lock: its end is to come. */
bool shm_timer_is_armed(struct shm_qp *lq);

/*
 * Barrier ANSWER: the requester notes the number of answers before it looks for a process. If it
 * then waits and the number has grown, it looks once more. The adapter stores an answer in its
 * tables before it calls shm_retry_on_peers, so no requester misses it.
 */
void shm_timer_on_look(struct shm_qp *lq);
/*
 * verbatimd has answered: all timers that wait for an answer are due. Any thread. False: none
 * waits.
 */
bool shm_timer_on_answer(void);

/* When the next timer is due, CLOCK_MONOTONIC ns, or SHM_TIMER_NEVER. Any thread, no lock. */
uint64_t shm_timer_deadline_ns(void);

/*
 * Disarms a timer that is due, and returns its QP's number. 0: none is due, and the adapter knows
 * the next deadline. The caller holds no QP's lock.
 */
uint32_t shm_timer_take_due(uint64_t now_ns);
/* Then, under that QP's lock. False: it was armed again or disarmed meanwhile, so it is not due. */
bool shm_timer_end(struct shm_qp *lq);

void shm_timer_reset_after_fork(void);

#endif
