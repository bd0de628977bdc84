/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/marker.h"

#include <string.h>

#include "iwarp/bytes.h"

size_t marker_insert(uint8_t *to, const uint8_t *from, size_t bytes, uint64_t position)
{
	/* of the ULPDU length: after the marker that an FPDU may begin with */
	size_t start = position % MARKER_INTERVAL ? 0 : MARKER_BYTES, at = 0;

	while (bytes) {
		size_t n = MARKER_INTERVAL - (position + at) % MARKER_INTERVAL;

		if (n == MARKER_INTERVAL) {
			put16(to + at, 0);
			put16(to + at + 2, (uint16_t)(at ? at - start : 0));
			at += MARKER_BYTES;
			n -= MARKER_BYTES;
		}
		if (n > bytes)
			n = bytes;
		memmove(to + at, from, n);
		at += n;
		from += n;
		bytes -= n;
	}
	return at;
}

size_t marker_count(uint64_t position, size_t bytes)
{
	uint64_t first = (position + MARKER_INTERVAL - 1) / MARKER_INTERVAL;
	uint64_t end = (position + bytes + MARKER_INTERVAL - 1) / MARKER_INTERVAL;

	return (size_t)(end - first);
}
