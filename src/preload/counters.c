/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/counters.h"

#include <errno.h>
#include <stdio.h>

#include "base/uncancelled.h"

int counters_text(const struct counter_file *file, const char *device, char *text, size_t size)
{
	uint64_t counts[CTL_COUNTS], value = 0;
	int before = errno, rc;
	char why[256];

	UNCANCELLED;

	rc = observe_counters(device, counts, why, sizeof(why));
	errno = before;
	if (rc && rc != -ECONNREFUSED)
		return rc;
	for (unsigned i = file->first; i <= file->last; i++)
		value += counts[i];
	return snprintf(text, size, "%llu\n", (unsigned long long)(value / file->unit));
}
