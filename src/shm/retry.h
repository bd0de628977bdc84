/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retry - a requester whose messages were not carried out waits, goes back, or gives up.
 *
 * In:  NAKs that allow another try; time.
 * Out: requests issued again, or a failed QP.
 *
 * Only this file knows which timers exist. Callers hold the QP's lock unless said otherwise.
 */
#ifndef SHM_RETRY_H
#define SHM_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/shm_qp.h"

/* No timer is armed. */
#define RETRY_NEVER UINT64_MAX

/* The responder had no receive for the message `seq` names; `timer` is its RNR timer code, 0..31. */
void shm_retry_on_rnr_nak(struct shm_qp *lq, uint32_t seq, uint8_t timer);

/* The same, but the responder waits for the end of a copy (NAK_UNCOUNTED): no try is counted. */
void shm_retry_on_busy(struct shm_qp *lq, uint32_t seq, uint8_t timer);

/* The request at sq.issue ends a key by which another thread copies: the requester looks again later. */
void shm_retry_on_revocation(struct shm_qp *lq);

/* With time-out attribute 0 the requester backs off: from so long, doubling, up to 160 ms. */
#define RETRY_ENDLESS_NS  10000000ull
#define RETRY_BACKOFF_MAX 4

/* The message that `seq` names gets no answer: after its time-out it is sent again (IBA 9.7.6.1.3). */
void shm_retry_on_silence(struct shm_qp *lq, uint32_t seq, enum cause cause);

/*
 * The destination of the request `seq` is gone. The request fails when its time-outs would have run out,
 * after RETRY_LOSS_NS at most. Not at once: a program may exit while the last answers to it are on the
 * way, and the other end needs a moment to see that it has all it wanted (ibv_srq_pingpong).
 */
#define RETRY_LOSS_NS 50000000ull
void shm_retry_on_loss(struct shm_qp *lq, uint32_t seq, enum cause cause);

/* A datagram found a ring full: it waits RETRY_FULL_NS, then it is dropped (ROUTE_MESSAGE). */
#define RETRY_FULL_NS 50000000ull
void shm_retry_on_full(struct shm_qp *lq);
/* There is room again. */
void shm_retry_on_room(struct shm_qp *lq);

/*
 * The request at sq.issue needs an answer of verbatimd: about a process, a group's members, or a port.
 * True: the QP waits for it, RETRY_PEER_NS at most. False: it has waited in vain, and goes on without.
 * After each answer the requester looks again; if that answer was about something else, it waits on.
 */
#define RETRY_PEER_NS 1000000000ull
bool shm_retry_on_unknown(struct shm_qp *lq);
/*
 * Barrier ANSWER: the requester notes the number of answers before it looks for a process. If it then
 * waits and the number has grown, it looks once more. The adapter enters an answer where requesters look
 * before it calls shm_retry_on_peers: so none is missed.
 */
void shm_retry_on_look(struct shm_qp *lq);
/* verbatimd has answered: requesters that wait for that look again. No QP lock may be held. */
void shm_retry_on_peers(void);

/* A datagram found the socket full. True: it is tried again soon; false: it has waited RETRY_FULL_NS. */
bool shm_retry_on_wire_full(struct shm_qp *lq, struct wqe *wqe);

/* A message was acknowledged: the retry counters start anew. */
void shm_retry_on_ack(struct shm_qp *lq);

/* The QP is about to start, or leaves its connection. */
void shm_retry_start(struct shm_qp *lq);
void shm_retry_stop(struct shm_qp *lq);

/* When the next timer is due, CLOCK_MONOTONIC ns, or RETRY_NEVER. Any thread, no lock. */
uint64_t shm_retry_deadline_ns(void);

/* Runs what is due. No QP lock may be held. */
void shm_retry_run(uint64_t now_ns);

void shm_retry_reset_after_fork(void);

#endif
