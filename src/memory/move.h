/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Move - puts a slice of this process's pages into its heap (a memfd), or back, while threads write
 * to them.
 *
 * In:  a range of whole pages, and where in the heap it belongs.
 * Out: the same bytes at the same addresses, on shared pages or on private ones.
 *
 * While the slice is guarded, a thread that writes to it waits in a page fault (memory/guard.h).
 * The progress thread copies the pages and maps the copy over them in one step. The waiting threads
 * then go on in the copy: no write is lost.
 *
 * On the way in, UFFDIO_MOVE (Linux 6.8) first moves the pages aside. The kernel refuses that for
 * pinned pages, to which it may write without a fault. Shared pages cannot be moved aside. So on
 * the way out they are write-protected, the caller keeps other processes away (memory/migrate.h),
 * and memory/busy.h tells whether the kernel may write to them.
 *
 * Without userfaultfd all threads of the program stand meanwhile (memory/hold.h). The pages are
 * moved aside by mremap, or write-protected, so that whoever writes to them all the same, such as
 * another process with process_vm_writev, gets an error and loses nothing.
 *
 * Only the progress thread moves. Blocks for the time of the copy. Calls no allocator and takes no
 * locks while the guard is up: the slice may contain them. -EBUSY and -EAGAIN: the kernel or a
 * thread uses a page at this moment.
 */
#ifndef MEMORY_MOVE_H
#define MEMORY_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum move_permission {
	MOVE_NEVER,
	MOVE_IF_SAFE, /* if the guard stops system calls, too; else during holds */
	MOVE_HELD,    /* during holds, even if there is userfaultfd */
	MOVE_ALWAYS,
};

struct heap;

struct move_heap {
	int fd;
	/* its windows are not mappings of the program; may be NULL */
	struct heap *own;
	dev_t device;
	ino_t inode;
	enum move_permission permission;
	int maps; /* of maps_open, for forks; -1: none yet. The owner closes it */
	/* no userfaultfd, or no more: pages move during a hold (memory/hold.h) */
	_Atomic bool needs_hold;
};

/* A range, and an equal range of addresses aside for pages that move. */
struct move_range {
	uintptr_t start, end;
	uint64_t offset; /* in the heap */
	/*
	 * Private, readable and writable, empty between moves. NULL: where pages only move in
	 * during holds, or leave without one.
	 */
	char *aside;
	/*
	 * Of several pages that move together, the last one alone. In the heap it is another
	 * mapping than those before it, so the kernel refuses to enlarge the program's mapping of
	 * them all (mremap(2)): behind them in the heap are others' pages.
	 */
	bool last;
};

/* 0, or -errno of fstat(2). */
int move_init(struct move_heap *heap, int fd, enum move_permission permission);

/*
 * Before the first slice of a range. 0; -EACCES: it is not all plain anonymous memory that can be
 * read and written; -EPERM: migration is off, or there is no userfaultfd; -EBUSY; -EAGAIN: there
 * are no descriptors.
 */
int move_check(const struct move_heap *heap, uintptr_t start, uintptr_t end);

/*
 * Private to shared; during a hold if heap->needs_hold. 0, or -errno: nothing has changed but the
 * bytes in the heap at `offset`.
 */
int move_in(const struct move_heap *heap, const struct move_range *slice);

/*
 * Whether all of the range is mapped from the heap at `offset`. 0; -EACCES: it is not; -EAGAIN,
 * -errno: that cannot be seen.
 */
int move_check_there(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset);

/*
 * Shared to private, wherever the program has these bytes of the heap mapped by now (it may have
 * called mremap). 0: only our own windows still map them. Else -errno; pages that are private
 * already stay so.
 */
int move_out(const struct move_heap *heap, const struct move_range *slice);

/*
 * The same without a hold, while threads run: a private mapping of the heap's pages replaces the
 * shared one at once, and shows the same bytes. *shown: pages of the heap are still seen there, so
 * their place must stay as it is. In any case nothing else may have the place while this mapping
 * is there: pages that the program gives back (MADV_DONTNEED) read what is in the heap. -EBUSY: a
 * thread sleeps in a shared futex there, or reads by O_DIRECT.
 */
int move_out_private(const struct move_heap *heap, const struct move_range *slice, bool *shown);

/*
 * The offset in the heap behind the last page that the program maps privately (move_out_private),
 * or at all where nothing is in use: a part that the program moved (mremap(2)) while it left. 0:
 * there is none. During a hold. 0, or -errno of /proc/self/maps.
 */
int move_find_last(const struct move_heap *heap, bool (*is_in_use)(uint64_t offset), uint64_t *end);

/*
 * For a fork while some pages cannot leave. The child does not inherit the program's mappings of
 * the heap. It gets copies of them (move_restore_in_child), or nothing where there is no memory for
 * one. So a child's stores never reach the parent's memory.
 */
struct move_copy {
	char *at, *copy; /* copy: NULL if there was no memory */
	size_t bytes;
	uint64_t offset; /* in the heap */
};

struct move_copies {
	struct move_copy *all; /* a mapping of its own: a fork calls no allocator; or NULL */
	size_t count, room;
};

/* The caller initializes *copies with 0, and calls one of the two others, in each process. */
void move_copy_for_child(const struct move_heap *heap, struct move_copies *copies);
void move_restore_in_child(struct move_copies *copies);
void move_drop_copies(const struct move_heap *heap, struct move_copies *copies);

#endif
