/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retry - when a wait of a requester is over it goes on, or its request fails.
 *
 * In:  time; answers of verbatimd. What a requester waits for is in backoff.h.
 * Out: requests issued again, or a failed QP.
 *
 * Any thread, with no lock of a QP.
 */
#ifndef SHM_RETRY_H
#define SHM_RETRY_H

#include <stdint.h>

/* Runs what is due (shm_timer_deadline_ns). */
void shm_retry_run(uint64_t now_ns);

/* verbatimd has answered: requesters that wait for that look again. */
void shm_retry_on_peers(void);

#endif
