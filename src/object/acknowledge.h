/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Acknowledge - waiting, at destroy, for events that the program fetched and did not acknowledge.
 *
 * The mutex, condition and counters are those in the ABI's objects: programs that were linked
 * against rdma-core's inline code touch nothing else.
 */
#ifndef OBJECT_ACKNOWLEDGE_H
#define OBJECT_ACKNOWLEDGE_H

#include <pthread.h>
#include <stdint.h>

/* Blocks until as many events were acknowledged as were reported. */
static inline void acknowledge_wait(pthread_mutex_t *mutex, pthread_cond_t *cond,
				    const uint32_t *completed, uint32_t reported)
{
	pthread_mutex_lock(mutex);
	while (*completed != reported)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
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
