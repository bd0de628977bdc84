/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/pace.h"

uint32_t pace_burst(uint32_t buffer_bytes)
{
	uint32_t burst = PACE_BUFFERED(buffer_bytes);

	if (burst > PACE_BURST_MAX_BYTES)
		return PACE_BURST_MAX_BYTES;
	return burst > PACE_BURST_BYTES ? burst : PACE_BURST_BYTES;
}

/* Of PACE_SHARES. */
static uint32_t withheld(const struct pace *pace, uint64_t now_ns)
{
	uint64_t regrown = (now_ns - pace->marked_ns) / PACE_INTERVAL_NS * PACE_REGROWTH;

	return regrown < pace->withheld ? pace->withheld - (uint32_t)regrown : 0;
}

void pace_on_mark(struct pace *pace, uint64_t now_ns)
{
	uint32_t share = (PACE_SHARES - withheld(pace, now_ns)) / 2;

	if (pace->withheld && now_ns - pace->marked_ns < PACE_INTERVAL_NS)
		return;
	pace->withheld = PACE_SHARES - (share > PACE_SHARES_MIN ? share : PACE_SHARES_MIN);
	pace->marked_ns = now_ns;
}

uint32_t pace_allows(struct pace *pace, uint32_t burst, uint64_t now_ns)
{
	uint64_t passed = now_ns - pace->since_ns;
	uint64_t earned, shares = PACE_SHARES - withheld(pace, now_ns);

	if (passed > PACE_INTERVAL_NS)
		passed = PACE_INTERVAL_NS;
	earned = pace->bytes + passed * shares * burst / (PACE_SHARES * PACE_INTERVAL_NS);
	pace->bytes = earned < burst ? (uint32_t)earned : burst;
	pace->since_ns = now_ns;
	return pace->bytes;
}

void pace_use(struct pace *pace, uint32_t bytes)
{
	pace->bytes -= bytes;
}
