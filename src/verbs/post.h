/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Post - what ibv_post_send and the builders ibv_wr_* share.
 */
#ifndef VERBS_POST_H
#define VERBS_POST_H

#include "object/qp.h"

/* 0, or EINVAL with a cause: sends cannot be posted in this state. Caller holds the lock. */
int post_check_state(const struct qp *qp);

/*
 * Requests were added to the send queue from `from` on: has them carried out, or flushed, and keeps the data
 * of datagrams that have to wait. Caller holds the lock.
 */
void post_done(struct qp *qp, uint32_t from);

#endif
