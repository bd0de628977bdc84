/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/verbs.h>

#include "verbs/export.h"
#include "verbs/undeclared.h"

/* Nothing is pinned, so copy-on-write does no harm: parent and child each have their own memory. */

VERBS_EXPORT int ibv_fork_init(void)
{
	return 0;
}

VERBS_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

VERBS_EXPORT int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

VERBS_EXPORT int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
