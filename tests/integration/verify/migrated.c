/* SPDX-License-Identifier: BSD-2-Clause */
#include "migrated.h"

#include <stdio.h>
#include <string.h>

/* Pages that left without a hold are private pages of the heap's file. */
bool region_is_migrated(const void *memory)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, at = (unsigned long)memory;
	bool found = false;
	char line[512], rights[5];

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && at >= start &&
		    at < end)
			found = rights[3] == 's' && strstr(line, "verbatim-heap");
	if (maps)
		fclose(maps);
	return found;
}
