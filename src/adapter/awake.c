#include "adapter/awake.h"

#define FORGET 64 /* successes make the pause shorter by this part of it */

void awake_on_found(struct awake *awake)
{
	awake->pause -= (awake->pause + FORGET - 1) / FORGET;
}

void awake_on_vain(struct awake *awake)
{
	uint32_t pause = (awake->pause + AWAKE_PAUSE_MIN) * 4;

	awake->pause = (pause < AWAKE_PAUSE_MAX ? pause : AWAKE_PAUSE_MAX) - AWAKE_PAUSE_MIN;
	awake->looks = false;
	awake->sleeps = 0;
}

void awake_on_slept(struct awake *awake, uint64_t ns)
{
	awake->sleeps = ns < AWAKE_NS ? awake->sleeps + 1 : 0;
	awake->looks = awake->sleeps >= awake->pause + AWAKE_PAUSE_MIN;
}
