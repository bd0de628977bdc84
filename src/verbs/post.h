/*
 * Post - what ibv_post_send and the builders ibv_wr_* share.
 */
#ifndef VERBS_POST_H
#define VERBS_POST_H

#include "object/qp.h"

/* 0, or EINVAL with a cause: sends cannot be posted in this state. Caller holds the lock. */
int post_check_state(const struct qp *qp);

/* Requests were added to the send queue: has them carried out, or flushed. Caller holds the lock. */
void post_done(struct qp *qp);

/*
 * Ends a post: releases the lock, and stays while a datagram waits to learn of its destination's process,
 * for POST_SEEK_NS at most. There are programs that take its memory back before it completes, once the
 * other end shows that it has heard of them (UCX, when both ends connect): an HCA has sent it by then.
 */
#define POST_SEEK_NS 50000000ull
void post_end(struct qp *qp) RELEASES(qp->lock);

#endif
