/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters - count the frames and bytes that flows have steered: ibv_create_counters(3).
 *
 * In:  the kind of each index of the program's array (counters_define); frames.
 * Out: the counts.
 *
 * Any thread; nothing blocks.
 */
#ifndef OBJECT_COUNTERS_H
#define OBJECT_COUNTERS_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "object/live_object.h"

#define COUNTERS_MAX 16 /* indices of one object */

struct counters {
	struct ibv_counters ib;
	/* how often each index was defined as each enum ibv_counter_description */
	_Atomic uint32_t defined[COUNTERS_MAX][IBV_COUNTER_BYTES + 1];
	_Atomic uint64_t packets, bytes;
	_Atomic uint32_t flows; /* EBUSY while not 0 */
	struct live_object live;
};

static inline struct counters *counters_of(struct ibv_counters *ib)
{
	return (struct counters *)ib;
}

struct counters *counters_create(struct ibv_context *context); /* NULL: no memory */
int counters_destroy(struct counters *counters);	       /* 0, -EBUSY with a cause reported */

/*
 * Makes `index` count `kind`, beside what it counts already: 0, -EINVAL (index), -EOPNOTSUPP
 * (kind), -EBUSY (a flow counts there), with a cause reported. ibv_attach_counters_point_flow(3).
 */
int counters_define(struct counters *counters, uint32_t index, uint32_t kind);

/*
 * Writes the first `count` values: 0, or -EINVAL if `count` is too small for the defined indices.
 */
int counters_read(const struct counters *counters, uint64_t *values, uint32_t count);

static inline void counters_add(struct counters *counters, size_t bytes)
{
	atomic_fetch_add_explicit(&counters->packets, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&counters->bytes, bytes, memory_order_relaxed);
}

#endif
