/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Oneself - the kernel's copies within this process (process_vm_readv, process_vm_writev). A bad
 * address is an error there, and no signal.
 *
 * The PID names the process's first thread, which has no memory any more once it has ended
 * (pthread_exit in main). Then a copy names the thread that makes it.
 *
 * Any thread, without locks. Both calls return what the kernel does: bytes, or -1 with errno.
 */
#ifndef MEMORY_ONESELF_H
#define MEMORY_ONESELF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Before, and in a child of a fork until it does so itself, a copy is a system call longer. */
void oneself_init(void);
void oneself_reset_after_fork(void);

/* From memory that the kernel looks up in advance, to memory that it reaches by page faults. */
ssize_t oneself_read(const struct iovec *to, unsigned targets, const struct iovec *from,
		     unsigned sources);
/* The other way round. */
ssize_t oneself_write(const struct iovec *from, unsigned sources, const struct iovec *to,
		      unsigned targets);

/*
 * Writes to the word at this address, a multiple of 4, what is there, beside threads that write to
 * it. False: the address is bad, or a userfaultfd protects the page.
 */
bool oneself_write_nothing(uint64_t address);

#endif
