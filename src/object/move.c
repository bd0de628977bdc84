#include "object/move.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "object/heap.h"
#include "object/hold.h"
#include "object/maps.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PIECES_MAX 16 /* mappings in a range */

int move_init(struct move_heap *heap, int fd, enum move_permission permission)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	*heap = (struct move_heap){
		.fd = fd,
		.device = st.st_dev,
		.inode = st.st_ino,
		.permission = permission,
	};
	return 0;
}

/* ------------------------------------------------------------------------------------------
 * Looking: what is mapped in a range.
 */

struct look {
	const struct move_heap *heap;
	uintptr_t start, end;
	uint64_t offset;
	uintptr_t reached; /* all before is as it should be */
	bool elsewhere;	   /* the heap's part is mapped at another address */
	unsigned count;
	struct mapping pieces[PIECES_MAX];
};

/* Not a file, not huge pages, not shared, not a stack that grows, nothing of the kernel's. */
static bool is_plain(const struct mapping *m)
{
	return !strcmp(m->rights, "rw-p") && m->inode == 0 && m->device == 0 &&
	       (!m->name[0] || !strcmp(m->name, "[heap]") || !strncmp(m->name, "[anon:", 6));
}

static void add_piece(struct look *look, const struct mapping *m)
{
	struct mapping *piece = &look->pieces[look->count++];

	*piece = *m;
	if (piece->start < look->start)
		piece->start = look->start;
	if (piece->end > look->end)
		piece->end = look->end;
}

static bool visit_plain(const struct mapping *m, void *arg)
{
	struct look *look = arg;

	if (m->end <= look->reached)
		return true;
	if (m->start > look->reached || !is_plain(m) || look->count == PIECES_MAX)
		return false;
	add_piece(look, m);
	look->reached = m->end;
	return m->end < look->end;
}

static bool is_of_heap(const struct look *look, const struct mapping *m)
{
	return m->inode == look->heap->inode && m->device == look->heap->device;
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

/* Collects the pieces that are as we made them, cut to the range. */
static bool visit_pieces(const struct mapping *m, void *arg)
{
	struct look *look = arg;
	uint64_t last = look->offset + (look->end - look->start);

	if (!is_of_heap(look, m) || m->offset >= last ||
	    m->offset + (m->end - m->start) <= look->offset ||
	    (look->heap->own && heap_is_window(look->heap->own, m->start, m->offset)))
		return true;
	if (m->offset - m->start != look->offset - look->start || look->count == PIECES_MAX) {
		look->elsewhere = true;
		return true;
	}
	add_piece(look, m);
	return true;
}

bool move_is_there(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset)
{
	struct look look = {
		.heap = heap, .start = start, .end = end, .offset = offset, .reached = start,
	};

	return !maps_visit(visit_there, &look) && look.reached >= end;
}

/* ------------------------------------------------------------------------------------------
 * Moving.
 */

/*
 * Here and where pages are exchanged, the system call itself: the functions of a program with the
 * thread sanitizer would report a race with the writers that are held.
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

/* The range's bytes are at `source`, and whoever writes to it waits. */
static int exchange(const struct move_heap *heap, int hold, uintptr_t source, uintptr_t start,
		    uintptr_t end, uint64_t offset)
{
	int error = write_all(heap->fd, source, source + (end - start), offset);

	if (!error)
		error = hold_check(hold, start, end);
	if (!error && syscall(SYS_mmap, start, end - start, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED | MAP_POPULATE, heap->fd, offset) == -1)
		error = -errno;
	return error;
}

/* Takes the pages out of the range, which shows if something else has hold of one. */
static int take_and_exchange(const struct move_heap *heap, int hold, struct look *look)
{
	size_t bytes = look->end - look->start;
	void *aside = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	intptr_t shift = (intptr_t)((uintptr_t)aside - look->start);
	unsigned taken = 0;
	int error;

	if (aside == MAP_FAILED)
		return -errno;
	error = hold_missing(hold, look->start, look->end, (uintptr_t)aside);
	while (!error && taken < look->count) {
		error = hold_take(hold, look->pieces[taken].start, look->pieces[taken].end, shift);
		if (!error)
			taken++;
	}
	if (!error)
		error = hold_release(hold, (uintptr_t)aside, (uintptr_t)aside + bytes);
	if (!error)
		error = exchange(heap, hold, (uintptr_t)aside, look->start, look->end, look->offset);
	while (error && taken-- > 0)
		hold_put_back(hold, look->pieces[taken].start, look->pieces[taken].end, shift);
	munmap(aside, bytes);
	return error;
}

int move_to_heap(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset)
{
	struct look look = {
		.heap = heap, .start = start, .end = end, .offset = offset, .reached = start,
	};
	int hold, error;

	if (heap->permission == MOVE_NEVER)
		return -EPERM;
	if (maps_visit(visit_plain, &look) || look.reached < end)
		return -EACCES;
	/* so that no page is shared with a child, or not there */
	if (madvise((void *)start, end - start, MADV_POPULATE_WRITE))
		return -EACCES;
	hold = hold_open(heap->permission == MOVE_ALWAYS);
	if (hold < 0)
		return hold;
	error = take_and_exchange(heap, hold, &look);
	close(hold); /* who waited goes on: in the shared pages, or where it was */
	return error;
}

static int rights_of(const struct mapping *m)
{
	return (m->rights[0] == 'r' ? PROT_READ : 0) | (m->rights[1] == 'w' ? PROT_WRITE : 0) |
	       (m->rights[2] == 'x' ? PROT_EXEC : 0);
}

static int replace(const struct move_heap *heap, const struct mapping *piece, bool held)
{
	size_t bytes = piece->end - piece->start;
	char *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t offset = piece->offset;
	int hold = -1, error = 0;

	if (fresh == MAP_FAILED)
		return -errno;
	if (held) {
		hold = hold_open(heap->permission == MOVE_ALWAYS);
		error = hold < 0 ? hold : hold_writers(hold, piece->start, piece->end);
	}
	if (!error)
		error = read_all(heap->fd, fresh, bytes, offset);
	if (!error && rights_of(piece) != (PROT_READ | PROT_WRITE))
		error = mprotect(fresh, bytes, rights_of(piece)) ? -errno : 0;
	if (!error && held)
		error = hold_check(hold, piece->start, piece->end);
	if (!error && syscall(SYS_mremap, fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			      piece->start) == -1)
		error = -errno;
	if (error)
		munmap(fresh, bytes);
	if (hold >= 0)
		close(hold);
	return error;
}

static int to_private(const struct move_heap *heap, uintptr_t start, uintptr_t end,
		      uint64_t offset, bool held)
{
	struct look look = { .heap = heap, .start = start, .end = end, .offset = offset };
	int error = maps_visit(visit_pieces, &look);

	for (unsigned i = 0; i < look.count && !error; i++) {
		struct mapping *piece = &look.pieces[i];

		piece->offset = offset + (piece->start - start);
		error = replace(heap, piece, held);
	}
	return error ? error : look.elsewhere ? -EBUSY : 0;
}

int move_to_private(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset)
{
	return to_private(heap, start, end, offset, true);
}

int move_in_child(const struct move_heap *heap, uintptr_t start, uintptr_t end, uint64_t offset)
{
	return to_private(heap, start, end, offset, false);
}
