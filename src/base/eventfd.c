/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/eventfd.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
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
