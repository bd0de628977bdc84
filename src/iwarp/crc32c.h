/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32C - the check value of an FPDU (RFC 5044 4.4; RFC 3720 12.1 has the polynomial).
 *
 * ISA-L computes it with the processor's instruction where there is one. Builds without ISA-L look
 * up a byte at a time. In the stream its bytes come with the lowest first, as iSCSI sends its
 * digests. Pure.
 */
#ifndef IWARP_CRC32C_H
#define IWARP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#define CRC32C_BYTES 4

uint32_t crc32c(const void *bytes, size_t count);

/* Stores it as the stream has it. */
void crc32c_put(uint8_t *to, uint32_t crc);

#endif
