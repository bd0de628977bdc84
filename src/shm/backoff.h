/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Backoff - how long a requester waits when messages were not executed, and from which request it
 * then continues.
 *
 * In:  NAKs that allow another try; a peer that is silent or gone; full rings and sockets.
 * Out: a timer (timer.h), after which retry.c lets the requester continue; or a failed request.
 *
 * Only this file and retry.c know which waits exist. Callers hold the QP's lock.
 */
#ifndef SHM_BACKOFF_H
#define SHM_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/shm_qp.h"

/*
 * The responder had no receive for the message of WQE `seq`; `timer` is its RNR timer code, 0..31.
 */
void shm_backoff_on_rnr_nak(struct shm_qp *lq, uint32_t seq, uint8_t timer);

/* The same, but the responder waits for the end of a copy (NAK_UNCOUNTED), so no try is counted. */
void shm_backoff_on_busy(struct shm_qp *lq, uint32_t seq, uint8_t timer);

/*
 * The request at sq.issue revokes a key by which another thread still copies: the requester tries
 * it again later.
 */
void shm_backoff_on_revocation(struct shm_qp *lq);

/* With time-out attribute 0 the requester retries for ever: after 10 ms, doubling up to 160 ms. */
#define BACKOFF_ENDLESS_NS    10000000ull
#define BACKOFF_DOUBLINGS_MAX 4

/*
 * The message of WQE `seq` gets no answer: the requester repeats it after its time-out (IBA
 * 9.7.6.1.3).
 */
void shm_backoff_on_silence(struct shm_qp *lq, uint32_t seq, enum cause cause);

/*
 * The destination of the request `seq` is gone. The request fails when its retries would be
 * exhausted, after BACKOFF_LOSS_NS at most. It does not fail at once: a program may exit while the
 * last answers to it are under way, and the other end needs a moment to finish (ibv_srq_pingpong).
 */
#define BACKOFF_LOSS_NS 50000000ull
void shm_backoff_on_loss(struct shm_qp *lq, uint32_t seq, enum cause cause);

/* A datagram found a ring full: it waits BACKOFF_FULL_NS, then it is dropped (ROUTE_MESSAGE). */
#define BACKOFF_FULL_NS 50000000ull
void shm_backoff_on_full(struct shm_qp *lq);
/* There is room again. */
void shm_backoff_on_room(struct shm_qp *lq);
/*
 * A datagram found the socket full. True: it is tried again soon; false: it has waited
 * BACKOFF_FULL_NS.
 */
bool shm_backoff_on_wire_full(struct shm_qp *lq, struct wqe *wqe);

/*
 * The request at sq.issue needs an answer of verbatimd: about a process, a group's members, or a
 * port. True: the QP waits for it, BACKOFF_PEER_NS at most. False: it has waited in vain, and
 * continues without. After each answer the requester tries again; if the answer was to another
 * question, it goes on waiting.
 */
#define BACKOFF_PEER_NS 1000000000ull
bool shm_backoff_on_unknown(struct shm_qp *lq);

/* The QP is about to start, or a message was acknowledged: resets the retry counters. */
void shm_backoff_on_ack(struct shm_qp *lq);

#endif
