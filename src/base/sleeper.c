/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sleeper.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NONE, ASLEEP, WAKING, WOKEN, TOLD };

#define STATE_BITS 3
#define STATE_MASK ((1u << STATE_BITS) - 1)

static _Atomic uint32_t *own;
static _Atomic uint32_t roles;	/* that were given */
static _Atomic uint32_t taken;	/* the sleeper's role; 0: there is none */
static _Atomic uint32_t sleeps; /* the role, from sleeper_prepare to sleeper_awake; or 0 */
static _Atomic uint32_t number; /* of the last sleep */

static void (*on_end)(void);

_Thread_local uint32_t sleeper_own_role __attribute__((tls_model("initial-exec")));
/* Of this thread, before sleeper_wait. */
static _Thread_local int cancel_type __attribute__((tls_model("initial-exec")));

/* Not FUTEX_PRIVATE_FLAG: peers map the page elsewhere. */
static int futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
	return (int)syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static pthread_key_t key;
static bool has_key;

static void on_thread_end(void *unused)
{
	if (sleeper_left())
		on_end();
}

static void make_key(void)
{
	has_key = pthread_key_create(&key, on_thread_end) == 0;
}

/* False: nobody would end the role of the calling thread with it. */
static bool is_watched(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static _Thread_local bool watched __attribute__((tls_model("initial-exec")));

	if (!watched) {
		pthread_once(&once, make_key);
		watched = has_key && pthread_setspecific(key, &has_key) == 0;
	}
	return watched;
}

void sleeper_init(_Atomic uint32_t *word, void (*ended)(void))
{
	own = word;
	on_end = ended;
}

void sleeper_reset_after_fork(void)
{
	own = NULL;
	atomic_store(&taken, 0);
	atomic_store(&sleeps, 0);
	sleeper_own_role = 0;
}

uint32_t sleeper_begin(void)
{
	uint32_t role, nobody = 0;

	if (!own || atomic_load_explicit(&taken, memory_order_relaxed) || !is_watched())
		return 0;
	do
		role = atomic_fetch_add(&roles, 1) + 1;
	while (!role);
	/* before it is taken: a signal handler may leave from here on */
	sleeper_own_role = role;
	if (atomic_compare_exchange_strong(&taken, &nobody, role)) {
		sleeper_own_role = role; /* a handler with a verb may have cleared it */
		return role;
	}
	sleeper_own_role = 0;
	return 0;
}

bool sleeper_is(uint32_t role)
{
	return atomic_load_explicit(&taken, memory_order_relaxed) == role;
}

bool sleeper_end(uint32_t role)
{
	bool counted_on = sleeper_awake(role);

	atomic_compare_exchange_strong(&taken, &role, 0);
	sleeper_own_role = 0;
	return counted_on;
}

bool sleeper_lost(void)
{
	if (own)
		atomic_exchange(own, NONE);
	return own;
}

uint32_t sleeper_prepare(uint32_t role)
{
	uint32_t asleep = (atomic_fetch_add(&number, 1) + 1) << STATE_BITS | ASLEEP;

	if (!own)
		return asleep;
	atomic_store(&sleeps, role);
	atomic_store(own, asleep);
	return asleep;
}

int sleeper_wait(uint32_t asleep)
{
	int rc, error;

	/* syscall() is no cancellation point; nothing is held here, so the thread may end anywhere
	 */
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &cancel_type);
	/* in the child of a handler's fork there is no word, and the call fails */
	rc = futex(own, FUTEX_WAIT, asleep);
	error = errno;
	pthread_setcanceltype(cancel_type, NULL);
	errno = error;
	return rc && error == EINTR ? -1 : 0;
}

void sleeper_leave(void)
{
	sleeper_end(sleeper_own_role);
	pthread_setcanceltype(cancel_type, NULL); /* it may have left sleeper_wait */
}

bool sleeper_awake(uint32_t role)
{
	uint32_t state;

	if (!atomic_compare_exchange_strong(&sleeps, &role, 0) || !own)
		return false;
	state = atomic_exchange(own, NONE) & STATE_MASK; /* SLEEPER */
	return state > ASLEEP;
}

/* Whatever the state: a peer may have spoilt it, and the sleeper has to take its event. */
void sleeper_wake(void)
{
	int error = errno;

	if (!own || !atomic_load(&sleeps))
		return;
	atomic_exchange(own, TOLD); /* SLEEPER: no store, which would hide a peer's WAKING */
	futex(own, FUTEX_WAKE, INT_MAX);
	errno = error;
}

/* The calling peer has changed ASLEEP to `waking`. */
static bool wake(_Atomic uint32_t *word, uint32_t waking)
{
	int error = errno;
	bool woken = futex(word, FUTEX_WAKE, INT_MAX) > 0;

	/* fails if the sleeper was quicker */
	atomic_compare_exchange_strong(word, &waking,
				       woken ? waking - WAKING + WOKEN : (uint32_t)NONE);
	errno = error;
	return woken;
}

bool sleeper_wake_other(_Atomic uint32_t *word)
{
	uint32_t value = atomic_load_explicit(word, memory_order_relaxed);

	if ((value & STATE_MASK) == ASLEEP &&
	    atomic_compare_exchange_strong(word, &value, value - ASLEEP + WAKING))
		return wake(word, value - ASLEEP + WAKING);
	/* SLEEPER: WOKEN was there after the caller's work, and sleeper_awake comes after this */
	return (value & STATE_MASK) == WOKEN && atomic_compare_exchange_strong(word, &value, value);
}
