/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests - the keys whose regions were asked to migrate (memory/migrate.h), until the progress
 * thread takes them, or the key ends.
 *
 * Any thread adds and drops; only the progress thread takes. Takes no locks.
 */
#ifndef MEMORY_REQUESTS_H
#define MEMORY_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#define REQUESTS_MAX 64

/* Each key once. False: too many. */
bool requests_add(uint32_t key);
bool requests_has(uint32_t key);
bool requests_any(void);
/* False: it was not there. */
bool requests_drop(uint32_t key);
/* Of this place, below REQUESTS_MAX; 0: none. */
uint32_t requests_take(unsigned place);
void requests_clear(void);

#endif
