/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC - CRC-32 (IEEE 802.3), by the library that is faster on this processor.
 *
 * In:  bytes. Out: the result of zlib's crc32, which also chains several pieces.
 *
 * With carry-less multiplication ISA-L is ten times as fast as zlib, and libdeflate, which has it
 * on more architectures, three times; the build chooses one of them (option crc). Where that
 * instruction is missing, or emulated (a virtual machine without hardware support), zlib is faster.
 * The processor's flags do not tell, so crc_init times both. Both give the same results, so the
 * choice may change at any time.
 */
#ifndef PACKET_CRC_H
#define PACKET_CRC_H

#include <stddef.h>
#include <stdint.h>

/*
 * Times the libraries, for some tens of microseconds. Until then zlib is not used. One thread,
 * once.
 */
void crc_init(void);

uint32_t crc_add(uint32_t crc, const void *bytes, size_t length);

#endif
