/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/dmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/page.h"
#include "memory/pin.h"

#define NAME "/dmabuf:" /* how the kernel names each of them in /proc */

static bool is_dmabuf(int fd)
{
	char path[48], name[sizeof(NAME)];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
	length = readlink(path, name, sizeof(name) - 1);
	return length == sizeof(NAME) - 1 && !memcmp(name, NAME, sizeof(NAME) - 1);
}

/*
 * Brackets the processor's accesses (DMA_BUF_SYNC_START, _END). Drivers without caches to flush
 * refuse.
 */
static void sync_access(int fd, uint64_t start_or_end)
{
	struct dma_buf_sync sync = { .flags = start_or_end | DMA_BUF_SYNC_RW };

	while (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) < 0 && (errno == EINTR || errno == EAGAIN))
		;
}

static int refuse(int error, const char *what, int fd)
{
	cause_report(error == EOPNOTSUPP ? CAUSE_DMABUF_UNREACHABLE : CAUSE_ARGUMENT_INVALID, 0,
		     "ibv_reg_dmabuf_mr: descriptor %d: %s", fd, what);
	return -error;
}

static int check(int fd, uint64_t offset, size_t length)
{
	uint64_t end;
	off_t size;

	if (fcntl(fd, F_GETFD) < 0)
		return refuse(EBADF, "it is not open", fd);
	if (!is_dmabuf(fd))
		return refuse(EINVAL, "it is no dma-buf", fd);
	size = lseek(fd, 0, SEEK_END);
	if (!length || __builtin_add_overflow(offset, length, &end) ||
	    (size >= 0 && end > (uint64_t)size))
		return refuse(EINVAL, "the range reaches outside", fd);
	return 0;
}

int dmabuf_map(int fd, uint64_t offset, size_t length, bool writable, struct dmabuf *out)
{
	size_t before = offset & (page_bytes() - 1);
	struct dmabuf dmabuf = { .mapped = page_round_up(before + length) };
	int error = check(fd, offset, length);

	if (error)
		return error;
	dmabuf.start = mmap(NULL, dmabuf.mapped, PROT_READ | (writable ? PROT_WRITE : 0),
			    MAP_SHARED, fd, (off_t)(offset - before));
	if (dmabuf.start == MAP_FAILED)
		return refuse(errno == ENOMEM ? ENOMEM : EOPNOTSUPP, strerror(errno), fd);
	dmabuf.range = dmabuf.start + before;
	if (pin_range(dmabuf.range, length, writable) < 0) {
		munmap(dmabuf.start, dmabuf.mapped);
		return refuse(EOPNOTSUPP, "its memory is no memory to the kernel", fd);
	}
	dmabuf.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (dmabuf.fd < 0) {
		munmap(dmabuf.start, dmabuf.mapped);
		return refuse(ENOMEM, "no descriptor is left", fd);
	}
	sync_access(dmabuf.fd, DMA_BUF_SYNC_START);
	*out = dmabuf;
	return 0;
}

void dmabuf_unmap(struct dmabuf *dmabuf)
{
	if (dmabuf->fd < 0)
		return;
	sync_access(dmabuf->fd, DMA_BUF_SYNC_END);
	close(dmabuf->fd);
	munmap(dmabuf->start, dmabuf->mapped);
	dmabuf->fd = -1;
}
