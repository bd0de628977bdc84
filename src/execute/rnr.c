/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/rnr.h"

/* By code, in units of 10 us. Code 0 is the longest (IBA table 45). */
static const uint32_t units[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

uint64_t rnr_timer_ns(uint8_t code)
{
	return units[code & 31] * 10000ull;
}
