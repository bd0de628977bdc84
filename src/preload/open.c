/* SPDX-License-Identifier: BSD-2-Clause */
/* Interposes open, fopen and their kin. Files of the tree are memfds with their text. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "preload/real.h"
#include "preload/served.h"

/*
 * Tries to open a path of the tree. True: the call is done, and *fd is a descriptor, or -1 with
 * errno. False: the caller opens *path, which may have changed, with the C library.
 */
__attribute__((noinline)) static bool try_open(int *directory_fd, const char **path, int flags,
					       char elsewhere[PATH_MAX], int *fd)
{
	struct served served;
	int rc = served_begin(*directory_fd, *path, !(flags & O_NOFOLLOW), &served);

	if (rc == WALKED_REAL)
		return false;
	if (rc == WALKED_ELSEWHERE) {
		memcpy(elsewhere, served.elsewhere, PATH_MAX);
		*directory_fd = AT_FDCWD;
		*path = elsewhere;
		return false;
	}
	if (rc == WALKED_NODE) {
		rc = served_open(&served, flags);
		served_end(&served);
	}
	if (rc < 0)
		errno = -rc;
	*fd = rc < 0 ? -1 : rc;
	return true;
}

static __attribute__((noinline)) int open_served(int directory_fd, const char *path, int flags,
						 mode_t mode)
{
	char elsewhere[PATH_MAX];
	int fd;

	if (try_open(&directory_fd, &path, flags, elsewhere, &fd))
		return fd;
	return real()->openat(directory_fd, path, flags, mode);
}

/* The argument after `flags`, which is there only if a file may be made. */
static mode_t take_mode(int flags, va_list *list)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(*list, mode_t) : 0;
}

PRELOAD_EXPORT int open(const char *path, int flags, ...)
{
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = take_mode(flags, &list);
	va_end(list);
	if (served_concerns(AT_FDCWD, path))
		return open_served(AT_FDCWD, path, flags, mode);
	return real()->open(path, flags, mode);
}

PRELOAD_EXPORT int openat(int directory_fd, const char *path, int flags, ...)
{
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = take_mode(flags, &list);
	va_end(list);
	if (served_concerns(directory_fd, path))
		return open_served(directory_fd, path, flags, mode);
	return real()->openat(directory_fd, path, flags, mode);
}

/* Programs compiled with _FORTIFY_SOURCE call these. */
PRELOAD_EXPORT int __open_2(const char *path, int flags);
PRELOAD_EXPORT int __openat_2(int directory_fd, const char *path, int flags);

int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

int __openat_2(int directory_fd, const char *path, int flags)
{
	return openat(directory_fd, path, flags);
}

static __attribute__((noinline)) FILE *fopen_served(const char *path, const char *mode)
{
	int flags = *mode == 'r' && !strchr(mode, '+') ? O_RDONLY : O_RDWR | O_CREAT;
	int directory_fd = AT_FDCWD, fd;
	char elsewhere[PATH_MAX];
	FILE *file;

	flags |= strchr(mode, 'e') ? O_CLOEXEC : 0;
	if (!try_open(&directory_fd, &path, flags, elsewhere, &fd))
		return real()->fopen(path, mode);
	if (fd < 0)
		return NULL;
	file = fdopen(fd, mode);
	if (!file)
		close(fd);
	return file;
}

PRELOAD_EXPORT FILE *fopen(const char *path, const char *mode)
{
	if (served_concerns(AT_FDCWD, path))
		return fopen_served(path, mode);
	return real()->fopen(path, mode);
}

ALSO_AS(open64, open);
ALSO_AS(openat64, openat);
ALSO_AS(__open64_2, __open_2);
ALSO_AS(__openat64_2, __openat_2);
ALSO_AS(fopen64, fopen);
