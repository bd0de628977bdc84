/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocator - malloc and its kin, as the C library or the sanitizer has them, behind one lock that
 * is held over a fork.
 *
 * Sanitizers' allocators do not handle forks: a child waits for ever for a lock that another thread
 * of its parent had. glibc's does, by the same means as here. So a test finds only faults of the
 * library: of its handlers in the child before fork returns, which must not allocate.
 */
#ifndef TESTS_UNIT_CM_ALLOCATOR_H
#define TESTS_UNIT_CM_ALLOCATOR_H

/* fork(); the child ends with status ALLOCATOR_USED if a handler allocated or freed something. */
#define ALLOCATOR_USED 88

int allocator_fork(void);

#endif
