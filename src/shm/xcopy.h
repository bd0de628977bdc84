/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Xcopy - copies between this process and another one of the host (process_vm_readv,
 * process_vm_writev).
 *
 * In:  an address in the other process, and pieces of memory of this one.
 * Out: the bytes moved, or why not.
 *
 * Pages of the other process that are mapped here are copied without system calls (memory/heap.h).
 * Any thread may call; there is no shared state. A call sleeps at most for a page fault, and never
 * raises a signal: bad memory at either end is -EFAULT.
 *
 * A process is addressed by its PID, which is the TID of its first thread; if that has ended
 * (pthread_exit in main), by the TID of its progress thread. The kernel may reuse the number only
 * after the process has died, which verbatimd announces within milliseconds; all PIDs would have to
 * be used up in that time.
 */
#ifndef SHM_XCOPY_H
#define SHM_XCOPY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "shm/link.h"

enum xcopy_direction { XCOPY_READ, XCOPY_WRITE };

/*
 * With VERBATIM_PTRACER=any: lets all processes of the user reach this one's memory where Yama
 * would not (prctl(2), PR_SET_PTRACER).
 */
void xcopy_allow(void);

/*
 * Sets link->xcopy for a new link: XCOPY_VM if the kernel lets this process read the other's
 * memory, which a cookie there shows; else XCOPY_NONE, as with VERBATIM_REACH=message.
 */
void xcopy_probe(struct link *link);

/*
 * For a link with XCOPY_NONE: reports once that WRITE and READ go by message, and why. Reads /proc.
 */
void xcopy_explain(struct link *link);

/*
 * Moves `length` bytes between `local` (count pieces, together at least `length` long) and
 * `remote`, an address of the link's process. When writing, the last bytes (up to 8, from the last
 * aligned word on) are stored after all others (CONTRACT 27). Returns 0, -EFAULT (here or there;
 * use memory_probe to tell), -ESRCH (it is dying), -EPERM (refused; link->xcopy is XCOPY_NONE now).
 */
int xcopy_move(struct link *link, enum xcopy_direction direction, const struct iovec *local,
	       int count, uint64_t remote, size_t length);

#endif
