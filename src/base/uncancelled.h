/*
 * Uncancelled - a stretch of a function in which its thread is not cancelled.
 *
 * For what makes system calls that are cancellation points (pthreads(7)) while it holds locks or half of
 * what it builds: a thread that ended there would leave that to nobody. A cancellation that comes
 * meanwhile stays pending.
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
