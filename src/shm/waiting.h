/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting - the lists of QPs that wait on a link: for room in its ring, for another turn, to send
 * answers.
 *
 * In:  QPs whose requester cannot continue now; from answer.c QPs that have answers to send.
 * Out: the QP whose turn it is, when progress on the link serves the lists.
 *
 * Takes the link's wait_lock.
 */
#ifndef SHM_WAITING_H
#define SHM_WAITING_H

#include <stdint.h>

#include "shm/shm_qp.h"

/*
 * From now on the requester waits for room, or for another turn, on this link only. The QP then has
 * a reference to the link. Callers hold the QP's lock.
 */
void shm_waiting_for_room(struct shm_qp *lq, struct link *link);
void shm_waiting_for_turn(struct shm_qp *lq, struct link *link);
/* Ends the wait. */
void shm_waiting_leave(struct shm_qp *lq);

/* The first QP of one of the link's lists, which stays there; 0: none. */
uint32_t shm_waiting_first(struct link *link, struct list *head);
void shm_waiting_first_to_last(struct link *link, struct list *head);
/* Reads the length of a list, under the lock. */
uint32_t shm_waiting_count(struct link *link, const uint32_t *count);

#endif
