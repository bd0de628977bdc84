/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control store - what a peer of fuzz_ctl returns with: its records, changed, and others.
 *
 * In:  the store that the daemon wrote; bytes that say what to change.
 * Out: another one, that no daemon wrote.
 */
#ifndef CTL_STORE_H
#define CTL_STORE_H

#include <stdint.h>

struct peer;

/* Its descriptor, which is the caller's. */
int store_make(const struct peer *p, uint8_t (*take)(void));

#endif
