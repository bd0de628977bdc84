/* SPDX-License-Identifier: BSD-2-Clause */
/* Prefetch - a hint to the processor. */
#ifndef BASE_PREFETCH_H
#define BASE_PREFETCH_H

/*
 * Takes the cache line from other processors ahead of a store. `address` need not be mapped.
 * __builtin_prefetch only loads the line, unless built for processors that all have PREFETCHW.
 * Those of x86-64 decode it as that or as a NOP, but for Intel's first ones (2004).
 */
static inline void prefetch_for_write(const void *address)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#else
	__builtin_prefetch(address, 1);
#endif
}

#endif
