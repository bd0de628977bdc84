/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shm - the path between processes of one host, through shared memory: struct qp_path for RC, UC
 * and UD.
 *
 * See docs/design/transport.md: the floors of this folder, and what corresponds to the wire.
 */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include "shm/shm_qp.h"

/* Once per adapter. */
void shm_init(const struct shm_env *env);
void shm_reset_after_fork(void);

#endif
