/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/page.h"
#include "memory/maps.h"

/* Not in headers before Linux 6.8. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#ifndef UFFDIO_MOVE
#define UFFD_FEATURE_MOVE		 (1 << 16)
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES (1ull << 1)
struct uffdio_move {
	uint64_t dst, src, len, mode;
	int64_t move;
};
#define UFFDIO_MOVE _IOWR(0xAA, 0x05, struct uffdio_move)
#endif

#define TRIES_MAX 1000

static int open_any(bool user_only)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	int device;

	if (fd >= 0)
		return fd;
	device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (device >= 0) {
		fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC);
		close(device);
	}
	if (fd < 0 && user_only)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	return fd;
}

int guard_open(bool user_only)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM |
			    UFFD_FEATURE_MOVE,
	};
	int fd = open_any(user_only);

	if (fd < 0)
		return maps_open_error(errno) == -EAGAIN ? -EAGAIN : -EPERM;
	if (!ioctl(fd, UFFDIO_API, &api))
		return fd;
	close(fd);
	return -EPERM;
}

static int register_range(int guard, uintptr_t start, uintptr_t end, uint64_t mode)
{
	struct uffdio_register range = { .range = { start, end - start }, .mode = mode };

	return ioctl(guard, UFFDIO_REGISTER, &range) ? -EACCES : 0;
}

int guard_missing(int guard, uintptr_t start, uintptr_t end, uintptr_t aside)
{
	int error =
		register_range(guard, aside, aside + (end - start), UFFDIO_REGISTER_MODE_MISSING);

	if (error)
		return error;
	return register_range(guard, start, end,
			      UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
}

int guard_release(int guard, uintptr_t start, uintptr_t end)
{
	struct uffdio_range range = { start, end - start };

	return ioctl(guard, UFFDIO_UNREGISTER, &range) ? -errno : 0;
}

int guard_check(int guard, uintptr_t start, uintptr_t end)
{
	struct uffdio_writeprotect range = {
		.range = { start, end - start },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	while (ioctl(guard, UFFDIO_WRITEPROTECT, &range))
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	return 0;
}

int guard_writers(int guard, uintptr_t start, uintptr_t end)
{
	int error = register_range(guard, start, end, UFFDIO_REGISTER_MODE_WP);

	return error ? error : guard_check(guard, start, end);
}

/* *done: the bytes moved so far. */
static int move_pages(int guard, uintptr_t to, uintptr_t from, size_t bytes, size_t *done)
{
	*done = 0;
	for (int tries = 0; *done < bytes;) {
		struct uffdio_move range = {
			.dst = to + *done,
			.src = from + *done,
			.len = bytes - *done,
			.mode = UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES,
		};
		int error = ioctl(guard, UFFDIO_MOVE, &range) ? -errno : 0;

		if (range.move > 0)
			*done += (size_t)range.move;
		if (!error || error == -EINTR)
			continue;
		if (error != -EAGAIN)
			return error;
		if (range.move > 0)
			continue;
		if (++tries == TRIES_MAX)
			return -EAGAIN;
		sched_yield();
	}
	return 0;
}

void guard_put_back(int guard, uintptr_t start, uintptr_t end, intptr_t shift)
{
	size_t done;

	if (!move_pages(guard, start, start + (uintptr_t)shift, end - start, &done))
		return;
	/* pages that could not be moved back are copied */
	guard_release(guard, start + (uintptr_t)shift, end + (uintptr_t)shift);
	for (start += done; start < end; start += page_bytes()) {
		struct uffdio_copy page = {
			.dst = start,
			.src = start + (uintptr_t)shift,
			.len = page_bytes(),
		};

		while (ioctl(guard, UFFDIO_COPY, &page) && errno == EAGAIN)
			;
	}
}

int guard_take(int guard, uintptr_t start, uintptr_t end, intptr_t shift)
{
	size_t done;
	int error = move_pages(guard, start + (uintptr_t)shift, start, end - start, &done);

	if (error && done)
		guard_put_back(guard, start, start + done, shift);
	return error;
}
