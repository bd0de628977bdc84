/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages - makes a kernel look as if its pages were 16 or 64 KiB long: LD_PRELOAD, with their length
 * in TEST_PAGE_BYTES.
 *
 * sysconf tells that length; mmap, mprotect, mremap, munmap and madvise, and the same by syscall,
 * refuse what such a kernel refuses (EINVAL), and new mappings begin at a multiple of it. It takes
 * multiples of the real page in all else, so a program that computes with the real one by mistake
 * is found where it matters: at an address or an offset.
 *
 * What is refused is also said on standard error, as a program may go on without.
 */
#undef _FILE_OFFSET_BITS /* mmap and mmap64 by their own names */
#include <dlfcn.h>
#include <errno.h>
#include <linux/mman.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long page(void)
{
	static unsigned long known;
	const char *wish;

	if (!known) {
		wish = getenv("TEST_PAGE_BYTES");
		known = wish ? strtoul(wish, NULL, 10) : 65536;
	}
	return known;
}

static long raw(long number, long a, long b, long c, long d, long e, long f)
{
	static long (*real)(long, ...);

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return real(number, a, b, c, d, e, f);
}

static long refuse(const char *call, unsigned long value)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "pages: %s of 0x%lx refused\n", call, value);

	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		abort();
	errno = EINVAL;
	return -1;
}

/* Room for the mapping at a multiple of the page, and a page more; what is not needed goes back. */
static long map_aligned(long bytes, long rights, long how, long fd, long offset)
{
	unsigned long mask = page() - 1, room = ((unsigned long)bytes + mask) & ~mask;
	long start = raw(SYS_mmap, 0, (long)(room + page()), PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned long aligned = ((unsigned long)start + mask) & ~mask;
	long made;

	if (start == -1)
		return -1;
	made = raw(SYS_mmap, (long)aligned, bytes, rights, how | MAP_FIXED, fd, offset);
	if (made == -1) {
		raw(SYS_munmap, start, (long)(room + page()), 0, 0, 0, 0);
		return -1;
	}
	if (aligned > (unsigned long)start)
		raw(SYS_munmap, start, (long)(aligned - (unsigned long)start), 0, 0, 0, 0);
	raw(SYS_munmap, (long)(aligned + room), (long)((unsigned long)start + page() - aligned), 0,
	    0, 0, 0);
	return made;
}

static long do_mmap(long at, long bytes, long rights, long how, long fd, long offset)
{
	if ((unsigned long)offset % page())
		return refuse("mmap at an offset", (unsigned long)offset);
	if (how & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
		if ((unsigned long)at % page())
			return refuse("mmap at an address", (unsigned long)at);
		return raw(SYS_mmap, at, bytes, rights, how, fd, offset);
	}
	return map_aligned(bytes, rights, how, fd, offset);
}

static long do_mremap(long from, long old_bytes, long bytes, long how, long to)
{
	if ((unsigned long)from % page() || (how & MREMAP_FIXED && (unsigned long)to % page()))
		return refuse("mremap", (unsigned long)from);
	return raw(SYS_mremap, from, old_bytes, bytes, how, to, 0);
}

static long do_checked(long number, const char *name, long at, long bytes, long c)
{
	if ((unsigned long)at % page())
		return refuse(name, (unsigned long)at);
	return raw(number, at, bytes, c, 0, 0, 0);
}

long syscall(long number, ...)
{
	long a[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	switch (number) {
	case SYS_mmap:
		return do_mmap(a[0], a[1], a[2], a[3], a[4], a[5]);
	case SYS_mremap:
		return do_mremap(a[0], a[1], a[2], a[3], a[4]);
	case SYS_munmap:
		return do_checked(number, "munmap", a[0], a[1], 0);
	case SYS_mprotect:
		return do_checked(number, "mprotect", a[0], a[1], a[2]);
	case SYS_madvise:
		return do_checked(number, "madvise", a[0], a[1], a[2]);
	default:
		return raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	}
}

void *mmap(void *at, size_t bytes, int rights, int how, int fd, off_t offset)
{
	return (void *)do_mmap((long)at, (long)bytes, rights, how, fd, offset);
}

void *mmap64(void *at, size_t bytes, int rights, int how, int fd, __off64_t offset)
{
	return (void *)do_mmap((long)at, (long)bytes, rights, how, fd, offset);
}

int munmap(void *at, size_t bytes)
{
	return (int)do_checked(SYS_munmap, "munmap", (long)at, (long)bytes, 0);
}

int mprotect(void *at, size_t bytes, int rights)
{
	return (int)do_checked(SYS_mprotect, "mprotect", (long)at, (long)bytes, rights);
}

int madvise(void *at, size_t bytes, int advice)
{
	return (int)do_checked(SYS_madvise, "madvise", (long)at, (long)bytes, advice);
}

void *mremap(void *from, size_t old_bytes, size_t bytes, int how, ...)
{
	void *to = NULL;
	va_list list;

	if (how & (MREMAP_FIXED | MREMAP_DONTUNMAP)) {
		va_start(list, how);
		to = va_arg(list, void *);
		va_end(list);
	}
	return (void *)do_mremap((long)from, (long)old_bytes, (long)bytes, how, (long)to);
}

long sysconf(int name)
{
	static long (*real)(int);

	if (name == _SC_PAGESIZE)
		return (long)page();
	if (!real)
		real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
	return real(name);
}

int getpagesize(void)
{
	return (int)page();
}
