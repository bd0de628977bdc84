/*
 * Hold - makes those wait who touch a range of this process's pages, by userfaultfd.
 *
 * Order of calls: hold_open; hold_missing and hold_take, or hold_writers; hold_check right before
 * the range is mapped anew; close() of the descriptor: all who waited look again at what is there.
 *
 * Any thread. Takes no locks and no memory of the allocator's. Functions give 0 or -errno.
 */
#ifndef MEMORY_HOLD_H
#define MEMORY_HOLD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A descriptor, or -EPERM: not available. user_only: one that holds only faults of user mode will
 * do, if there is no other; system calls then fail with EFAULT instead of waiting.
 */
int hold_open(bool user_only);

/* Who finds no page in the range waits, and so does who finds none in as many bytes at `aside`. */
int hold_missing(int hold, uintptr_t start, uintptr_t end, uintptr_t aside);

/*
 * Takes the range's pages, all of one mapping, to addresses that are `shift` higher. On failure
 * they are back. -EBUSY: something else uses a page; -EAGAIN: at this moment.
 */
int hold_take(int hold, uintptr_t start, uintptr_t end, intptr_t shift);
void hold_put_back(int hold, uintptr_t start, uintptr_t end, intptr_t shift);

/* What is aside has no missing pages any more: its holes read as zeroes. */
int hold_release(int hold, uintptr_t start, uintptr_t end);

/* Who writes to the range waits; who reads goes on. */
int hold_writers(int hold, uintptr_t start, uintptr_t end);

/* Fails if the range, or part of it, is no longer what was held: the program mapped it anew. */
int hold_check(int hold, uintptr_t start, uintptr_t end);

#endif
