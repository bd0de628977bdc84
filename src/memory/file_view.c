/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/file_view.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/page.h"

int file_view_open(struct file_view *view, int fd, int protection)
{
	char *first = mmap(NULL, page_bytes(), protection, MAP_SHARED, fd, 0);

	if (first == MAP_FAILED)
		return -errno;
	lock_init(&view->lock);
	lock_acquire(&view->lock);
	view->scratch = first;
	lock_release(&view->lock);
	atomic_init(&view->not_before_ns, 0);
	view->opener = getpid();
	return 0;
}

void file_view_advise(struct file_view *view, int advice)
{
	lock_acquire(&view->lock);
	madvise(view->scratch, page_bytes(), advice);
	lock_release(&view->lock);
}

/*
 * NULL and errno. A failure of munmap, for want of mappings (vm.max_map_count), leaves the scratch
 * long; to cut its end off needs none.
 */
static char *map(struct file_view *view, uint64_t offset, size_t bytes) REQUIRES(view->lock)
{
	size_t first = page_bytes();
	char *longer;

	/*
	 * mlockall(2) may have locked it: then all of the file up to the part would take memory,
	 * and count as locked. By the system call, as sanitizers replace munlock(3) by nothing. If
	 * another thread calls mlockall meanwhile, it takes that memory for a moment, or mremap
	 * fails. ENOMEM: no room for one more mapping. Where the call is forbidden (seccomp), most
	 * programs have locked nothing.
	 */
	if (syscall(SYS_munlock, view->scratch, first) && errno == ENOMEM)
		return NULL;
	longer = mremap(view->scratch, first, offset + bytes, MREMAP_MAYMOVE);
	if (longer == MAP_FAILED)
		return NULL;
	view->scratch = longer;
	if (offset > first && munmap(longer + first, offset - first)) {
		int error = errno;

		munmap(longer + first, offset + bytes - first);
		errno = error;
		return NULL;
	}
	return longer + offset;
}

static bool may_try(struct file_view *view)
{
	uint64_t not_before = atomic_load_explicit(&view->not_before_ns, memory_order_relaxed);

	return (!not_before || clock_coarse_ns() >= not_before) && view->opener == getpid();
}

int file_view_map(struct file_view *view, char *_Atomic *place, uint64_t offset, size_t bytes)
{
	int saved = errno, error = 0;
	char *part;

	if (!may_try(view))
		return -EALREADY;
	lock_acquire(&view->lock);
	if (!atomic_load_explicit(place,
				  memory_order_relaxed)) { /* else another thread has mapped it */
		part = map(view, offset, bytes);
		if (part)
			atomic_store_explicit(place, part, memory_order_release);
		else
			error = errno;
	}
	lock_release(&view->lock);
	if (error)
		atomic_store_explicit(&view->not_before_ns, clock_coarse_ns() + FILE_VIEW_RETRY_NS,
				      memory_order_relaxed);
	errno = saved;
	return -error;
}

void file_view_close(struct file_view *view)
{
	lock_acquire(&view->lock);
	munmap(view->scratch, page_bytes());
	view->scratch = NULL;
	lock_release(&view->lock);
	lock_fini(&view->lock);
}
