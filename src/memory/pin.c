#include "memory/pin.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define PROBES 256 /* pages a system call */

/* The maps of the process cover [start, end) with the rights that are needed. */
static bool is_mapped(uintptr_t start, uintptr_t end, bool writable)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], rights[5];
	uintptr_t from, to;

	if (!maps)
		return true; /* nothing is known against it */
	while (start < end && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || to <= start)
			continue;
		if (from > start || rights[0] != 'r' || (writable && rights[1] != 'w'))
			break;
		start = to;
	}
	fclose(maps);
	return start >= end;
}

/* Reads a byte of each page through the kernel, which answers where an access would be a signal. */
static bool is_readable(uintptr_t start, uintptr_t end, size_t page)
{
	char bytes[PROBES];

	while (start < end) {
		struct iovec remote[PROBES], local = {.iov_base = bytes};
		ssize_t got;
		unsigned n = 0;

		for (; n < PROBES && start < end; n++, start += page)
			remote[n] = (struct iovec){(void *)start, 1};
		local.iov_len = n;
		got = process_vm_readv(getpid(), &local, 1, remote, n, 0);
		if (got < 0 && errno != EFAULT)
			return true; /* not allowed here: is_mapped has to do */
		if (got != (ssize_t)n)
			return false;
	}
	return true;
}

int pin_range(const void *addr, size_t length, bool writable)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)addr & ~(page - 1);
	uintptr_t end;
	int saved = errno, ret;

	if (length == 0)
		return 0;
	if (__builtin_add_overflow((uintptr_t)addr, length, &end) || end > UINTPTR_MAX - page)
		return -EFAULT;
	end = (end + page - 1) & ~(page - 1);

	do
		ret = madvise((void *)start, end - start,
			      writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	while (ret < 0 && errno == EINTR);
	/* EINVAL: Linux before 5.14, or memory that cannot be populated but perhaps copied. */
	if (ret < 0 && errno == EINVAL && is_mapped(start, end, writable) &&
	    is_readable(start, end, page))
		ret = 0;
	errno = saved;
	return ret < 0 ? -EFAULT : 0;
}
