/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guard - makes threads that access a range of this process's pages wait, by userfaultfd(2).
 *
 * Order of calls: guard_open; guard_missing and guard_take, or guard_writers; guard_check right
 * before the range is mapped anew; close(2) of the descriptor, after which each thread that waited
 * repeats its access.
 *
 * Any thread. Takes no locks and calls no allocator. Functions return 0 or -errno.
 */
#ifndef MEMORY_GUARD_H
#define MEMORY_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A descriptor, or -EPERM: userfaultfd is not available. user_only: accepts UFFD_USER_MODE_ONLY if
 * only that is available; system calls then fail with EFAULT instead of waiting.
 */
int guard_open(bool user_only);

/*
 * From now on a thread that accesses a missing page waits: in the range, and in as many bytes at
 * `aside`.
 */
int guard_missing(int guard, uintptr_t start, uintptr_t end, uintptr_t aside);

/*
 * Moves the range's pages, all of one mapping, to addresses that are `shift` higher (UFFDIO_MOVE).
 * On failure it moves them back. -EBUSY: a page is pinned or shared; -EAGAIN: the kernel uses a
 * page at this moment.
 */
int guard_take(int guard, uintptr_t start, uintptr_t end, intptr_t shift);
void guard_put_back(int guard, uintptr_t start, uintptr_t end, intptr_t shift);

/* Ends the guard of a range: its holes read as zeroes. */
int guard_release(int guard, uintptr_t start, uintptr_t end);

/* Write-protects the range: threads that write wait, threads that read do not. */
int guard_writers(int guard, uintptr_t start, uintptr_t end);

/* Fails if the program has mapped any of the range again since. */
int guard_check(int guard, uintptr_t start, uintptr_t end);

#endif
