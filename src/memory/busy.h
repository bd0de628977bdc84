/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Busy - whether the kernel may store to pages of this process without a page fault, or wakes
 * threads by their futexes.
 *
 * In:  a range of pages; files of /proc/self.
 * Out: false if the mapping of the pages may be exchanged, as far as /proc can tell.
 *
 * Without /proc all pages count as busy. Any thread. Takes no locks and calls no allocator, because
 * the pages that are guarded meanwhile (memory/guard.h) may be the allocator's.
 */
#ifndef MEMORY_BUSY_H
#define MEMORY_BUSY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The process has an AIO context, an io_uring, or pages that are pinned (VmPin): the kernel may
 * store to any page without a fault, at any time. Unmapped rings without registered buffers are not
 * seen.
 */
bool busy_with_pins(void);

/* The process has pages that are locked by mlock(2): a new mapping over them is not. */
bool busy_with_locks(void);

/*
 * Whether pages can move during holds. 0; -EPERM: pages are locked, or busy_with_sleepers cannot
 * tell what this process's threads do, as the process is not dumpable (prctl(2)) and no longer
 * root's; -EAGAIN: there is no descriptor to see that.
 */
int busy_check_process(void);

/*
 * A thread sleeps in a shared futex of the range: the kernel finds sleepers by the page, so after
 * an exchange no wake would reach it. Or a thread reads, to any address, from a descriptor with
 * O_DIRECT.
 *
 * Called when the range is guarded and copied. A thread that enters the futex later waits in a page
 * fault, because the kernel looks up the page of a shared futex and reads the word. A thread that
 * read the word before the guard sleeps by now: the kernel does not preempt it in between, and
 * copying a page takes longer. If it does not sleep yet, it runs; so this checks running threads
 * twice.
 *
 * A thread that still runs then may be ending if its control block is on the range's pages
 * (busy_with_threads). A thread that is not ending writes to its stack or the block, and waits in a
 * page fault.
 */
bool busy_with_sleepers(uintptr_t start, uintptr_t end);

/*
 * Wakes all threads that sleep in a shared futex of the range, by the same pages at `window`. Each
 * looks at its word again, as after any wake that it did not wait for (futex(2)).
 */
void busy_wake(uintptr_t start, uintptr_t end, uintptr_t window);

/*
 * A thread's control block is on the range's pages. When the thread ends, the kernel zeroes a word
 * there and does not wait in a page fault. pthread_join of that thread would then wait for ever.
 */
bool busy_with_threads(uintptr_t start, uintptr_t end);

#endif
