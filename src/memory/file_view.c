/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/file_view.h"

#include <errno.h>
#include <sys/mman.h>

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
	return 0;
}

void file_view_advise(struct file_view *view, int advice)
{
	lock_acquire(&view->lock);
	madvise(view->scratch, page_bytes(), advice);
	lock_release(&view->lock);
}

/*
 * A failure of munmap, for want of mappings (vm.max_map_count), leaves the scratch long; to cut its
 * end off needs none.
 */
void *file_view_map(struct file_view *view, uint64_t offset, size_t bytes)
{
	size_t first = page_bytes();
	char *longer;

	/* Locked by mlockall, it may not grow beyond the limit of locked memory. */
	munlock(view->scratch, first);
	longer = mremap(view->scratch, first, offset + bytes, MREMAP_MAYMOVE);
	if (longer == MAP_FAILED)
		return MAP_FAILED;
	view->scratch = longer;
	if (offset > first && munmap(longer + first, offset - first)) {
		int error = errno;

		munmap(longer + first, offset + bytes - first);
		errno = error;
		return MAP_FAILED;
	}
	return longer + offset;
}

void file_view_close(struct file_view *view)
{
	lock_acquire(&view->lock);
	munmap(view->scratch, page_bytes());
	view->scratch = NULL;
	lock_release(&view->lock);
	lock_fini(&view->lock);
}
