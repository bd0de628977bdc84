/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control - the TCP socket of an RNIC's QP whose path is shared memory (iwarp/same_host.h).
 *
 * In:  sockets of established connections; their ends.
 * Out: the end of each connection, to its QP and to librdmacm, as of one whose bytes go by TCP.
 *
 * The socket carries the peer's SAME_HOST_READY, then its FIN, or a reset if its process dies. The
 * progress thread alone reads it, so a poll costs nothing. Before a FIN counts, that
 * thread takes what is in shared memory; before that of a QP that has failed leaves, too, with the
 * locks of those that store there. So no FIN overtakes a NAK or an acknowledgement.
 *
 * The states of a QP with such a socket, by its last event:
 *
 * | event                                   | then                                               |
 * | --------------------------------------- | -------------------------------------------------- |
 * | rdma_disconnect, ibv_modify_qp to SQD   | its requests; the FIN; for 30 s without progress   |
 * | its FIN has left                        | the peer's FIN, for 30 s                           |
 * | the peer's FIN, while the peer serves   | what was posted before, then ERR                   |
 * | the peer's FIN, a reset, a limit        | ERR                                                |
 * | ERR, RESET, ibv_destroy_qp              | the stream ends (tcp/stream.h)                     |
 *
 * Functions with a QP are called with its lock.
 */
#ifndef TCP_CONTROL_H
#define TCP_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "object/qp.h"

struct tcp_control_env {
	/* The peer's QP is ready. With the lock. */
	void (*on_ready)(struct qp *qp);
	/*
	 * The peer's QP is in RTS and connected to this one, and the arena of its process has this
	 * cookie. With the lock.
	 */
	bool (*is_served)(struct qp *qp, uint64_t cookie);
	/* Takes what is in shared memory for this QP. Without locks. */
	void (*catch_up)(uint32_t qpn);
};

/* Once per adapter, after streams_init. 0 or -errno. */
int tcp_control_init(const struct tcp_control_env *env);

/* Readable while a socket is; -1: there is none. */
int tcp_control_epoll(void);

/*
 * The socket is the QP's, which is as streams_attach wants it; the caller then moves the QP to RTS.
 * `cookie`: of the peer's arena. -EINVAL: it is not so. Else 0 or -errno.
 */
int tcp_control_attach(struct qp *qp, int fd, uint64_t cookie, void (*ended)(void *arg), void *arg)
	REQUIRES(qp->lock);
/* It is the caller's again. */
void tcp_control_detach(struct qp *qp) REQUIRES(qp->lock);

/* The first bytes to the peer, a few. If they cannot leave the QP goes to ERR. */
void tcp_control_send(struct qp *qp, const void *bytes, size_t count) REQUIRES(qp->lock);

/* What was posted to a held QP is executed by the progress thread. */
void tcp_control_issue_later(struct qp *qp) REQUIRES(qp->lock);

/* An orderly end. */
void tcp_control_disconnect(struct qp *qp) REQUIRES(qp->lock);

/* The QP is in ERR or RESET. */
void tcp_control_on_quiesce(struct qp *qp);

/* Progress thread: tcp_control_epoll's descriptor is readable; what there is to do. True: more. */
void tcp_control_on_readable(int fd);
bool tcp_control_service(void);

void tcp_control_reset_after_fork(void);

#endif
