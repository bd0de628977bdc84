/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters - the values of the files in counters/ and hw_counters/ of a port.
 *
 * In:  the name of a device; what verbatimd answers (ctl/observe.h).
 * Out: the number as the kernel writes it, of all processes that the reader may see.
 *
 * Asks verbatimd once for all files of a device that are opened within COUNTERS_LIFESPAN_MS, which
 * is Linux's default for hw_counters; if that fails, again after COUNTERS_FAILURE_MS. Blocks as
 * observe_counters does. Without a verbatimd all numbers are 0. Keeps errno. Any thread.
 */
#ifndef PRELOAD_COUNTERS_H
#define PRELOAD_COUNTERS_H

#include <stddef.h>

#include "ctl/observe.h"

#define COUNTERS_LIFESPAN_MS 10
#define COUNTERS_FAILURE_MS  1000

/* Shows one count, or the sum of two, in units. */
struct counter_file {
	unsigned first, last; /* enum ctl_count: one, or two in a row */
	unsigned unit;	      /* 0: the file is no counter */
};

/* Returns the length, as snprintf does, or -EIO: verbatimd does not answer; or -EMFILE, -ENFILE. */
int counters_text(const struct counter_file *file, const char *device, char *text, size_t size);

#endif
