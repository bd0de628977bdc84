/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Readable - whether memory of this process can be read, without touching it.
 *
 * The library reads payload for the ICRC before the kernel does, and a bad address has to be an
 * error, not a signal. One short system call a page. A page that another thread unmaps at the same
 * time is not detected.
 *
 * Any thread, no locks.
 */
#ifndef UDP_READABLE_H
#define UDP_READABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* The last readable range, so that neighbouring pieces take one check. */
struct readable {
	uintptr_t from, to; /* whole pages */
};

/* `known` starts as { 0 } and lives no longer than one burst. */
bool readable_check(struct readable *known, const struct iovec *piece);

#endif
