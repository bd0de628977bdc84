/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters - the values of the files in counters/ and hw_counters/ of a port.
 *
 * In:  the name of a device; what verbatimd answers (ctl/observe.h).
 * Out: the number as the kernel writes it, of all processes that the reader may see.
 *
 * Each file asks verbatimd anew. Blocks as observe_counters does. Without a verbatimd all numbers
 * are 0. Keeps errno. Any thread.
 */
#ifndef PRELOAD_COUNTERS_H
#define PRELOAD_COUNTERS_H

#include <stddef.h>

#include "ctl/observe.h"

/* Shows one count, or the sum of two, in units. */
struct counter_file {
	unsigned first, last; /* enum ctl_count: one, or two in a row */
	unsigned unit;	      /* 0: the file is no counter */
};

/* Returns the length, as snprintf does, or -errno: verbatimd cannot be asked. */
int counters_text(const struct counter_file *file, const char *device, char *text, size_t size);

#endif
