/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Page - how long this kernel's pages are: 4 KiB on x86-64; 4, 16 or 64 KiB on arm64.
 *
 * Offsets of what processes map from a file that they share are multiples of PAGE_BYTES_MAX, so the
 * layout does not depend on the kernel. Pages of a process's own memory are page_bytes() long.
 *
 * Any thread.
 */
#ifndef BASE_PAGE_H
#define BASE_PAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#define PAGE_BYTES_MAX 65536

/* A power of two, PAGE_BYTES_MAX at most. */
static inline size_t page_bytes(void)
{
	static _Atomic size_t known;
	size_t bytes = atomic_load_explicit(&known, memory_order_relaxed);

	if (!bytes) {
		bytes = (size_t)sysconf(_SC_PAGESIZE);
		atomic_store_explicit(&known, bytes, memory_order_relaxed);
	}
	return bytes;
}

/* The smallest multiple of a page that is not below `bytes`. */
static inline size_t page_round_up(size_t bytes)
{
	return (bytes + page_bytes() - 1) & ~(page_bytes() - 1);
}

#endif
