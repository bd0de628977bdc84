/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/peer_link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/memory_file.h"
#include "shm/xcopy.h"

void peer_link_close_info(struct ctl_peer_info *info)
{
	int *fds[] = { &info->arena_fd, &info->wake_fd, &info->link_fd, &info->heap_fd };

	for (int i = 0; i < 4; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

static void report_failure(const struct ctl_peer_info *info)
{
	cause_report_ratelimited(CAUSE_MEMORY_EXHAUSTED, 0,
				 "no link to process %d: %s; it takes 7 MiB of addresses",
				 (int)info->pid, strerror(errno));
}

/* The peer's arena, if it is one. */
static void *map_arena(const struct ctl_peer_info *info)
{
	int fd = info->arena_fd;
	struct stat st;
	struct arena_header *header;

	if (!memory_file_has_seals(fd, F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size < ARENA_BYTES)
		return NULL;
	header = mmap(NULL, ARENA_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (header == MAP_FAILED) {
		report_failure(info);
		return NULL;
	}
	if (header->magic == ARENA_MAGIC && header->version == ARENA_VERSION)
		return header;
	munmap(header, ARENA_BYTES);
	return NULL;
}

bool peer_link_offers_memory(const struct ctl_peer_info *info)
{
	struct stat st;

	return !fstat(info->link_fd, &st) && st.st_size >= LINK_BYTES_NEEDED && info->side <= 1;
}

struct link *peer_link_make(struct ctl_peer_info *info)
{
	void *arena = map_arena(info);
	struct link *link;

	if (!arena)
		return NULL;
	if (!peer_link_offers_memory(info))
		goto unmap;
	link = link_create(info->slot, info->pid, (int)info->side, info->link_fd, arena,
			   info->wake_fd, info->heap_fd);
	if (!link) {
		report_failure(info);
		goto unmap;
	}
	info->wake_fd = info->heap_fd = -1;
	xcopy_probe(link);
	return link;
unmap:
	munmap(arena, ARENA_BYTES);
	return NULL;
}

struct link *peer_link_make_self(uint32_t slot, void *arena, int wake_fd)
{
	int shared = memfd_create("verbatim-link-self", MFD_CLOEXEC);
	int wake = fcntl(wake_fd, F_DUPFD_CLOEXEC, 0);
	struct link *self = NULL;

	if (shared >= 0 && wake >= 0 && !memory_file_extend(shared, LINK_BYTES_NEEDED))
		self = link_create(slot, getpid(), LINK_SELF, shared, arena, wake, -1);
	if (shared >= 0)
		close(shared);
	if (self)
		xcopy_probe(self);
	else if (wake >= 0)
		close(wake);
	return self;
}
