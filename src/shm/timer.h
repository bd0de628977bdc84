/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timer - when requesters that wait go on: one deadline a QP.
 *
 * In:  waits that begin and end; answers of verbatimd.
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
 * The requester is in this state until then, CLOCK_MONOTONIC ns; a timer that was armed before is
 * not.
 */
void shm_timer_arm(struct shm_qp *lq, enum requester_state state, uint64_t deadline_ns);
void shm_timer_disarm(struct shm_qp *lq);

/*
 * Barrier ANSWER: the requester notes the number of answers before it looks for a process. If it
 * then waits and the number has grown, it looks once more. The adapter enters an answer where
 * requesters look before it calls shm_retry_on_peers: so none is missed.
 */
void shm_timer_on_look(struct shm_qp *lq);
/* verbatimd has answered: all that wait for that are due. Any thread. False: none does. */
bool shm_timer_on_answer(void);

/* When the next timer is due, CLOCK_MONOTONIC ns, or SHM_TIMER_NEVER. Any thread, no lock. */
uint64_t shm_timer_deadline_ns(void);

/*
 * Disarms one that is due: its QP; 0: none, and the adapter knows the next deadline. No QP's lock
 * is held.
 */
uint32_t shm_timer_take_due(uint64_t now_ns);

void shm_timer_reset_after_fork(void);

#endif
