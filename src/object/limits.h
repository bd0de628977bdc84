/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits - the limits of the device, as ibv_query_device returns them.
 *
 * They are small enough for programs to reach them (CONTRACT 2). Some follow from the format of the
 * arena (base/arena.h).
 */
#ifndef OBJECT_LIMITS_H
#define OBJECT_LIMITS_H

#include "base/arena.h"

/* index 0 is unused, and so is the highest: in the last slot it would be the QP number of groups */
#define LIMIT_QP		    (ARENA_QPS - 2)
#define LIMIT_RAW_QP		    64 /* RAW_PACKET QPs of a process */
#define LIMIT_QP_WR		    16384
#define LIMIT_SGE		    32
#define LIMIT_SGE_RD		    32
#define LIMIT_INLINE		    1024 /* bytes */
#define LIMIT_CQ		    65536
#define LIMIT_CQE		    4194303 /* as mlx5; memory is allocated as a CQ fills */
#define LIMIT_COMP_VECTORS	    4
#define LIMIT_SRQ		    4096
#define LIMIT_SRQ_WR		    16384
#define LIMIT_SRQ_SGE		    32
#define LIMIT_MR		    (ARENA_KEYS - 1) /* MRs and windows share the keys */
#define LIMIT_MW		    (ARENA_KEYS - 1)
#define LIMIT_PD		    65535 /* handles */
#define LIMIT_AH		    65536
#define LIMIT_QP_RD_ATOM	    32 /* outstanding READs and atomics of a QP, in each direction */
#define LIMIT_MCAST_GRP		    256 /* this and both below: of a process, all devices together */
#define LIMIT_MCAST_QP_ATTACH	    256 /* QPs in one group */
#define LIMIT_TOTAL_MCAST_QP_ATTACH 1024
#define LIMIT_MESSAGE		    0x40000000u /* bytes of one message: 1 GiB */
#define LIMIT_PKEYS		    1
#define LIMIT_CQ_MODERATE	    65535 /* completions, and microseconds */

#endif
