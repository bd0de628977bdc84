/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/eventfd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/syscall.h"

int eventfd_create(void)
{
	int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

void eventfd_add(int fd)
{
	uint64_t one = 1;
	int saved = errno;

	while (sys_write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	errno = saved;
}

int eventfd_take(int fd)
{
	uint64_t value;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? 0 : -1;
}

/* All files without an inode of their own have the same one. */
static bool is_same_kind(int fd, int other)
{
	struct stat one, two;

	return !fstat(fd, &one) && !fstat(other, &two) && one.st_dev == two.st_dev &&
	       one.st_ino == two.st_ino;
}

void eventfd_renew(int *fd)
{
	int flags = fcntl(*fd, F_GETFL), on_exec = fcntl(*fd, F_GETFD), own;

	if (flags < 0 || on_exec < 0)
		return;
	own = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | (flags & O_NONBLOCK ? EFD_NONBLOCK : 0));
	if (own < 0)
		*fd = -1;
	else if (is_same_kind(own, *fd) && dup3(own, *fd, on_exec & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
		*fd = -1;
	if (own >= 0)
		close(own);
}

/* RWF_NOWAIT because the program may set O_NONBLOCK, for all holders of the file. */
static int take_now(int fd)
{
	uint64_t value;
	struct iovec iov = { .iov_base = &value, .iov_len = sizeof(value) };
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	if (preadv2(fd, &iov, 1, -1, RWF_NOWAIT) == sizeof(value))
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return -1;
	/* Kernels before 5.10: if another reader takes the event first, eventfd_take() blocks. */
	if (poll(&ready, 1, 0) != 1)
		return -1;
	return eventfd_take(fd);
}

uint32_t eventfd_withdraw(int fd, uint32_t count)
{
	uint32_t taken = 0;
	int saved = errno;

	while (taken < count) {
		if (take_now(fd) == 0)
			taken++;
		else if (errno != EINTR)
			break;
	}
	errno = saved;
	return taken;
}
