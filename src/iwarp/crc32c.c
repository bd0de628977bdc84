/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/crc32c.h"

#include <endian.h>
#include <string.h>

#ifdef HAVE_ISAL
#include <isa-l/crc.h>

uint32_t crc32c(const void *bytes, size_t count)
{
	/* the library's type lacks a const; an FPDU is far from INT_MAX */
	return ~crc32_iscsi((unsigned char *)bytes, (int)count, UINT32_MAX);
}
#else
#include <pthread.h>

#define POLYNOMIAL 0x82f63b78u /* its highest power in the lowest bit */

static uint32_t of_byte[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (POLYNOMIAL & -(crc & 1));
		of_byte[byte] = crc;
	}
}

uint32_t crc32c(const void *bytes, size_t count)
{
	const uint8_t *byte = bytes;
	uint32_t crc = UINT32_MAX;

	pthread_once(&once, fill_table);
	for (size_t i = 0; i < count; i++)
		crc = crc >> 8 ^ of_byte[(crc ^ byte[i]) & 0xff];
	return ~crc;
}
#endif

void crc32c_put(uint8_t *to, uint32_t crc)
{
	crc = htole32(crc);
	memcpy(to, &crc, sizeof(crc));
}
