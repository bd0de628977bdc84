/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control store - a store for a peer of fuzz_ctl to return with: its records, changed, and others.
 *
 * In:  the store that the daemon wrote; bytes that decide the changes.
 * Out: a store that no daemon wrote.
 */
#ifndef CTL_STORE_H
#define CTL_STORE_H

#include <stdint.h>

struct peer;

/* Its descriptor, which is the caller's. */
int store_make(const struct peer *p, uint8_t (*take)(void));

#endif
