#include "tools/moment.h"

#include <stdio.h>
#include <time.h>

#define NS_PER_S 1000000000u

void moment_local(uint64_t time_ns, char out[MOMENT_ROOM])
{
	time_t seconds = (time_t)(time_ns / NS_PER_S);
	char text[32] = "?";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(out, MOMENT_ROOM, "%s.%03u", text, (unsigned)(time_ns % NS_PER_S / 1000000));
}

void moment_iso(uint64_t time_ns, char out[MOMENT_ROOM])
{
	time_t seconds = (time_t)(time_ns / NS_PER_S);
	char text[32] = "?";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, MOMENT_ROOM, "%s.%06uZ", text, (unsigned)(time_ns % NS_PER_S / 1000));
}
