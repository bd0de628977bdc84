/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC - CRC-32 (IEEE 802.3), by the library that is faster on this processor.
 *
 * In:  bytes. Out: what zlib's crc32 gives, also for the chaining of several pieces.
 *
 * With carry-less multiplication ISA-L is ten times as fast as zlib. Where that instruction is
 * missing, or emulated (a virtual machine without hardware's help), it is the other way round; the
 * processor's flags do not tell, so both are timed once. The two agree in every result: which one
 * it is, and when it changes, matters to nobody.
 */
#ifndef PACKET_CRC_H
#define PACKET_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Times the libraries, some tens of microseconds. Until then it is ISA-L. By one thread, once. */
void crc_init(void);

uint32_t crc_add(uint32_t crc, const void *bytes, size_t length);

#endif
