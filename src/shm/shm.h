/*
 * Local - the path between processes of one host: struct qp_path for RC, UC and UD.
 *
 * Where to look: requester.c (posted work), onesided.c (WRITE, READ on the peer's memory),
 * responder.c (what peers ask), completer.c (what they answer), datagram.c (UD), retry.c (timers),
 * progress.c (who comes by), link.c, ring.h, record.h (the shared memory).
 */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include "shm/shm_qp.h"

/* Once per adapter. */
void shm_init(const struct shm_env *env);
void shm_reset_after_fork(void);

#endif
