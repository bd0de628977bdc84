/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Uncancelled - disables cancellation of the thread to the end of a block.
 *
 * For functions that make system calls which are cancellation points (pthreads(7)) while they hold
 * locks or half-built objects: a thread that ended there would leak them. A cancellation stays
 * pending.
 */
#ifndef BASE_UNCANCELLED_H
#define BASE_UNCANCELLED_H

#include <pthread.h>

static inline int uncancelled_begin(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void uncancelled_end(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/* From this declaration to the end of its block. */
#define UNCANCELLED                                                                                \
	__attribute__((cleanup(uncancelled_end), unused)) const int uncancelled =                  \
		uncancelled_begin()

#endif
