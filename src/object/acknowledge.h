/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Acknowledge - makes destroy wait until the program has acknowledged the events that it fetched.
 *
 * Mutex, condition and counters are those in the ABI's objects.
 */
#ifndef OBJECT_ACKNOWLEDGE_H
#define OBJECT_ACKNOWLEDGE_H

#include <pthread.h>
#include <stdint.h>

/*
 * Blocks until *completed, the events acknowledged, reaches `reported`. It may be beyond: the child
 * of a fork may acknowledge what its parent has fetched, of which it reports none.
 */
static inline void acknowledge_wait(pthread_mutex_t *mutex, pthread_cond_t *cond,
				    const uint32_t *completed, uint32_t reported)
{
	pthread_mutex_lock(mutex);
	while ((int32_t)(reported - *completed) > 0)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

/* In the child of a fork, which has no thread that could acknowledge what the parent's fetched. */
static inline void acknowledge_reset_after_fork(pthread_mutex_t *mutex, pthread_cond_t *cond)
{
	pthread_mutex_init(mutex, NULL);
	pthread_cond_init(cond, NULL);
}

/* The program acknowledges `count` events. */
static inline void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
			       uint32_t count)
{
	pthread_mutex_lock(mutex);
	*completed += count;
	/* Before the unlock: the waiter frees the object as soon as it gets the mutex. */
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

#endif
