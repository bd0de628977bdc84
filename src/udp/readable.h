/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Readable - whether memory of this process can be read, without touching it.
 *
 * The processor reads payload for the ICRC before the kernel does: an address that is not there has
 * to be an error and not a signal. One short system call a page. What is unmapped by another thread
 * at this moment is not caught.
 *
 * Any thread, no locks.
 */
#ifndef UDP_READABLE_H
#define UDP_READABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* What was found readable last: neighbouring pieces are looked at once. */
struct readable {
	uintptr_t from, to; /* whole pages */
};

/* `known` starts as { 0 } and lives no longer than one burst. */
bool readable_check(struct readable *known, const struct iovec *piece);

#endif
