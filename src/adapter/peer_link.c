/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/peer_link.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/memory_file.h"
#include "ctl/protocol.h"
#include "shm/xcopy.h"

static_assert(LINK_BYTES_SHORT == LINK_BYTES_OF(RING_BYTES_MIN), "verbatimd makes it so long");
static_assert(LINK_BYTES_LONG == LINK_BYTES_OF(RING_BYTES_MAX), "and so long");

void peer_link_close_info(struct ctl_peer_info *info)
{
	int *fds[] = { &info->arena_fd, &info->wake_fd, &info->link_fd, &info->heap_fd };

	for (int i = 0; i < 4; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

static void report_failure(const struct ctl_peer_info *info, int error)
{
	cause_report_ratelimited(CAUSE_MEMORY_EXHAUSTED, 0,
				 "no link to process %d: %s; it takes 1.5 MiB of addresses",
				 (int)info->pid, strerror(error));
}

/* False: the peer's arena is none, or cannot be mapped. */
static bool open_arena(const struct ctl_peer_info *info, struct peer_arena *arena)
{
	int fd = info->arena_fd, error;
	const struct arena_header *header;
	struct stat st;

	if (!memory_file_has_seals(fd, F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size < ARENA_BYTES)
		return false;
	error = peer_arena_open(arena, fd);
	if (error) {
		report_failure(info, -error);
		return false;
	}
	header = peer_arena_header(arena);
	if (header->magic == ARENA_MAGIC && header->version == ARENA_VERSION)
		return true;
	peer_arena_close(arena);
	return false;
}

bool peer_link_offers_memory(const struct ctl_peer_info *info)
{
	struct stat st;

	return !fstat(info->link_fd, &st) && link_ring_bytes((uint64_t)st.st_size) &&
	       info->side <= 1;
}

static uint64_t number_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

uint64_t peer_link_arena_file(const struct ctl_peer_info *info)
{
	return number_of(info->arena_fd);
}

uint64_t peer_link_memory_file(const struct ctl_peer_info *info)
{
	return number_of(info->link_fd);
}

struct link *peer_link_make(struct ctl_peer_info *info)
{
	struct peer_arena arena;
	pid_t pid;
	struct link *link;

	if (!peer_link_offers_memory(info) || !open_arena(info, &arena))
		return NULL;
	/* what the peer says itself only where verbatimd sees no PID of it */
	pid = info->pid ? info->pid : (pid_t)peer_arena_header(&arena)->pid;
	link = link_create(info->slot, pid, (int)info->side, info->link_fd, &arena, info->wake_fd,
			   info->heap_fd);
	if (!link) {
		report_failure(info, errno);
		peer_arena_close(&arena);
		return NULL;
	}
	link->told_pid = info->pid;
	link->arena_file = peer_link_arena_file(info);
	info->wake_fd = info->heap_fd = -1;
	xcopy_probe(link);
	return link;
}

int peer_link_make_self(uint32_t slot, void *arena, int wake_fd, struct link **out)
{
	int shared = memfd_create("verbatim-link-self", MFD_CLOEXEC), wake, error;
	struct peer_arena own;

	if (shared < 0)
		return -errno;
	error = memory_file_extend(shared, LINK_BYTES_LONG);
	if (error)
		goto close_shared;
	wake = fcntl(wake_fd, F_DUPFD_CLOEXEC, 0);
	if (wake < 0) {
		error = -errno;
		goto close_shared;
	}
	peer_arena_open_own(&own, arena);
	*out = link_create(slot, getpid(), LINK_SELF, shared, &own, wake, -1);
	if (*out) {
		xcopy_probe(*out);
	} else {
		error = -errno;
		close(wake);
	}
close_shared:
	close(shared);
	return error;
}
