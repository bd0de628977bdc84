/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lock - a mutex whose release is a plain store, and which clang's thread-safety analysis
 * understands.
 *
 * Critical sections here take tens of nanoseconds and are hardly ever contended; each message
 * passes several of them. So acquiring costs an atomic instruction, releasing none. A waiter spins
 * for some microseconds, then sleeps in a futex.
 *
 * Barrier LOCK: the releaser stores `taken`, then loads `sleepers`, with no fence between. The
 * waiter that is about to sleep adds itself to `sleepers`, executes a membarrier, and then reads
 * `taken` again. Either the releaser's load comes after that membarrier and sees the sleeper, or
 * its store came before and the sleeper sees the lock free. Without membarrier the sleeper reads
 * `taken` each millisecond.
 *
 * REQUIRES stands at the prototype of a function if its callers know the lock by the same name. If
 * they do not (tq->qp->lock), it stands at the definition, and checks only what the function calls.
 *
 * Not recursive. The memory of a lock outlives the release by the last thread that took it: objects
 * are freed only after their users are gone (object/qp_table.c, shm/link.c). The order in which
 * locks are taken is in ARCHITECTURE.md.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#define LOCK_ATTR(x) __attribute__((x))
#else
#define LOCK_ATTR(x)
#endif
#define GUARDED_BY(l)	  LOCK_ATTR(guarded_by(l))
#define REQUIRES(...)	  LOCK_ATTR(requires_capability(__VA_ARGS__))
#define ACQUIRES(...)	  LOCK_ATTR(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRES(...) LOCK_ATTR(try_acquire_capability(true, __VA_ARGS__)) /* held if true */
#define RELEASES(...)	  LOCK_ATTR(release_capability(__VA_ARGS__))
#define EXCLUDES(...)	  LOCK_ATTR(locks_excluded(__VA_ARGS__))
#define NO_LOCK_CHECK	  LOCK_ATTR(no_thread_safety_analysis)

struct LOCK_ATTR(capability("mutex")) lock {
	_Atomic uint32_t taken;	   /* 0 or 1; the futex */
	_Atomic uint32_t sleepers; /* threads that sleep for it or are about to */
};

#define LOCK_INITIALIZER                                                                           \
	{                                                                                          \
		0, 0                                                                               \
	}

/* Some thread holds it. For checks (base/check.h), where the analysis does not reach. */
static inline bool lock_is_taken(const struct lock *lock)
{
	return atomic_load_explicit(&lock->taken, memory_order_relaxed) != 0;
}

/*
 * Once, best while the process has one thread: registers it for the membarrier of pair LOCK. The
 * kernel does that at once for a process of one thread. For others it waits until all processors
 * have passed through the scheduler (an RCU grace period), on a busy machine for a second: a thread
 * that did it when it first had to sleep for a lock kept the locks that it holds for so long.
 */
void lock_prepare(void);

/* The slow halves, in lock.c. */
void lock_wait(struct lock *lock) ACQUIRES(lock);
void lock_wake(struct lock *lock);

static inline void lock_init(struct lock *lock)
{
	atomic_init(&lock->taken, 0);
	atomic_init(&lock->sleepers, 0);
}

/*
 * Takes a lock in the child of a fork, whatever state the fork found it in: the child has one
 * thread, so nothing here holds the lock or waits for it. What it guards may be half changed; the
 * caller brings that into a known state and releases the lock.
 */
static inline void lock_acquire_in_child(struct lock *lock) ACQUIRES(lock)
	/* what the analysis takes for granted */
	NO_LOCK_CHECK
{
	atomic_init(&lock->taken, 1);
	atomic_init(&lock->sleepers, 0);
}

static inline void lock_fini(struct lock *lock)
{
	(void)lock;
}

static inline bool lock_try(struct lock *lock) TRY_ACQUIRES(lock)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong_explicit(&lock->taken, &none, 1, memory_order_acquire,
						       memory_order_relaxed);
}

static inline void lock_acquire(struct lock *lock) ACQUIRES(lock)
{
	if (__builtin_expect(!lock_try(lock), 0))
		lock_wait(lock);
}

static inline void lock_release(struct lock *lock) RELEASES(lock)
	/* what the analysis takes for granted */
	NO_LOCK_CHECK
{
	atomic_store_explicit(&lock->taken, 0, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst); /* LOCK: in this order */
	if (__builtin_expect(atomic_load_explicit(&lock->sleepers, memory_order_relaxed), 0))
		lock_wake(lock);
}

#endif
