/* SPDX-License-Identifier: BSD-2-Clause */
#include "allocator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The libraries are to find these, not those behind them. */
#define EXPORT __attribute__((visibility("default")))

#ifdef ADDRESS_SANITIZER
#define REAL(name) __interceptor_##name
#else
#define REAL(name) __libc_##name
#endif

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *block, size_t size);
void REAL(free)(void *block);

/*
 * A lock of our own: the sanitizer takes the place of pthread_mutex_lock, and allocates before it
 * knows the original. Recursive for the same reason: its first malloc begins with allocations of
 * its own.
 */
static _Atomic(void *) owner;
static unsigned depth; /* of the owner */

static bool in_handlers; /* of the child: from the first one's begin until fork returns */

static void acquire(void)
{
	static __thread char self;
	void *none = NULL;

	if (owner != &self) {
		while (!atomic_compare_exchange_weak(&owner, &none, &self)) {
			none = NULL;
			syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = 20000 }, NULL);
		}
	}
	depth++;
}

static void release(void)
{
	if (!--depth)
		owner = NULL;
}

/* The thread that forks goes on in the child: it has the lock in both processes. */
static void in_child(void)
{
	release();
	in_handlers = true;
}

/*
 * Before the constructors of all libraries: so these handlers are the last before the fork and the
 * first behind it, and those of libraries run where the lock is not held.
 */
static void watch_forks(int argc, char **argv, char **environment)
{
	pthread_atfork(acquire, release, in_child);
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **,
									    char **) = watch_forks;

int allocator_fork(void)
{
	int pid = fork();

	in_handlers = false;
	return pid;
}

static void enter(void)
{
	if (in_handlers) {
		static const char text[] = "a handler of the fork uses the allocator\n";

		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		_exit(ALLOCATOR_USED);
	}
	acquire();
}

EXPORT void *malloc(size_t size)
{
	void *block;

	enter();
	block = REAL(malloc)(size);
	release();
	return block;
}

EXPORT void *calloc(size_t count, size_t size)
{
	void *block;

	enter();
	block = REAL(calloc)(count, size);
	release();
	return block;
}

EXPORT void *realloc(void *old, size_t size)
{
	void *block;

	enter();
	block = REAL(realloc)(old, size);
	release();
	return block;
}

EXPORT void free(void *block)
{
	if (!block)
		return;
	enter();
	REAL(free)(block);
	release();
}
