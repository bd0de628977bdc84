#include "adapter/awake.h"

void awake_on_found(struct awake *awake)
{
	if (++awake->found >= AWAKE_WORTH)
		awake->pause = 0;
}

void awake_on_vain(struct awake *awake)
{
	if (awake->found < AWAKE_WORTH) {
		uint32_t pause = (awake->pause + AWAKE_PAUSE_MIN) * 4;

		awake->pause = (pause < AWAKE_PAUSE_MAX ? pause : AWAKE_PAUSE_MAX) - AWAKE_PAUSE_MIN;
	}
	awake->looks = false;
	awake->sleeps = awake->found = 0;
}

void awake_on_slept(struct awake *awake, uint64_t ns)
{
	awake->sleeps = ns < AWAKE_SHORT_NS ? awake->sleeps + 1 : 0;
	awake->looks = awake->sleeps >= awake->pause + AWAKE_PAUSE_MIN;
}
