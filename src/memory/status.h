/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Status - numbers of /proc/thread-self/status (memory/maps.h says why not of /proc/self).
 *
 * Any thread. Takes no locks and calls no allocator, as memory/maps.h.
 */
#ifndef MEMORY_STATUS_H
#define MEMORY_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/* The number of the line "NAME:" (proc(5)). False: /proc does not tell. */
bool status_number(const char *name, uint64_t *number);

#endif
