/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/move.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/page.h"
#include "memory/busy.h"
#include "memory/guard.h"
#include "memory/heap.h"
#include "memory/hold.h"
#include "memory/maps.h"
#include "memory/oneself.h"
#include "memory/pin.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define PIECES_MAX 16 /* mappings at a time */

int move_init(struct move_heap *heap, int fd, enum move_permission permission)
{
	int guard = permission == MOVE_HELD ? -EPERM : guard_open(permission == MOVE_ALWAYS);
	struct stat st;

	if (guard >= 0)
		close(guard);
	if (fstat(fd, &st))
		return -errno;
	*heap = (struct move_heap){
		.fd = fd,
		.maps = -1,
		.device = st.st_dev,
		.inode = st.st_ino,
		.permission = permission,
	};
	heap->needs_hold = guard < 0;
	return 0;
}

/*
 * ------------------------------------------------------------------------------------------
 * Looking: what is mapped in a range.
 */

struct look {
	const struct move_heap *heap;
	uintptr_t start, end;
	uint64_t offset;
	uintptr_t reached; /* all mappings before it qualify */
	unsigned count;
	struct mapping pieces[PIECES_MAX];
};

/*
 * Not a file, not huge pages, not shared, not a stack that grows, nothing of the kernel's. Pages
 * that left without a hold are private ones of the heap's file (move_out_private).
 */
static bool is_plain(const struct move_heap *heap, const struct mapping *m)
{
	if (strcmp(m->rights, "rw-p") != 0)
		return false;
	if (m->inode == heap->inode && m->device == heap->device)
		return heap->needs_hold;
	return m->inode == 0 && m->device == 0 &&
	       (!m->name[0] || !strcmp(m->name, "[heap]") || !strncmp(m->name, "[anon:", 6));
}

static bool visit_plain(const struct mapping *m, void *arg)
{
	struct look *look = arg;
	struct mapping *piece = &look->pieces[look->count];

	if (m->end <= look->reached)
		return true;
	if (m->start > look->reached || !is_plain(look->heap, m) || look->count == PIECES_MAX)
		return false;
	*piece = *m;
	if (piece->start < look->start)
		piece->start = look->start;
	if (piece->end > look->end)
		piece->end = look->end;
	look->count++;
	look->reached = m->end;
	return m->end < look->end;
}

static bool is_file_of(const struct move_heap *heap, const struct mapping *m)
{
	return m->inode == heap->inode && m->device == heap->device;
}

static bool is_of_heap(const struct look *look, const struct mapping *m)
{
	return is_file_of(look->heap, m) && m->rights[3] == 's';
}

static bool visit_there(const struct mapping *m, void *arg)
{
	struct look *look = arg;

	if (m->end <= look->reached)
		return true;
	if (m->start > look->reached || !is_of_heap(look, m) ||
	    m->offset - m->start != look->offset - look->start)
		return false;
	look->reached = m->end;
	return m->end < look->end;
}

/* Collects mappings of the heap's bytes, cut to them, up to PIECES_MAX; not our own windows. */
static bool visit_pieces(const struct mapping *m, void *arg)
{
	struct look *look = arg;
	struct mapping *piece = &look->pieces[look->count];
	uint64_t last = look->offset + (look->end - look->start),
		 reached = m->offset + (m->end - m->start);

	if (!is_of_heap(look, m) || m->offset >= last || reached <= look->offset ||
	    (look->heap->own && heap_is_window(look->heap->own, m->start, m->offset)))
		return true;
	*piece = *m;
	if (piece->offset < look->offset) {
		piece->start += look->offset - piece->offset;
		piece->offset = look->offset;
	}
	if (reached > last)
		piece->end -= reached - last;
	return ++look->count < PIECES_MAX;
}

int move_check_there(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset)
{
	struct look look = {
		.heap = heap,
		.start = start,
		.end = end,
		.offset = offset,
		.reached = start,
	};
	int error = maps_visit(visit_there, &look);

	return error ? error : look.reached < end ? -EACCES : 0;
}

/*
 * ------------------------------------------------------------------------------------------
 * Moving.
 */

/*
 * A raw system call, here and where pages are exchanged. The thread sanitizer intercepts the
 * functions and would report a race with writers that the guard stops.
 */
