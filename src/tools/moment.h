/*
 * Moment - a point of CLOCK_REALTIME as text.
 */
#ifndef TOOLS_MOMENT_H
#define TOOLS_MOMENT_H

#include <stdint.h>

#define MOMENT_ROOM 48

/* "2024-05-01 12:34:56.123", local time. */
void moment_local(uint64_t time_ns, char out[MOMENT_ROOM]);

/* "2024-05-01T10:34:56.123456Z" */
void moment_iso(uint64_t time_ns, char out[MOMENT_ROOM]);

#endif
