/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Post - shared by ibv_post_send and the builders ibv_wr_*. Callers hold the QP's lock.
 */
#ifndef VERBS_POST_H
#define VERBS_POST_H

#include "object/qp.h"

/* 0, or EINVAL with a cause: the QP's state takes no sends. */
int post_check_state(const struct qp *qp);

/*
 * Starts the requests that were added to the SQ from `from` on; in ERR it flushes them. Copies the
 * data of datagrams that have to wait.
 */
void post_done(struct qp *qp, uint32_t from) REQUIRES(qp->lock);

#endif
