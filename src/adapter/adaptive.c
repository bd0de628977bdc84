/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/adaptive.h"

void adaptive_on_found(struct adaptive *adaptive)
{
	if (++adaptive->found >= ADAPTIVE_WORTH)
		adaptive->pause = 0;
}

void adaptive_on_empty(struct adaptive *adaptive)
{
	if (adaptive->found < ADAPTIVE_WORTH) {
		uint32_t pause = (adaptive->pause + ADAPTIVE_PAUSE_MIN) * 4;

		adaptive->pause = (pause < ADAPTIVE_PAUSE_MAX ? pause : ADAPTIVE_PAUSE_MAX) -
				  ADAPTIVE_PAUSE_MIN;
	}
	adaptive->keeps_polling = false;
	adaptive->short_sleeps = adaptive->found = 0;
}

void adaptive_on_slept(struct adaptive *adaptive, uint64_t ns)
{
	adaptive->short_sleeps = ns < ADAPTIVE_SHORT_NS ? adaptive->short_sleeps + 1 : 0;
	adaptive->keeps_polling = adaptive->short_sleeps >= adaptive->pause + ADAPTIVE_PAUSE_MIN;
}
