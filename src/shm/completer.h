/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completer - handles the answers to this process's requests.
 *
 * In:  acknowledgements (the other side's acked index), NAKs, READ and atomic responses.
 * Out: finished WQEs, data of READs and atomics in the program's memory, retries.
 *
 * Callers hold the link's rx_lock and the QP's lock. What the peer sends never makes it fail.
 */
#ifndef SHM_COMPLETER_H
#define SHM_COMPLETER_H

#include "shm/shm_qp.h"

/*
 * The message of WQE `seq` was executed. The caller calls shm_requester_on_progress afterwards.
 */
void shm_completer_on_ack(struct shm_qp *lq, uint32_t seq);

void shm_completer_on_nak(struct shm_qp *lq, const struct record_header *header);
void shm_completer_on_response(struct shm_qp *lq, const struct record_header *header,
			       const void *payload);

#endif
