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
 * Any thread may map; open and close exclude other calls. The lock is innermost. The child of a
 * fork maps nothing of what its parent opened: a thread of the parent may have held the lock, and
 * moved the scratch, while the kernel copied the process.
 */
#ifndef MEMORY_FILE_VIEW_H
#define MEMORY_FILE_VIEW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/lock.h"

#define FILE_VIEW_RETRY_NS 1000000000ull

struct file_view {
	struct lock lock; /* guards scratch */
	char *scratch;
	_Atomic uint64_t not_before_ns; /* by the coarse clock: when to try again after a failure */
	pid_t opener;
};

/*
 * protection: PROT_READ, or that and PROT_WRITE. The descriptor stays the caller's, who may close
 * it. 0 or -errno.
 */
int file_view_open(struct file_view *view, int fd, int protection);

/* madvise(2), for the parts that are mapped from then on. Before the first of them. */
void file_view_advise(struct file_view *view, int advice);

/*
 * Maps the part [offset, offset + bytes) of the file, which cannot shrink and has it, and stores
 * its address at *place (release), unless another thread has. Offset is a multiple of the page, and
 * not 0. The caller unmaps it. Needs offset + bytes of addresses for a moment (RLIMIT_AS).
 *
 * 0 or -errno; then nothing has changed. -EALREADY: it was not tried, as it has failed within the
 * last FILE_VIEW_RETRY_NS, or in the child of a fork. errno is left alone.
 */
int file_view_map(struct file_view *view, char *_Atomic *place, uint64_t offset, size_t bytes);

void file_view_close(struct file_view *view);

#endif
