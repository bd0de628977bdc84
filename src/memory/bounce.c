/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/bounce.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/memory_file.h"

#define BUFFERS 2u

static struct buffer {
	_Atomic bool used;
	int fd; /* only while `page` is not NULL */
	char *page;
} buffers[BUFFERS];

static void make(struct buffer *buffer)
{
	int fd = memfd_create("verbatim-bounce", MFD_CLOEXEC);
	void *page = MAP_FAILED;

	if (fd >= 0 && memory_file_extend(fd, BOUNCE_BYTES) == 0)
		page = mmap(NULL, BOUNCE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return;
	}
	madvise(page, BOUNCE_BYTES, MADV_DONTFORK);
	buffer->fd = fd;
	buffer->page = page;
}

void bounce_init(void)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		if (!buffers[i].page)
			make(&buffers[i]);
}

/* The pages are not mapped here (MADV_DONTFORK). */
void bounce_reset_after_fork(void)
{
	for (unsigned i = 0; i < BUFFERS; i++) {
		if (buffers[i].page)
			close(buffers[i].fd);
		buffers[i].page = NULL;
		atomic_store(&buffers[i].used, false);
	}
}

static struct buffer *take(void)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		if (buffers[i].page && !atomic_exchange(&buffers[i].used, true))
			return &buffers[i];
	return NULL;
}

static void give_back(struct buffer *buffer)
{
	atomic_store_explicit(&buffer->used, false, memory_order_release);
}

/* Of a system call that was to move `bytes`. */
static int result_of(ssize_t moved, size_t bytes)
{
	if (moved == (ssize_t)bytes)
		return 0;
	return moved >= 0 || errno == EFAULT ? -EFAULT : -EAGAIN;
}

/*
 * Raw system calls: the functions are cancellation points, and sanitizers intercept them (see
 * memory.c). The kernel stores in the order of the pieces.
 */
static ssize_t load_file(int fd, uint64_t to, size_t bytes)
{
	uint64_t last = (to + bytes - 1) & ~7ull;
	size_t body = last > to ? last - to : 0;
	struct iovec pieces[2] = {
		{ (void *)(uintptr_t)to, body },
		{ (void *)(uintptr_t)(to + body), bytes - body },
	};

	if (!body)
		return syscall(SYS_pread64, fd, (void *)(uintptr_t)to, bytes, 0);
	return syscall(SYS_preadv, fd, pieces, 2, 0, 0);
}

int bounce_to(uint64_t to, const void *from, size_t bytes)
{
	struct buffer *buffer = take();
	int result;

	if (!buffer)
		return -EAGAIN;
	memcpy(buffer->page, from, bytes);
	result = result_of(load_file(buffer->fd, to, bytes), bytes);
	give_back(buffer);
	return result;
}

int bounce_from(void *to, uint64_t from, size_t bytes)
{
	struct buffer *buffer = memory_file_may_reach(BOUNCE_BYTES) ? take() : NULL;
	int result;

	if (!buffer)
		return -EAGAIN;
	result = result_of(
		syscall(SYS_pwrite64, buffer->fd, (const void *)(uintptr_t)from, bytes, 0), bytes);
	if (result == 0)
		memcpy(to, buffer->page, bytes);
	give_back(buffer);
	return result;
}
