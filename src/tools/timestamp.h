/* SPDX-License-Identifier: BSD-2-Clause */
/* Timestamp - prints a time of CLOCK_REALTIME, in ns. */
#ifndef TOOLS_TIMESTAMP_H
#define TOOLS_TIMESTAMP_H

#include <stdint.h>

#define TIMESTAMP_ROOM 48

/* "2024-05-01 12:34:56.123", local time. */
void timestamp_local(uint64_t time_ns, char out[TIMESTAMP_ROOM]);

/* "2024-05-01T10:34:56.123456Z" */
void timestamp_iso(uint64_t time_ns, char out[TIMESTAMP_ROOM]);

#endif
