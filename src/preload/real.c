/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/real.h"

#include <dlfcn.h>
#include <stddef.h>

_Atomic(const struct real *) real_loaded;

/* clang-format off */
#define ENTRY(name) { #name, offsetof(struct real, name) }
/* clang-format on */

static const struct {
	const char *name;
	size_t offset;
} entries[] = {
	ENTRY(open),	   ENTRY(openat),
	ENTRY(fopen),	   ENTRY(stat),
	ENTRY(lstat),	   ENTRY(fstat),
	ENTRY(fstatat),	   ENTRY(statx),
	ENTRY(access),	   ENTRY(euidaccess),
	ENTRY(faccessat),  ENTRY(readlink),
	ENTRY(readlinkat), ENTRY(realpath),
	ENTRY(getxattr),   ENTRY(lgetxattr),
	ENTRY(listxattr),  ENTRY(llistxattr),
	ENTRY(opendir),	   ENTRY(fdopendir),
	ENTRY(readdir),	   ENTRY(readdir_r),
	ENTRY(closedir),   ENTRY(rewinddir),
	ENTRY(seekdir),	   ENTRY(telldir),
	ENTRY(dirfd),	   ENTRY(scandir),
	ENTRY(scandirat),  ENTRY(glob),
	ENTRY(chdir),	   ENTRY(fchdir),
	ENTRY(getcwd),	   ENTRY(get_current_dir_name),
	ENTRY(socket),	   ENTRY(send),
	ENTRY(sendto),	   ENTRY(sendmsg),
	ENTRY(recv),	   ENTRY(recvfrom),
	ENTRY(recvmsg),
};

/*
 * Threads that call this at once store the same values. Barrier REAL: the release store comes after
 * all functions, so a thread that sees the pointer in real() sees the functions.
 */
const struct real *real_load(void)
{
	static struct real functions;

	for (unsigned i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		_Atomic(void *) *slot = (void *)((char *)&functions + entries[i].offset);

		atomic_store_explicit(slot, dlsym(RTLD_NEXT, entries[i].name),
				      memory_order_relaxed);
	}
	atomic_store_explicit(&real_loaded, &functions, memory_order_release);
	return &functions;
}

__attribute__((constructor)) static void load_early(void)
{
	real();
}
