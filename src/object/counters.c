/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/counters.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cause.h"

struct counters *counters_create(struct ibv_context *context)
{
	struct counters *counters = calloc(1, sizeof(*counters));

	if (!counters) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "counters");
		return NULL;
	}
	counters->ib.context = context;
	return counters;
}

int counters_destroy(struct counters *counters)
{
	uint32_t flows = atomic_load(&counters->flows);

	if (flows) {
		cause_report(CAUSE_BUSY_COUNTERS, 0, "%u", flows);
		return -EBUSY;
	}
	free(counters);
	return 0;
}

int counters_define(struct counters *counters, uint32_t index, uint32_t kind)
{
	if (kind != IBV_COUNTER_PACKETS && kind != IBV_COUNTER_BYTES) {
		cause_report(CAUSE_UNSUPPORTED, 0, "counter description %u", kind);
		return -EOPNOTSUPP;
	}
	if (index >= COUNTERS_MAX) {
		cause_report(CAUSE_LIMIT_EXCEEDED, 0, "counter index %u, less than %u", index,
			     COUNTERS_MAX);
		return -EINVAL;
	}
	if (atomic_load(&counters->flows)) {
		cause_report(CAUSE_BUSY_COUNTERS, 0, "%u", atomic_load(&counters->flows));
		return -EBUSY;
	}
	atomic_fetch_add(&counters->defined[index][kind], 1);
	return 0;
}

static uint64_t times(const struct counters *counters, uint32_t index, uint32_t kind)
{
	return index < COUNTERS_MAX ? atomic_load(&counters->defined[index][kind]) : 0;
}

int counters_read(const struct counters *counters, uint64_t *values, uint32_t count)
{
	uint64_t packets = atomic_load_explicit(&counters->packets, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&counters->bytes, memory_order_relaxed);

	for (uint32_t i = count; i < COUNTERS_MAX; i++)
		if (times(counters, i, IBV_COUNTER_PACKETS) ||
		    times(counters, i, IBV_COUNTER_BYTES)) {
			cause_report(CAUSE_ARGUMENT_INVALID, 0,
				     "ibv_read_counters: %u places, counter %u is defined", count,
				     i);
			return -EINVAL;
		}
	for (uint32_t i = 0; i < count; i++)
		values[i] = times(counters, i, IBV_COUNTER_PACKETS) * packets +
			    times(counters, i, IBV_COUNTER_BYTES) * bytes;
	return 0;
}
