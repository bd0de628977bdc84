/*
 * Memory file - whether a descriptor that another process gave may be mapped without fear.
 *
 * An access to a mapping raises SIGBUS when the file is too short, or when there is no page to be had for
 * it. A memfd that is sealed against shrinking is never too short. And a page of it is never refused,
 * unless it is one of hugetlbfs (MFD_HUGETLB), whose pages are a pool that may be empty; files of a tmpfs
 * that is mounted somewhere may find it full, but only a memfd can be sealed.
 *
 * Any thread; never blocks, whatever the descriptor is.
 */
#ifndef BASE_MEMORY_FILE_H
#define BASE_MEMORY_FILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/vfs.h>

#ifndef TMPFS_MAGIC
#define TMPFS_MAGIC 0x01021994
#endif

/* A memfd of ordinary pages with at least these seals. */
static inline bool memory_file_has_seals(int fd, int wanted)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs status;

	/* The seals first: with what has none, a network's file system is not asked. */
	return seals >= 0 && (seals & wanted) == wanted && !fstatfs(fd, &status) &&
	       status.f_type == TMPFS_MAGIC;
}

static inline bool memory_file_is_fixed(int fd)
{
	return memory_file_has_seals(fd, F_SEAL_SHRINK | F_SEAL_GROW);
}

#endif
