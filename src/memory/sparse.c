/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/sparse.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * What may not be accessed is not populated, and mprotect populates only what is locked. A raw
 * system call, because the sanitizers ignore the function. If it is refused (seccomp), nothing is
 * locked, or the mapping is populated.
 */
void *sparse_map(size_t bytes, int flags, int fd, uint64_t offset)
{
	void *made = mmap(NULL, bytes, PROT_NONE, flags, fd, (off_t)offset);

	if (made == MAP_FAILED)
		return MAP_FAILED;
	syscall(SYS_munlock, made, bytes);
	if (!mprotect(made, bytes, PROT_READ | PROT_WRITE))
		return made;
	munmap(made, bytes);
	return MAP_FAILED;
}
