/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/timestamp.h"

#include <stdio.h>
#include <time.h>

#define NS_PER_S 1000000000u

void timestamp_local(uint64_t time_ns, char out[TIMESTAMP_ROOM])
{
	time_t seconds = (time_t)(time_ns / NS_PER_S);
	char text[32] = "?";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(out, TIMESTAMP_ROOM, "%s.%03u", text, (unsigned)(time_ns % NS_PER_S / 1000000));
}

void timestamp_iso(uint64_t time_ns, char out[TIMESTAMP_ROOM])
{
	time_t seconds = (time_t)(time_ns / NS_PER_S);
	char text[32] = "?";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, TIMESTAMP_ROOM, "%s.%06uZ", text, (unsigned)(time_ns % NS_PER_S / 1000));
}
