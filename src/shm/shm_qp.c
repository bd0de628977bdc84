/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/shm_qp.h"

struct shm_env shm_env;
_Thread_local uint64_t shm_moved __attribute__((tls_model("initial-exec")));
static _Atomic uint32_t epochs;

uint32_t shm_new_epoch(void)
{
	return atomic_fetch_add_explicit(&epochs, 1, memory_order_relaxed) + 1;
}
