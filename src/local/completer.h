/*
 * Completer - takes the answers to this process's requests.
 *
 * In:  acknowledgements (the other side's acked index), NAKs, READ and atomic responses.
 * Out: finished WQEs, data of READs and atomics in the program's memory, retries.
 *
 * Callers hold the link's rx_lock and the QP's lock. What the peer sends never makes it fail.
 */
#ifndef LOCAL_COMPLETER_H
#define LOCAL_COMPLETER_H

#include "local/local_qp.h"

/* The message of WQE `seq` was carried out. The caller calls local_requester_on_progress afterwards. */
void local_completer_on_ack(struct qp *qp, uint32_t seq);

void local_completer_on_nak(struct qp *qp, const struct record_header *header);
void local_completer_on_response(struct qp *qp, const struct record_header *header, const void *payload);

#endif
