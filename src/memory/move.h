/*
 * Move - puts a slice of this process's pages into its heap (a memfd), or back, under threads that write.
 *
 * In:  a range of whole pages, and where in the heap it belongs.
 * Out: the same bytes at the same addresses, on shared pages or on private ones.
 *
 * While the slice is held, who writes to it waits in a page fault (memory/guard.h). The pages are copied,
 * the copy is mapped over them in one step, and the waiters go on in it: no write is lost.
 *
 * To the heap, the pages are first taken aside (UFFDIO_MOVE, Linux 6.8), which the kernel refuses for
 * pages that something has pinned to write to them without a fault. Shared pages cannot be taken: on the
 * way back they are protected against writing, the caller keeps other processes away (memory/migrate.h), and
 * memory/busy.h tells whether the kernel may have hold of them.
 *
 * Only the progress thread moves. Blocks for the time of the copy. Takes no memory of the allocator's and
 * no locks while it holds: the slice may contain them. -EBUSY and -EAGAIN: at this moment, something is
 * at work on a page.
 */
#ifndef MEMORY_MOVE_H
#define MEMORY_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum move_permission {
	MOVE_NEVER,
	MOVE_IF_SAFE, /* if all who write can be held back or noticed */
	MOVE_ALWAYS,
};

#define MOVE_COPIES 16

struct heap;

struct move_heap {
	int fd;
	const struct heap *own; /* its windows are none of the program's mappings; NULL: there are none */
	dev_t device;
	ino_t inode;
	enum move_permission permission;
};

/* A range, and as much address space beside it, that only moves use. */
struct move_range {
	uintptr_t start, end;
	uint64_t offset; /* in the heap */
	char *aside;	 /* private, readable and writable, empty between moves */
};

/* 0, or -errno: the file is not what it has to be. */
int move_init(struct move_heap *heap, int fd, enum move_permission permission);

/*
 * Before the first slice of a range. 0; -EACCES: not plain anonymous memory, mapped throughout, to read
 * and write; -EPERM: writers cannot be held back here; -EBUSY.
 */
int move_check(const struct move_heap *heap, uintptr_t start, uintptr_t end);

/*
 * Private to shared. 0 or -errno: then nothing has changed, but for what was written to the heap at `offset`.
 */
int move_in(const struct move_heap *heap, const struct move_range *slice);

/* Whether all of the range is mapped from the heap at `offset`. */
bool move_is_there(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset);

/*
 * Shared to private, wherever the program has these bytes of the heap now (mremap), and whatever it mapped in
 * their place meanwhile. 0: nothing but our own windows shows them any more. Else -errno; what has
 * come back already stays there.
 */
int move_out(const struct move_heap *heap, const struct move_range *slice);

/*
 * For a fork while some pages cannot leave. Children do not get what the program has of the heap, but copies
 * of it (move_restore_in_child), or nothing where there was no room for one, or for more than MOVE_COPIES;
 * so whatever the child stores, the parent's memory is its own.
 */
struct move_copy {
	char *at, *copy; /* copy is NULL if there was no room */
	size_t bytes;
	uint64_t offset; /* in the heap */
};

unsigned move_copy_for_child(const struct move_heap *heap, struct move_copy copies[MOVE_COPIES]);
void move_restore_in_child(const struct move_copy *copies, unsigned count);
void move_drop_copies(const struct move_heap *heap, const struct move_copy *copies, unsigned count);

#endif
