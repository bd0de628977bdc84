/*
 * Move - puts pages of this process into its heap (a memfd), and back, under threads that write.
 *
 * In:  a range of whole pages, and where in the heap it belongs.
 * Out: the same bytes at the same addresses, on shared pages or on private ones.
 *
 * While a range is held, who writes to it waits in a page fault (userfaultfd). The pages are copied,
 * the copy is mapped over the range in one step, and the waiters go on in it: no write is lost.
 *
 * To the heap, the pages are first taken out of the range (UFFDIO_MOVE, Linux 6.8), which the kernel
 * refuses for pages that something has pinned to write to them without a fault: direct I/O under
 * way, buffers registered with io_uring, process_vm_writev of a peer. Shared pages cannot be taken
 * out: on the way back they are protected against writing, the caller must keep other processes
 * away (KEY_MOVING in adopt.h), and direct I/O must not be under way (CAVEATS.md).
 *
 * Any thread; the caller sees to it that there is one at a time. Blocks for the time of the copy.
 * Takes no memory of the allocator's and no locks while it holds: the range may contain them.
 */
#ifndef OBJECT_MOVE_H
#define OBJECT_MOVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum move_permission {
	MOVE_NEVER,
	MOVE_IF_SAFE, /* if all who write can be held back or noticed */
	MOVE_ALWAYS,
};

struct heap;

struct move_heap {
	int fd;
	const struct heap *own; /* its windows are none of the program's mappings; NULL: there are none */
	dev_t device;
	ino_t inode;
	enum move_permission permission;
};

/* 0, or -errno: the file is not what it has to be. */
int move_init(struct move_heap *heap, int fd, enum move_permission permission);

/*
 * Private to shared. 0; -EACCES: not plain anonymous memory, mapped throughout, to read and write;
 * -EPERM: writers cannot be held back here; -EBUSY, -EAGAIN: something has hold of a page, perhaps
 * not for long; or another -errno. On failure nothing has changed, but for what was written to the
 * heap at `offset`.
 */
int move_to_heap(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset);

/* Whether all of the range is mapped from the heap at `offset`. */
bool move_is_there(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset);

/*
 * Shared to private, wherever the range still shows the heap at its `offset`; what the program has
 * mapped there since is left alone. 0 if nothing shows that part of the heap any more, at any
 * address but in our own windows; else -errno: it must not be used for anything else.
 */
int move_to_private(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset);

/* The same in the child of a fork, where there is nobody to hold. */
int move_in_child(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset);

#endif
