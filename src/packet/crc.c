/* SPDX-License-Identifier: BSD-2-Clause */
#include "packet/crc.h"

#include <stdatomic.h>
#include <zlib.h>

#include "base/clock.h"

#ifdef HAVE_ISAL
#include <isa-l/crc.h>
#else
#include <libdeflate.h>
#endif

#define SAMPLE_BYTES 2048
#define SAMPLES	     5 /* the shortest counts, as others may have been preempted */

typedef uint32_t crc_fn(uint32_t crc, const void *bytes, size_t length);

static uint32_t by_vectors(uint32_t crc, const void *bytes, size_t length)
{
#ifdef HAVE_ISAL
	return crc32_gzip_refl(crc, bytes, length);
#else
	return libdeflate_crc32(crc, bytes, length);
#endif
}

static uint32_t by_zlib(uint32_t crc, const void *bytes, size_t length)
{
	return (uint32_t)crc32_z(crc, bytes, length);
}

static crc_fn *_Atomic chosen = by_vectors;

static uint64_t shortest_ns(crc_fn *fn, const uint8_t *sample)
{
	static volatile uint32_t result;
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < SAMPLES; i++) {
		uint64_t start = clock_now_ns(), took;

		result = fn(0, sample, SAMPLE_BYTES);
		took = clock_now_ns() - start;
		if (took < shortest)
			shortest = took;
	}
	(void)result;
	return shortest;
}

void crc_init(void)
{
	static const uint8_t sample[SAMPLE_BYTES] = { 1 };

	if (shortest_ns(by_zlib, sample) < shortest_ns(by_vectors, sample))
		atomic_store_explicit(&chosen, by_zlib, memory_order_relaxed);
}

uint32_t crc_add(uint32_t crc, const void *bytes, size_t length)
{
	return atomic_load_explicit(&chosen, memory_order_relaxed)(crc, bytes, length);
}
