/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shm - the path between processes of one host, through shared memory: struct qp_path for RC, UC
 * and UD.
 *
 * The files, each line uses those below it:
 *   progress.c (processes records of a link), retry.c (the end of requesters' waits)
 *   completer.c (answers to this process's requests), responder.c (requests of peers)
 *   requester.c (posted requests become records)
 *   datagram.c (UD), onesided.c (WRITE and READ on the peer's memory), answer.c (responses, NAKs)
 *   backoff.c (why and how long a requester waits)
 *   sendq.c, timer.c, waiting.c (a QP's outstanding messages; its waits)
 *   shm_qp.h (a QP's state), imported.c (ibv_import_mr)
 *   link.c, xcopy.c, ring.h, record.h (the shared memory, the other process)
 */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include "shm/shm_qp.h"

/* Once per adapter. */
void shm_init(const struct shm_env *env);
void shm_reset_after_fork(void);

#endif
