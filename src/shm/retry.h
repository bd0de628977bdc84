/*
 * Retry - what a requester does when its messages were not carried out: waits, goes back, gives up.
 *
 * In:  NAKs that allow another try, the passing of time.
 * Out: requests issued again; or the failure of the QP.
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

/* Without a time-out (attribute 0) it waits so long at first, then twice as long each time, up to 160 ms. */
#define RETRY_ENDLESS_NS  10000000ull
#define RETRY_BACKOFF_MAX 4
/* The same, but the responder waits for the end of a copy (NAK_UNCOUNTED): no try is counted. */
void shm_retry_on_busy(struct shm_qp *lq, uint32_t seq, uint8_t timer);

/* The request at sq.issue waits for the end of a copy: it is looked at again, for ever. */
void shm_retry_on_revocation(struct shm_qp *lq);

/* The message that `seq` names will not be answered: time-out, then again (IBA 9.7.6.1.3). */
void shm_retry_on_silence(struct shm_qp *lq, uint32_t seq, enum cause cause);

/*
 * The destination of the request `seq` is gone: it fails when its time-outs would have failed it, after
 * RETRY_LOSS_NS at most. Programs end while the last answers to them are on the way, and the other end
 * counts on time to see that it has all it wanted before one of those fails (ibv_srq_pingpong).
 */
#define RETRY_LOSS_NS 50000000ull
void shm_retry_on_loss(struct shm_qp *lq, uint32_t seq, enum cause cause);

/* A datagram found a ring full: it waits RETRY_FULL_NS, then wqe.route is set and it is dropped. */
#define RETRY_FULL_NS 50000000ull
void shm_retry_on_full(struct shm_qp *lq);
/* There is room again. */
void shm_retry_on_room(struct shm_qp *lq);

/*
 * The request at sq.issue needs what verbatimd was asked for: a process, a group's members, a port. True: the QP
 * waits for it; false: it has waited, and nothing is known: it goes on without. verbatimd's answer ends the wait;
 * so long it lasts only if there is none, and on a busy machine an answer takes its time. One that is of something
 * else ends no wait.
 */
#define RETRY_PEER_NS 1000000000ull
bool shm_retry_on_unknown(struct shm_qp *lq);
/*
 * Barrier ANSWER: before a process is looked for, what was answered until then is noted; who then waits for an
 * answer looks once more if there was one since. verbatimd's answer is entered where processes are looked for
 * before shm_retry_on_peers is called: so none is missed.
 */
void shm_retry_on_look(struct shm_qp *lq);
/* verbatimd told of a process, or that there is none: those that wait try again. No QP lock may be held. */
void shm_retry_on_peers(void);

/* A datagram found the wire full: true: it is tried again soon; false: it has waited long enough. */
bool shm_retry_on_wire_full(struct shm_qp *lq, struct wqe *wqe);

/* A message was acknowledged: the counters start anew. */
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
