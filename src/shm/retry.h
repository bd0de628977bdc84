/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retry - after a requester's wait issues its requests again, or fails one.
 *
 * In:  time; answers of verbatimd. backoff.h has the kinds of waits.
 * Out: requests issued again, or a failed QP.
 *
 * Any thread, with no lock of a QP.
 */
#ifndef SHM_RETRY_H
#define SHM_RETRY_H

#include <stdint.h>

/* Handles all timers that are due (shm_timer_deadline_ns). */
void shm_retry_run(uint64_t now_ns);

/* verbatimd has answered: requesters that wait for an answer try again. */
void shm_retry_on_peers(void);

#endif
