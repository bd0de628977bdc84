/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/depth.h"

#include <stdlib.h>
#include <string.h>

#include "base/cause.h"

uint32_t depth_slots(uint32_t depth)
{
	uint32_t slots = 1;

	while (slots < depth)
		slots *= 2;
	return slots;
}

void *depth_widen(const struct depth_ring *ring, uint32_t slots, uint32_t qpn)
{
	const char *from = ring->entries;
	size_t bytes = ring->entry_bytes;
	char *to = calloc(slots, bytes);

	if (!to) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, qpn, "%u READs and atomics on the way", slots);
		return NULL;
	}
	for (uint32_t i = ring->head; i != ring->tail; i++)
		memcpy(to + (i & (slots - 1)) * bytes, from + (i & (ring->slots - 1)) * bytes,
		       bytes);
	return to;
}
