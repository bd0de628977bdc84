/* SPDX-License-Identifier: BSD-2-Clause */
/* Interposes stat, statx, access and their kin. */
#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "preload/real.h"
#include "preload/served.h"

static __attribute__((noinline)) int stat_served(int directory_fd, const char *path,
						 struct stat *out, int flags)
{
	struct served served;
	int rc = served_begin_at(directory_fd, path, flags, &served);

	if (rc == WALKED_REAL)
		return real()->fstatat(directory_fd, path, out, flags);
	if (rc == WALKED_ELSEWHERE)
		return real()->fstatat(AT_FDCWD, served.elsewhere, out, flags);
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	served_stat(&served, out);
	served_end(&served);
	return 0;
}

PRELOAD_EXPORT int stat(const char *path, struct stat *out)
{
	if (served_concerns(AT_FDCWD, path))
		return stat_served(AT_FDCWD, path, out, 0);
	return real()->stat(path, out);
}

PRELOAD_EXPORT int lstat(const char *path, struct stat *out)
{
	if (served_concerns(AT_FDCWD, path))
		return stat_served(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
	return real()->lstat(path, out);
}

PRELOAD_EXPORT int fstat(int fd, struct stat *out)
{
	struct served served;
	int rc = real()->fstat(fd, out);

	/* To the kernel a memfd is a regular file without links. */
	if (rc == 0 && S_ISREG(out->st_mode) && out->st_nlink == 0 &&
	    served_begin_fd(fd, &served) == WALKED_NODE) {
		served_stat(&served, out);
		served_end(&served);
	}
	return rc;
}

PRELOAD_EXPORT int fstatat(int directory_fd, const char *path, struct stat *out, int flags)
{
	if (served_concerns_at(directory_fd, path, flags))
		return stat_served(directory_fd, path, out, flags);
	return real()->fstatat(directory_fd, path, out, flags);
}

static void copy_time(const struct timespec *from, struct statx_timestamp *to)
{
	to->tv_sec = from->tv_sec;
	to->tv_nsec = from->tv_nsec;
}

static void to_statx(const struct stat *from, struct statx *to)
{
	memset(to, 0, sizeof(*to));
	to->stx_mask = STATX_BASIC_STATS;
	to->stx_blksize = from->st_blksize;
	to->stx_nlink = from->st_nlink;
	to->stx_mode = from->st_mode;
	to->stx_ino = from->st_ino;
	to->stx_size = from->st_size;
	copy_time(&from->st_atim, &to->stx_atime);
	copy_time(&from->st_ctim, &to->stx_ctime);
	copy_time(&from->st_mtim, &to->stx_mtime);
	to->stx_rdev_major = major(from->st_rdev);
	to->stx_rdev_minor = minor(from->st_rdev);
	to->stx_dev_major = major(from->st_dev);
	to->stx_dev_minor = minor(from->st_dev);
}

static __attribute__((noinline)) int statx_served(int directory_fd, const char *path, int flags,
						  unsigned int mask, struct statx *out)
{
	struct served served;
	struct stat status;
	int rc = served_begin_at(directory_fd, path, flags, &served);

	if (rc == WALKED_REAL)
		return real()->statx(directory_fd, path, flags, mask, out);
	if (rc == WALKED_ELSEWHERE)
		return real()->statx(AT_FDCWD, served.elsewhere, flags, mask, out);
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	served_stat(&served, &status);
	served_end(&served);
	to_statx(&status, out);
	return 0;
}

PRELOAD_EXPORT int statx(int directory_fd, const char *path, int flags, unsigned int mask,
			 struct statx *out)
{
	if (served_concerns_at(directory_fd, path, flags))
		return statx_served(directory_fd, path, flags, mask, out);
	return real()->statx(directory_fd, path, flags, mask, out);
}

static __attribute__((noinline)) int access_served(int directory_fd, const char *path, int mode,
						   int flags)
{
	struct served served;
	int rc = served_begin_at(directory_fd, path, flags, &served);

	if (rc == WALKED_REAL)
		return real()->faccessat(directory_fd, path, mode, flags);
	if (rc == WALKED_ELSEWHERE)
		return real()->faccessat(AT_FDCWD, served.elsewhere, mode, flags);
	if (rc == WALKED_NODE) {
		rc = served_access(&served, mode);
		served_end(&served);
	}
	if (rc == 0)
		return 0;
	errno = -rc;
	return -1;
}

PRELOAD_EXPORT int access(const char *path, int mode)
{
	if (served_concerns(AT_FDCWD, path))
		return access_served(AT_FDCWD, path, mode, 0);
	return real()->access(path, mode);
}

PRELOAD_EXPORT int euidaccess(const char *path, int mode)
{
	if (served_concerns(AT_FDCWD, path))
		return access_served(AT_FDCWD, path, mode, AT_EACCESS);
	return real()->euidaccess(path, mode);
}

PRELOAD_EXPORT int faccessat(int directory_fd, const char *path, int mode, int flags)
{
	if (served_concerns_at(directory_fd, path, flags))
		return access_served(directory_fd, path, mode, flags);
	return real()->faccessat(directory_fd, path, mode, flags);
}

/* Programs linked with a glibc before 2.33 call these; `version` is that of struct stat. */
PRELOAD_EXPORT int __xstat(int version, const char *path, struct stat *out);
PRELOAD_EXPORT int __lxstat(int version, const char *path, struct stat *out);
PRELOAD_EXPORT int __fxstat(int version, int fd, struct stat *out);
PRELOAD_EXPORT int __fxstatat(int version, int directory_fd, const char *path, struct stat *out,
			      int flags);

int __xstat(int version, const char *path, struct stat *out)
{
	return stat(path, out);
}

int __lxstat(int version, const char *path, struct stat *out)
{
	return lstat(path, out);
}

int __fxstat(int version, int fd, struct stat *out)
{
	return fstat(fd, out);
}

int __fxstatat(int version, int directory_fd, const char *path, struct stat *out, int flags)
{
	return fstatat(directory_fd, path, out, flags);
}

ALSO_AS(stat64, stat);
ALSO_AS(lstat64, lstat);
ALSO_AS(fstat64, fstat);
ALSO_AS(fstatat64, fstatat);
ALSO_AS(eaccess, euidaccess);
ALSO_AS(__xstat64, __xstat);
ALSO_AS(__lxstat64, __lxstat);
ALSO_AS(__fxstat64, __fxstat);
ALSO_AS(__fxstatat64, __fxstatat);
