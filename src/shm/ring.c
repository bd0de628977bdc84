/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/ring.h"

#include <sys/mman.h>

#include "base/page.h"

_Static_assert(RING_BYTES % PAGE_BYTES_MAX == 0, "it is mapped twice in a row");

char *ring_map(int fd, size_t offset)
{
	char *area = mmap(NULL, 2 * RING_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		return area;
	for (int copy = 0; copy < 2; copy++)
		if (mmap(area + copy * RING_BYTES, RING_BYTES, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED) {
			munmap(area, 2 * RING_BYTES);
			return MAP_FAILED;
		}
	return area;
}

void ring_unmap(char *data)
{
	munmap(data, 2 * RING_BYTES);
}
