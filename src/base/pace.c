/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/pace.h"

uint32_t pace_allows(struct pace *pace, uint32_t packet_bytes, uint64_t now_ns)
{
	uint64_t passed = now_ns - pace->since_ns;
	uint64_t earned;

	if (passed > PACE_INTERVAL_NS)
		passed = PACE_INTERVAL_NS;
	earned = pace->bytes + passed * PACE_BURST_BYTES / PACE_INTERVAL_NS;
	pace->bytes = earned < PACE_BURST_BYTES ? (uint32_t)earned : PACE_BURST_BYTES;
	pace->since_ns = now_ns;
	return pace->bytes / packet_bytes;
}

void pace_use(struct pace *pace, uint32_t bytes)
{
	pace->bytes -= bytes;
}
