/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Real - the C library's functions that this library interposes.
 *
 * They are looked up once (dlsym RTLD_NEXT): when the library is loaded, or at the first call if
 * that is earlier. Any thread.
 */
#ifndef PRELOAD_REAL_H
#define PRELOAD_REAL_H

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PRELOAD_EXPORT __attribute__((visibility("default")))

/* Exports `function` by another name as well, such as open64 for open. */
#define ALSO_AS(name, function)                                                                    \
	extern PRELOAD_EXPORT __attribute__((                                                      \
		alias(#function), nothrow)) __typeof__(function) also_##name __asm__(#name)

/* On 64-bit platforms glibc's structures with and without 64 have the same layout. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one function serves both");
_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one function serves both");

struct real {
	__typeof__(open) *open;
	__typeof__(openat) *openat;
	__typeof__(fopen) *fopen;
	__typeof__(stat) *stat;
	__typeof__(lstat) *lstat;
	__typeof__(fstat) *fstat;
	__typeof__(fstatat) *fstatat;
	__typeof__(statx) *statx;
	__typeof__(access) *access;
	__typeof__(euidaccess) *euidaccess;
	__typeof__(faccessat) *faccessat;
	__typeof__(readlink) *readlink;
	__typeof__(readlinkat) *readlinkat;
	__typeof__(realpath) *realpath;
	__typeof__(chdir) *chdir;
	__typeof__(fchdir) *fchdir;
	__typeof__(getcwd) *getcwd;
	__typeof__(get_current_dir_name) *get_current_dir_name;
	__typeof__(getxattr) *getxattr;
	__typeof__(lgetxattr) *lgetxattr;
	__typeof__(listxattr) *listxattr;
	__typeof__(llistxattr) *llistxattr;
	__typeof__(opendir) *opendir;
	__typeof__(fdopendir) *fdopendir;
	__typeof__(readdir) *readdir;
	__typeof__(readdir_r) *readdir_r;
	__typeof__(closedir) *closedir;
	__typeof__(rewinddir) *rewinddir;
	__typeof__(seekdir) *seekdir;
	__typeof__(telldir) *telldir;
	__typeof__(dirfd) *dirfd;
	__typeof__(scandir) *scandir;
	__typeof__(scandirat) *scandirat;
	__typeof__(glob) *glob;
	__typeof__(socket) *socket;
	__typeof__(send) *send;
	__typeof__(sendto) *sendto;
	__typeof__(sendmsg) *sendmsg;
	__typeof__(recv) *recv;
	__typeof__(recvfrom) *recvfrom;
	__typeof__(recvmsg) *recvmsg;
};

/* Looks the functions up; real() calls it. */
const struct real *real_load(void);

extern _Atomic(const struct real *) real_loaded;

static inline const struct real *real(void)
{
	/* Barrier REAL: see real_load. */
	const struct real *loaded = atomic_load_explicit(&real_loaded, memory_order_acquire);

	return loaded ? loaded : real_load();
}

#endif
