/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory file - whether a descriptor from another process can be mapped without risk of SIGBUS; and
 * the size of one's own.
 *
 * An access to a mapping raises SIGBUS when the file is too short or no page can be allocated for
 * it. A memfd that is sealed against shrinking is never too short. Its pages can always be
 * allocated, unless they are of hugetlbfs (MFD_HUGETLB), whose pool may be empty. A file of a
 * mounted tmpfs can hit the limit of its mount, but only a memfd can be sealed.
 *
 * Any thread; never blocks, whatever the descriptor is.
 */
#ifndef BASE_MEMORY_FILE_H
#define BASE_MEMORY_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef TMPFS_MAGIC
#define TMPFS_MAGIC 0x01021994
#endif

/* A memfd of ordinary pages with at least these seals. */
static inline bool memory_file_has_seals(int fd, int wanted)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs status;

	/*
	 * Seals come first: a file on a network has none, so fstatfs() never waits for its server.
	 */
	return seals >= 0 && (seals & wanted) == wanted && !fstatfs(fd, &status) &&
	       status.f_type == TMPFS_MAGIC;
}

static inline bool memory_file_is_fixed(int fd)
{
	return memory_file_has_seals(fd, F_SEAL_SHRINK | F_SEAL_GROW);
}

/*
 * Whether this process may write to a file up to there, or make it so long. Else RLIMIT_FSIZE is
 * lower (the program may have lowered it at any time), and the kernel would send SIGXFSZ.
 */
static inline bool memory_file_may_reach(off_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= (rlim_t)bytes;
}

/* Extends a file of this process's own. 0; -EFBIG: it may not be so long; -errno. */
static inline int memory_file_extend(int fd, off_t bytes)
{
	if (!memory_file_may_reach(bytes))
		return -EFBIG;
	return ftruncate(fd, bytes) < 0 ? -errno : 0;
}

#endif
