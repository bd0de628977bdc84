/*
 * Lock - a mutex that clang's thread-safety analysis understands.
 *
 * Adaptive: a waiter spins briefly before it sleeps, because our critical sections are tens of
 * nanoseconds. Not recursive. The order in which locks are taken is in ARCHITECTURE.md.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#if defined(__clang__)
#define LOCK_ATTR(x) __attribute__((x))
#else
#define LOCK_ATTR(x)
#endif
#define GUARDED_BY(l)  LOCK_ATTR(guarded_by(l))
#define REQUIRES(...)  LOCK_ATTR(requires_capability(__VA_ARGS__))
#define ACQUIRES(...)  LOCK_ATTR(acquire_capability(__VA_ARGS__))
#define RELEASES(...)  LOCK_ATTR(release_capability(__VA_ARGS__))
#define EXCLUDES(...)  LOCK_ATTR(locks_excluded(__VA_ARGS__))
#define NO_LOCK_CHECK  LOCK_ATTR(no_thread_safety_analysis)

struct LOCK_ATTR(capability("mutex")) lock {
	pthread_mutex_t mutex;
};

#define LOCK_INITIALIZER { PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP }

static inline void lock_init(struct lock *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&lock->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

static inline void lock_fini(struct lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static inline void lock_acquire(struct lock *lock) ACQUIRES(lock) NO_LOCK_CHECK
{
	pthread_mutex_lock(&lock->mutex);
}

static inline bool lock_try(struct lock *lock) LOCK_ATTR(try_acquire_capability(true, lock))
	NO_LOCK_CHECK
{
	return pthread_mutex_trylock(&lock->mutex) == 0;
}

static inline void lock_release(struct lock *lock) RELEASES(lock) NO_LOCK_CHECK
{
	pthread_mutex_unlock(&lock->mutex);
}

#endif
