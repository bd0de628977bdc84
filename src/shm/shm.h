/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shm - the path between processes of one host, through shared memory: struct qp_path for RC, UC
 * and UD; and for the RC QPs of RNICs, whose connection has a TCP socket beside it
 * (tcp/control.h).
 *
 * See docs/design/transport.md: the floors of this folder, and what corresponds to the wire.
 */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include "shm/shm_qp.h"

/* Once per adapter. */
void shm_init(const struct shm_env *env);
void shm_reset_after_fork(void);

/*
 * shm_rnic_path: what shm_path does, and word of what the socket has to tell the peer. The
 * connection brings the path, so ibv_modify_qp to RTR connects nothing, and SQD is its orderly end.
 */
struct shm_rnic_env {
	void (*on_quiesce)(struct qp *qp); /* the QP is in ERR or RESET */
	void (*close)(struct qp *qp);	   /* as struct qp_path's */
};

/* Once per adapter. */
void shm_rnic_init(const struct shm_rnic_env *env);

/*
 * The path is the QP's from now on; its attributes are set. With `gated` it sends nothing until
 * shm_rnic_open. 0, or an errno and the QP has the path of before: ENOMEM; ECONNREFUSED: there is
 * no link to the peer's process.
 */
int shm_rnic_connect(struct qp *qp, bool gated) REQUIRES(qp->lock);
void shm_rnic_open(struct qp *qp) REQUIRES(qp->lock);

/*
 * The QP at the other end is in RTS, and connected to this one, in the process whose arena has this
 * cookie.
 */
bool shm_rnic_is_served(struct qp *qp, uint64_t cookie) REQUIRES(qp->lock);

#endif
