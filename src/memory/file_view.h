/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * File view - maps further parts of a file whose descriptor is closed.
 *
 * In:  a descriptor, once; then offsets.
 * Out: shared mappings of parts of the file, with the access that the view was opened with.
 *
 * It keeps a mapping of the file's first page, the scratch, through which the kernel finds the
 * file: the scratch grows up to the end of the part (mremap), and what lies between the first page
 * and the part is unmapped again. The first page of that is the next scratch. A part has what
 * madvise(2) said of the scratch (MADV_DONTFORK, MADV_DONTDUMP).
 *
 * Any thread may map; open and close exclude other calls. The lock is innermost.
 */
#ifndef MEMORY_FILE_VIEW_H
#define MEMORY_FILE_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

struct file_view {
	struct lock lock; /* guards scratch */
	char *scratch;
};

/*
 * protection: PROT_READ, or that and PROT_WRITE. The descriptor stays the caller's, who may close
 * it. 0 or -errno.
 */
int file_view_open(struct file_view *view, int fd, int protection);

/* madvise(2), for the parts that are mapped from then on. Before the first of them. */
void file_view_advise(struct file_view *view, int advice);

/*
 * The part [offset, offset + bytes) of the file, which cannot shrink and has it: both are multiples
 * of the page, and offset is not 0. The caller unmaps it. Needs offset + bytes of addresses for a
 * moment. MAP_FAILED and errno: nothing has changed. Caller holds view->lock.
 */
void *file_view_map(struct file_view *view, uint64_t offset, size_t bytes) REQUIRES(view->lock);

void file_view_close(struct file_view *view);

#endif
