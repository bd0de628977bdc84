/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS	      200     /* a few microseconds */
#define LOOK_AGAIN_NS 1000000 /* without membarrier */

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* Executes a membarrier; registers the process first, if nobody did. False: not supported. */
static bool barrier(void)
{
	if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)
		return true;
	if (errno != EPERM || membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		return false;
	return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

void lock_prepare(void)
{
	int error = errno;

	barrier();
	errno = error;
}

static void rest(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static bool spin(struct lock *lock) TRY_ACQUIRES(lock)
{
	for (int i = 0; i < SPINS; i++) {
		if (!atomic_load_explicit(&lock->taken, memory_order_relaxed) && lock_try(lock))
			return true;
		rest();
	}
	return false;
}

void lock_wait(struct lock *lock)
{
	struct timespec look_again = { .tv_nsec = LOOK_AGAIN_NS };
	int error = errno;
	bool fenced;

	if (spin(lock))
		return;
	atomic_fetch_add(&lock->sleepers, 1);
	fenced = barrier(); /* LOCK */
	while (!lock_try(lock))
		syscall(SYS_futex, &lock->taken, FUTEX_WAIT_PRIVATE, 1, fenced ? NULL : &look_again,
			NULL, 0);
	atomic_fetch_sub(&lock->sleepers, 1);
	errno = error;
}

void lock_wake(struct lock *lock)
{
	int error = errno;

	syscall(SYS_futex, &lock->taken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = error;
}
