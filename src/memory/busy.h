/*
 * Busy - whether the kernel is at work on pages of this process where no page fault holds it back.
 *
 * In:  a range of pages; what /proc/self tells.
 * Out: whether their mapping may be exchanged, for all that can be known.
 *
 * What cannot be found out (no /proc) counts as busy. Any thread. Takes no locks and no memory of the
 * allocator's: it is called while pages that may be the allocator's are held (memory/guard.h).
 */
#ifndef MEMORY_BUSY_H
#define MEMORY_BUSY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The process has an AIO context, an io_uring, or pages that are pinned (VmPin): the kernel may store to any
 * page without a fault, at any time. Unmapped rings without registered buffers are not seen.
 */
bool busy_with_pins(void);

/*
 * A thread sleeps in a futex of the range that is not private: its key is the page, so after an exchange
 * nobody would wake it. Or a thread reads from a descriptor with O_DIRECT, to wherever.
 *
 * Called when the range is held already, after the copy: who comes later waits in a page fault, as the
 * kernel looks up a page that is not private to find the key, and reads the word before it sleeps. Who had
 * read it before the range was held is asleep by now: between the two he is not preempted, and it takes less
 * than copying a page. Should he not be, he runs; and who runs is looked at twice.
 *
 * Who still runs then, with his control block on the range's pages, may be ending (busy_with_threads): whoever
 * is not writes to his stack or the block, and waits.
 */
bool busy_with_sleepers(uintptr_t start, uintptr_t end);

/*
 * A thread's control block is on the range's pages: when the thread ends, the kernel stores there and does
 * not wait for a page fault. Who joins the thread would wait for ever.
 */
bool busy_with_threads(uintptr_t start, uintptr_t end);

#endif
