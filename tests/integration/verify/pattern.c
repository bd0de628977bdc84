/* SPDX-License-Identifier: BSD-2-Clause */
#include "pattern.h"

#include <string.h>

/* One step of splitmix64: eight bytes of the pattern. */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint64_t pattern_seed(uint64_t seed, size_t size, unsigned index)
{
	return mix(mix(seed ^ size) + index);
}

/* Bytes offset.. of the pattern, up to the next multiple of 8 or len, into word; how many. */
static size_t next_bytes(uint64_t seed, size_t offset, size_t len, uint8_t word[8])
{
	uint64_t value = mix(seed + offset / 8);
	size_t skip = offset % 8;
	size_t count = 8 - skip < len ? 8 - skip : len;

	memcpy(word, (uint8_t *)&value + skip, count);
	return count;
}

void pattern_fill(const struct ibv_sge *pieces, int count, uint64_t seed)
{
	size_t offset = 0;
	uint8_t word[8];

	for (int i = 0; i < count; i++) {
		uint8_t *at = (uint8_t *)(uintptr_t)pieces[i].addr;

		for (size_t left = pieces[i].length, n; left > 0; left -= n, at += n, offset += n) {
			n = next_bytes(seed, offset, left, word);
			memcpy(at, word, n);
		}
	}
}

int64_t pattern_check(const struct ibv_sge *pieces, int count, uint64_t seed)
{
	size_t offset = 0;
	uint8_t word[8];

	for (int i = 0; i < count; i++) {
		const uint8_t *at = (const uint8_t *)(uintptr_t)pieces[i].addr;

		for (size_t left = pieces[i].length, n; left > 0; left -= n, at += n, offset += n) {
			n = next_bytes(seed, offset, left, word);
			if (memcmp(at, word, n) == 0)
				continue;
			for (size_t k = 0; k < n; k++) {
				if (at[k] != word[k])
					return (int64_t)(offset + k);
			}
		}
	}
	return -1;
}

int64_t pattern_check_blank(const void *memory, size_t len)
{
	const uint8_t *at = memory;

	for (size_t i = 0; i < len; i++) {
		if (at[i] != PATTERN_BLANK)
			return (int64_t)i;
	}
	return -1;
}
