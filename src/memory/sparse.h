/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sparse - mappings that take memory only where they are touched, also in a program that locks all
 * that it maps (mlockall(2) with MCL_FUTURE), for which mmap populates a mapping.
 */
#ifndef MEMORY_SPARSE_H
#define MEMORY_SPARSE_H

#include <stddef.h>
#include <stdint.h>

/*
 * mmap(2), anywhere, readable and writable, not locked. MAP_FAILED and errno: also where the
 * program's limit of locked memory is too low for a moment.
 */
void *sparse_map(size_t bytes, int flags, int fd, uint64_t offset);

#endif
