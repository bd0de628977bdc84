/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shm - the path between processes of one host, through shared memory: struct qp_path for RC, UC and
 * UD.
 *
 * Where to look: requester.c (posted requests become records), onesided.c and xcopy.c (WRITE and READ
 * on the peer's memory), responder.c (requests of peers), answer.c (responses and NAKs to them),
 * completer.c (answers to this process's requests), datagram.c (UD), retry.c (timers), progress.c
 * (works through a link), imported.c (ibv_import_mr), link.c, ring.h, record.h (the shared memory).
 */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include "shm/shm_qp.h"

/* Once per adapter. */
void shm_init(const struct shm_env *env);
void shm_reset_after_fork(void);

#endif
