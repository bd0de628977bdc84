/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/change.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/*
 * `changes` is a futex. A thread that waits adds itself before it loads the count, change_tell
 * counts up before it loads `waiting` (all seq_cst): either the thread sees the new count, or it
 * is woken.
 */
static _Atomic uint32_t changes;
static _Atomic uint32_t waiting; /* threads */

uint32_t change_count(void)
{
	return atomic_load(&changes);
}

/*
 * The kernel ends a wait with a limit when a signal handler has run, SA_RESTART or not. Only time
 * or a change ends this one.
 */
bool change_wait(uint32_t seen, unsigned ms)
{
	uint64_t end_ns = clock_now_ns() + ms * UINT64_C(1000000);
	const struct timespec end = { .tv_sec = (time_t)(end_ns / 1000000000),
				      .tv_nsec = (long)(end_ns % 1000000000) };

	atomic_fetch_add(&waiting, 1);
	while (atomic_load(&changes) == seen &&
	       (!syscall(SYS_futex, &changes, FUTEX_WAIT_BITSET_PRIVATE, seen, &end, NULL,
			 FUTEX_BITSET_MATCH_ANY) ||
		errno == EINTR))
		;
	atomic_fetch_sub(&waiting, 1);
	return atomic_load(&changes) != seen;
}

void change_tell(void)
{
	atomic_fetch_add(&changes, 1);
	if (atomic_load(&waiting))
		syscall(SYS_futex, &changes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

bool change_is_awaited(void)
{
	return atomic_load(&waiting);
}

void change_reset_after_fork(void)
{
	atomic_store(&waiting, 0);
}
