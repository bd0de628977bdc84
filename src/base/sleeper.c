/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sleeper.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NONE, ASLEEP, WOKEN };

static _Atomic uint32_t *own;
static atomic_flag taken = ATOMIC_FLAG_INIT;
static _Atomic bool sleeps; /* from sleeper_prepare to sleeper_awake */

/* Not FUTEX_PRIVATE_FLAG: peers map the page elsewhere. */
static int futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
	return (int)syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

void sleeper_init(_Atomic uint32_t *word)
{
	own = word;
}

void sleeper_reset_after_fork(void)
{
	own = NULL;
	atomic_flag_clear(&taken);
}

bool sleeper_begin(void)
{
	return own && !atomic_flag_test_and_set(&taken);
}

void sleeper_end(void)
{
	sleeper_awake();
	atomic_flag_clear(&taken);
}

void sleeper_prepare(void)
{
	if (!own)
		return;
	atomic_store(&sleeps, true);
	atomic_store(own, ASLEEP);
}

int sleeper_wait(void (*undo)(void *), void *arg)
{
	int before, rc;

	pthread_cleanup_push(undo, arg);
	/* syscall() is no cancellation point; nothing is held here, so the thread may end anywhere
	 */
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
	rc = futex(own, FUTEX_WAIT, ASLEEP);
	pthread_setcanceltype(before, NULL);
	pthread_cleanup_pop(0);
	return rc && errno == EINTR ? -1 : 0;
}

void sleeper_awake(void)
{
	atomic_store(&sleeps, false);
	if (own) /* NULL: a signal handler has forked, and this is the child */
		atomic_exchange(own, NONE);
}

/* Whatever the state: a peer may have spoilt it, and the sleeper has to take its event. */
void sleeper_wake(void)
{
	int error = errno;

	if (!own || !atomic_load(&sleeps))
		return;
	atomic_store(own, WOKEN);
	futex(own, FUTEX_WAKE, 1);
	errno = error;
}

bool sleeper_wake_other(_Atomic uint32_t *word)
{
	uint32_t state = ASLEEP;
	int error = errno;
	bool woken = true;

	if (atomic_load_explicit(word, memory_order_relaxed) == NONE)
		return false;
	/* a full barrier also if it fails: WOKEN was there after the caller's work */
	if (atomic_compare_exchange_strong(word, &state, WOKEN)) {
		woken = futex(word, FUTEX_WAKE, 1) > 0;
		state = WOKEN;
		if (!woken)
			atomic_compare_exchange_strong(word, &state, NONE);
		errno = error;
		return woken;
	}
	return state == WOKEN;
}
