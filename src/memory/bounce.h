/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bounce - copies of up to a page between the library's memory and an address that may be bad.
 *
 * In:  an address of the program's. Out: the bytes moved, or -EFAULT; no signal is raised.
 *
 * The kernel copies from or to a bounce buffer, a page of a memfd that is mapped here: that is a
 * read or a write of a file. It costs a third of process_vm_readv on oneself, which looks up the
 * process and pins the pages.
 *
 * A thread has a buffer for itself while it copies, as the kernel locks the file during a write
 * and the access to the program's memory may fault, and sleep. Any thread; no locks. A page fault
 * is an ordinary one, which waits for the userfaultfd guard (memory/guard.h).
 */
#ifndef MEMORY_BOUNCE_H
#define MEMORY_BOUNCE_H

#include <stddef.h>
#include <stdint.h>

#define BOUNCE_BYTES 4096u

/* The buffers of this process; a child of a fork drops those of its parent. */
void bounce_init(void);
void bounce_reset_after_fork(void);

/*
 * At most BOUNCE_BYTES. The last word of `to` is stored after the rest (CONTRACT 27). 0, -EFAULT,
 * or -EAGAIN: nothing was copied, as all buffers are in use, or there are none, or RLIMIT_FSIZE
 * forbids to write to them.
 */
int bounce_to(uint64_t to, const void *from, size_t bytes);
int bounce_from(void *to, uint64_t from, size_t bytes);

#endif
