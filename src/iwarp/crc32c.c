/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/crc32c.h"

#include <endian.h>
#include <isa-l/crc.h>
#include <string.h>

uint32_t crc32c(const void *bytes, size_t count)
{
	/* the library's type lacks a const; an FPDU is far from INT_MAX */
	return ~crc32_iscsi((unsigned char *)bytes, (int)count, UINT32_MAX);
}

void crc32c_put(uint8_t *to, uint32_t crc)
{
	crc = htole32(crc);
	memcpy(to, &crc, sizeof(crc));
}
