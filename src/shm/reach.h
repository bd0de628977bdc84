/*
 * Reach - how the memory of another process of this host is read and written.
 *
 * In:  an address there, and pieces of memory here.
 * Out: the bytes moved, or why not.
 *
 * By the kernel, that is; pages that are mapped here need none of it (memory/heap.h). Owner: any thread; nothing is shared. Sleeps at most for a page
 * fault. Never raises a signal: bad memory at either end is -EFAULT.
 *
 * A process is addressed by its pid. The pid may be reused only after the process has died, which
 * verbatimd tells us within milliseconds; the pid space would have to wrap in that time.
 */
#ifndef SHM_REACH_H
#define SHM_REACH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "shm/link.h"

enum reach_direction { REACH_READ, REACH_WRITE };

/* Finds out what works for a new link: compares a cookie in the other's memory. */
void reach_probe(struct link *link);

/*
 * Of a link with REACH_NONE: reports, once, that WRITE and READ go by message, and why. Looks into
 * /proc.
 */
void reach_explain(struct link *link);

/*
 * Moves `length` bytes between `local` (count pieces, together at least `length` long) and `remote`,
 * an address of the link's process. When writing, the last bytes (up to 8, from the last aligned
 * word on) are stored after all others (CONTRACT 27). Returns 0, -EFAULT (here or there; use
 * memory_probe to tell), -ESRCH (it is dying), -EPERM (refused; link->reach is REACH_NONE now).
 */
int reach_copy(struct link *link, enum reach_direction direction, const struct iovec *local,
	       int count, uint64_t remote, size_t length);

#endif
