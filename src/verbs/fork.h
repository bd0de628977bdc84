/*
 * Fork - exported names of fork support that no header of rdma-core declares.
 */
#ifndef VERBS_FORK_H
#define VERBS_FORK_H

#include <stddef.h>

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

#endif
