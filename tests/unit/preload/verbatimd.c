/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbatimd.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int verbatimd_error;
uint64_t verbatimd_counts[CTL_COUNTS];
char verbatimd_device[CTL_DEVICE_BYTES];
unsigned verbatimd_asked;
uint64_t verbatimd_now_ns = 1;

int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	*out = (struct timespec){ (time_t)(verbatimd_now_ns / 1000000000),
				  (long)(verbatimd_now_ns % 1000000000) };
	return 0;
}

int observe_counters(const char *device, uint64_t out[CTL_COUNTS], char *why, size_t why_len)
{
	verbatimd_asked++;
	snprintf(verbatimd_device, sizeof(verbatimd_device), "%s", device);
	memset(out, 0, CTL_COUNTS * sizeof(*out));
	if (!verbatimd_error)
		memcpy(out, verbatimd_counts, CTL_COUNTS * sizeof(*out));
	return verbatimd_error;
}
