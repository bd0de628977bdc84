/* SPDX-License-Identifier: BSD-2-Clause */
/* GID - the GID table of a context's port, for verbs. */
#ifndef VERBS_GID_H
#define VERBS_GID_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "netdev/device.h"
#include "base/gid.h"
#include "object/context.h"

/* The GID at the index. False: the index does not exist or is empty, and *gid is 0. */
bool gid_at(struct context *context, uint32_t index, union ibv_gid *gid);

/* The index of the GID, or -1. */
int gid_index_of(struct context *context, const union ibv_gid *gid);

#endif