static int write_all(int fd, uintptr_t from, uintptr_t end, uint64_t offset)
{
	while (from < end) {
		ssize_t n = syscall(SYS_pwrite64, fd, from, end - from, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		from += (uintptr_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

static int read_all(int fd, char *to, size_t bytes, uint64_t offset)
{
	while (bytes) {
		ssize_t n = pread(fd, to, bytes, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		to += n;
		bytes -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/*
 * Moves the pages aside, which fails if one is pinned; then maps their copy in the heap over the
 * range.
 */
static int take_and_exchange(const struct move_heap *heap, int guard, const struct look *look,
			     uintptr_t aside)
{
	size_t bytes = look->end - look->start;
	intptr_t shift = (intptr_t)(aside - look->start);
	unsigned taken = 0;
	int error = guard_missing(guard, look->start, look->end, aside);

	while (!error && taken < look->count) {
		error = guard_take(guard, look->pieces[taken].start, look->pieces[taken].end,
				   shift);
		if (!error)
			taken++;
	}
	if (!error)
		error = guard_release(guard, aside, aside + bytes);
	if (!error)
		error = write_all(heap->fd, aside, aside + bytes, look->offset);
	if (!error && busy_with_sleepers(look->start, look->end))
		error = -EBUSY;
	if (!error)
		error = guard_check(guard, look->start, look->end);
	if (!error && syscall(SYS_mmap, look->start, bytes, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED | MAP_POPULATE, heap->fd, look->offset) == -1)
		error = -errno;
	while (error && taken-- > 0)
		guard_put_back(guard, look->pieces[taken].start, look->pieces[taken].end, shift);
	madvise((void *)aside, bytes, MADV_DONTNEED);
	return error;
}

/*
 * A system call that was to map something over pages of the heap has failed. Some kernels have
 * unmapped what was there by then: if so, maps the heap again. False: the pages were still there.
 */
static bool map_again(const struct move_heap *heap, uintptr_t at, size_t bytes, int rights,
		      uint64_t offset)
{
	return syscall(SYS_mmap, at, bytes, rights, MAP_SHARED | MAP_FIXED_NOREPLACE, heap->fd,
		       offset) == (long)at;
}

/*
 * The same during a hold, when nothing in this process writes. Other processes may still read
 * (process_vm_readv); one that begins to write there gets EFAULT meanwhile, and loses nothing.
 */
static int take_held(const struct move_heap *heap, const struct look *look)
{
	size_t bytes = look->end - look->start;
	int error;

	if (busy_with_pins() || busy_with_locks() || hold_covers(look->start, look->end))
		return -EBUSY;
	error = syscall(SYS_mprotect, look->start, bytes, PROT_READ) ? -errno : 0;
	if (!error)
		error = write_all(heap->fd, look->start, look->end, look->offset);
	if (!error && syscall(SYS_mmap, look->start, bytes, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED | MAP_POPULATE, heap->fd, look->offset) == -1)
		error = -errno;
	if (error && syscall(SYS_mprotect, look->start, bytes, PROT_READ | PROT_WRITE) &&
	    map_again(heap, look->start, bytes, PROT_READ | PROT_WRITE, look->offset))
		error = 0;
	return error;
}

/*
 * Neighbours are one mapping only if they have the same advice. The last page has none, and is
 * mapped when those before it have theirs. From Linux 6.3 on the advice has an effect as well:
 * where there is swap, pages that only the program uses look older than they are.
 */
static void set_apart(const struct move_range *slice, uintptr_t at, size_t bytes)
{
	if (!slice->last)
		madvise((void *)at, bytes, MADV_RANDOM);
}

static int look_at_plain(const struct move_heap *heap, uintptr_t start, uintptr_t end,
			 struct look *look)
{
	int error;

	look->heap = heap;
	look->start = look->reached = start;
	look->end = end;
	look->count = 0;
	error = maps_visit(visit_plain, look);
	return error ? error : look->reached < end ? -EACCES : 0;
}

int move_check(const struct move_heap *heap, uintptr_t start, uintptr_t end)
{
	struct look look;
	int guard, error;

	if (heap->permission == MOVE_NEVER)
		return -EPERM;
	error = heap->needs_hold ? busy_check_process() : 0;
	if (!error)
		error = look_at_plain(heap, start, end, &look);
	if (error)
		return error;
	guard = heap->needs_hold ? -1 : guard_open(heap->permission == MOVE_ALWAYS);
	if (guard < 0 && !heap->needs_hold)
		return guard;
	if (guard >= 0)
		close(guard);
	return busy_with_pins() || busy_with_threads(start, end) ? -EBUSY : 0;
}

/* -EPERM is said of guards alone: these mappings are sealed (mseal(2)). */
static int of_mapping(int error)
{
	return error == -EPERM ? -EACCES : error;
}

static int take_guarded(const struct move_heap *heap, const struct move_range *slice,
			const struct look *look)
{
	int guard, error;

	/* so that no page is missing, or shared with a child */
	if (madvise((void *)slice->start, slice->end - slice->start, MADV_POPULATE_WRITE))
		return -EACCES;
	guard = guard_open(heap->permission == MOVE_ALWAYS);
	if (guard < 0)
		return guard;
	error = take_and_exchange(heap, guard, look, (uintptr_t)slice->aside);
	close(guard); /* threads that waited repeat their accesses */
	return of_mapping(error);
}

int move_in(const struct move_heap *heap, const struct move_range *slice)
{
	struct look look;
	int error = look_at_plain(heap, slice->start, slice->end, &look);

	if (error)
		return error;
	look.offset = slice->offset;
	error = heap->needs_hold ? of_mapping(take_held(heap, &look))
				 : take_guarded(heap, slice, &look);
	if (!error)
		set_apart(slice, slice->start, slice->end - slice->start);
	return error;
}

static int rights_of(const struct mapping *m)
{
	return (m->rights[0] == 'r' ? PROT_READ : 0) | (m->rights[1] == 'w' ? PROT_WRITE : 0) |
	       (m->rights[2] == 'x' ? PROT_EXEC : 0);
}

/* The program may have unmapped the piece since it was seen, and mapped other memory there. */
static bool is_still_there(const struct move_heap *heap, const struct mapping *piece)
{
	return !move_check_there(heap, piece->start, piece->end, piece->offset);
}

/*
 * Copies the piece to `fresh` and moves that over it; `fresh` stays mapped, and empty
 * (MREMAP_DONTUNMAP). What is mapped there after the look, when the guard is up, has no guard, and
 * guard_check fails.
 */
static int copy_and_exchange(const struct move_heap *heap, int guard, const struct mapping *piece,
			     char *fresh)
{
	size_t bytes = piece->end - piece->start;
	int rights = rights_of(piece);
	int error = guard_writers(guard, piece->start, piece->end);

	if (!error && !is_still_there(heap, piece))
		error = -EAGAIN;
	if (!error)
		error = read_all(heap->fd, fresh, bytes, piece->offset);
	if (!error && busy_with_sleepers(piece->start, piece->end))
		error = -EBUSY;
	if (!error && rights != (PROT_READ | PROT_WRITE))
		error = mprotect(fresh, bytes, rights) ? -errno : 0;
	if (!error)
		error = guard_check(guard, piece->start, piece->end);
	if (!error &&
	    syscall(SYS_mremap, fresh, bytes, bytes,
		    MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, piece->start) == -1) {
		error = -errno;
		map_again(heap, piece->start, bytes, rights, piece->offset);
	}
	if (error)
		madvise(fresh, bytes, MADV_DONTNEED);
	if (rights != (PROT_READ | PROT_WRITE) && mprotect(fresh, bytes, PROT_READ | PROT_WRITE))
		return -errno;
	return error;
}

/* The same during a hold. */
static int copy_held(const struct move_heap *heap, const struct mapping *piece, char *fresh)
{
	size_t bytes = piece->end - piece->start;
	int rights = rights_of(piece);
	int error = syscall(SYS_mprotect, piece->start, bytes, rights & PROT_READ) ? -errno : 0;

	if (!error)
		error = read_all(heap->fd, fresh, bytes, piece->offset);
	if (!error && rights != (PROT_READ | PROT_WRITE))
		error = mprotect(fresh, bytes, rights) ? -errno : 0;
	if (!error && syscall(SYS_mremap, fresh, bytes, bytes,
			      MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, piece->start) == -1)
		error = -errno;
	if (error) {
		if (!map_again(heap, piece->start, bytes, rights, piece->offset))
			syscall(SYS_mprotect, piece->start, bytes, rights);
		madvise(fresh, bytes, MADV_DONTNEED);
	}
	if (rights != (PROT_READ | PROT_WRITE) && mprotect(fresh, bytes, PROT_READ | PROT_WRITE))
		return -errno;
	return error;
}

static int replace(const struct move_heap *heap, const struct mapping *piece, char *fresh)
{
	int guard, error;

	if (heap->needs_hold)
		return hold_covers(piece->start, piece->end) ? -EBUSY
							     : copy_held(heap, piece, fresh);
	guard = guard_open(heap->permission == MOVE_ALWAYS);
	error = guard < 0 ? guard : of_mapping(copy_and_exchange(heap, guard, piece, fresh));
	if (guard >= 0)
		close(guard);
	return error;
}

int move_out(const struct move_heap *heap, const struct move_range *slice)
{
	struct look look = {
		.heap = heap,
		.start = slice->start,
		.end = slice->end,
		.offset = slice->offset,
	};
	int error;

	if (busy_with_pins())
		return -EBUSY;
	do {
		look.count = 0;
		error = maps_visit(visit_pieces, &look);
		for (unsigned i = 0; i < look.count && !error; i++)
			error = replace(heap, &look.pieces[i],
					slice->aside + (look.pieces[i].offset - slice->offset));
	} while (!error && look.count == PIECES_MAX);
	return error;
}

/*
 * Private pages of the heap's file become copies. Linux before 5.14 does that page by page. False:
 * they may only be read, or are not there any more.
 */
static bool detach(uintptr_t at, size_t bytes)
{
	if (!madvise((void *)at, bytes, MADV_POPULATE_WRITE))
		return true;
	for (uintptr_t page = at; page < at + bytes; page += page_bytes())
		if (!oneself_write_nothing(page))
			return false;
	return true;
}

/*
 * A thread that writes meanwhile stores to the heap's page before the exchange, and to a copy of
 * that page after it. The kernel stores to the heap's page even later, for a read by O_DIRECT that
 * began before: then no page is copied now, and what it stores is seen.
 *
 * Threads that sleep in shared futexes are found by the page, so wakes after the exchange do not
 * reach those that went to sleep before it. None does when this looks; who came since is woken, and
 * looks at its word again.
 *
 * No system call compares and exchanges a mapping, so what the program maps there between the last
 * look and the exchange is lost.
 */
static int exchange_private(const struct move_heap *heap, const struct move_range *slice,
			    const struct mapping *piece, bool *shown)
{
	size_t bytes = piece->end - piece->start, mapped = bytes;
	char *window = heap->own ? heap_map(heap->own, piece->offset, &mapped) : NULL;
	int rights = rights_of(piece), error;
	long fresh;

	if (busy_with_sleepers(piece->start, piece->end))
		return -EBUSY;
	/* elsewhere first: it is charged to the process, which may fail */
	fresh = syscall(SYS_mmap, NULL, bytes, rights, MAP_PRIVATE, heap->fd, piece->offset);
	if (fresh == -1)
		return -errno;
	set_apart(slice, (uintptr_t)fresh, bytes);
	if (!is_still_there(heap, piece)) {
		syscall(SYS_munmap, fresh, bytes);
		return -EAGAIN;
	}
	if (syscall(SYS_mremap, fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, piece->start) ==
	    -1) {
		error = -errno;
		syscall(SYS_munmap, fresh, bytes);
		map_again(heap, piece->start, bytes, rights, piece->offset);
		return error;
	}
	if (busy_with_sleepers(piece->start, piece->end)) {
		*shown = true;
		if (window && mapped == bytes)
			busy_wake(piece->start, piece->end, (uintptr_t)window);
	} else if (!detach(piece->start, bytes)) {
		*shown = true;
	}
	return 0;
}

int move_out_private(const struct move_heap *heap, const struct move_range *slice, bool *shown)
{
	struct look look = {
		.heap = heap,
		.start = slice->start,
		.end = slice->end,
		.offset = slice->offset,
	};
	int error;

	*shown = false;
	if (busy_with_pins())
		return -EBUSY;
	do {
		look.count = 0;
		error = maps_visit(visit_pieces, &look);
		for (unsigned i = 0; i < look.count && !error; i++)
			error = exchange_private(heap, slice, &look.pieces[i], shown);
	} while (!error && look.count == PIECES_MAX);
	return error;
}

struct last {
	const struct move_heap *heap;
	bool (*is_in_use)(uint64_t offset);
	uint64_t end;
};

static bool visit_last(const struct mapping *m, void *arg)
{
	struct last *last = arg;
	uint64_t end = m->offset + (m->end - m->start);
	bool ours = last->heap->own && heap_is_window(last->heap->own, m->start, m->offset);

	if (is_file_of(last->heap, m) && m->offset >= HEAP_FIRST && end > last->end &&
	    (m->rights[3] == 'p' || (!ours && !last->is_in_use(m->offset))))
		last->end = end;
	return true;
}

int move_find_last(const struct move_heap *heap, bool (*is_in_use)(uint64_t offset), uint64_t *end)
{
	struct last last = { .heap = heap, .is_in_use = is_in_use };
	int error = maps_visit(visit_last, &last);

	*end = last.end;
	return error;
}

/*
 * ------------------------------------------------------------------------------------------
 * Forks.
 */

/* Room for the first entry, or for twice as many. False: there is no memory. */
static bool make_room(struct move_copies *copies)
{
	size_t bytes = copies->room * sizeof(*copies->all);
	size_t wanted = bytes ? 2 * bytes : page_bytes();
	void *all = bytes ? mremap(copies->all, bytes, wanted, MREMAP_MAYMOVE)
			  : mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);

	if (all == MAP_FAILED)
		return false;
	copies->all = all;
	copies->room = wanted / sizeof(*copies->all);
	return true;
}

struct advice {
	const struct move_heap *heap;
	int advice;
	struct move_copies *copies; /* NULL: they are not noted */
};

/* Advises the program's mappings of the heap, and notes them. */
static bool visit_advised(const struct mapping *m, void *arg)
{
	struct advice *advice = arg;
	struct look look = { .heap = advice->heap };
	struct move_copies *copies = advice->copies;

	if (!is_of_heap(&look, m) || m->offset < HEAP_FIRST ||
	    (look.heap->own && heap_is_window(look.heap->own, m->start, m->offset)))
		return true;
	madvise((void *)m->start, m->end - m->start, advice->advice);
	if (copies && (copies->count < copies->room || make_room(copies)))
		copies->all[copies->count++] = (struct move_copy){
			.at = (char *)m->start,
			.bytes = m->end - m->start,
			.offset = m->offset,
		};
	return true;
}

/*
 * The program may have used up its descriptors: a fork that saw no mappings would share them with
 * the child.
 */
static void advise_all(struct advice *advice)
{
	int error = maps_visit(visit_advised, advice);

	if (error && error != -EIO && advice->heap->maps >= 0)
		maps_visit_file(advice->heap->maps, visit_advised, advice);
}

void move_copy_for_child(const struct move_heap *heap, struct move_copies *copies)
{
	struct advice advice = { .heap = heap, .advice = MADV_DONTFORK, .copies = copies };

	advise_all(&advice);
	for (size_t i = 0; i < copies->count; i++) {
		struct move_copy *c = &copies->all[i];

		c->copy = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
		if (c->copy != MAP_FAILED && !read_all(heap->fd, c->copy, c->bytes, c->offset))
			continue;
		if (c->copy != MAP_FAILED)
			munmap(c->copy, c->bytes);
		c->copy = NULL;
	}
}

static void drop_table(struct move_copies *copies)
{
	if (copies->all)
		munmap(copies->all, copies->room * sizeof(*copies->all));
	*copies = (struct move_copies){ 0 };
}

void move_restore_in_child(struct move_copies *copies)
{
	for (size_t i = 0; i < copies->count; i++) {
		const struct move_copy *c = &copies->all[i];

		if (c->copy)
			syscall(SYS_mremap, c->copy, c->bytes, c->bytes,
				MREMAP_MAYMOVE | MREMAP_FIXED, c->at);
	}
	drop_table(copies);
}

void move_drop_copies(const struct move_heap *heap, struct move_copies *copies)
{
	struct advice advice = { .heap = heap, .advice = MADV_DOFORK };

	advise_all(&advice);
	for (size_t i = 0; i < copies->count; i++)
		if (copies->all[i].copy)
			munmap(copies->all[i].copy, copies->all[i].bytes);
	drop_table(copies);
}
