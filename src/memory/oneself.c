/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/oneself.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static pid_t own_pid; /* 0: not known; the kernel finds no such process */

void oneself_init(void)
{
	own_pid = getpid();
}

void oneself_reset_after_fork(void)
{
	own_pid = 0;
}

/*
 * Raw system calls, because sanitizers intercept the functions: programs order a peer's accesses
 * with their own by messages, and a sanitizer sees one program only. Numbers as longs: syscall()
 * loads all 8 bytes, which may be on the stack.
 */
static ssize_t copy(long call, const struct iovec *local, unsigned locals,
		    const struct iovec *remote, unsigned remotes)
{
	ssize_t n = syscall(call, (long)own_pid, local, (long)locals, remote, (long)remotes, 0L);

	if (n >= 0 || errno != ESRCH)
		return n;
	return syscall(call, (long)gettid(), local, (long)locals, remote, (long)remotes, 0L);
}

ssize_t oneself_read(const struct iovec *to, unsigned targets, const struct iovec *from,
		     unsigned sources)
{
	return copy(SYS_process_vm_readv, to, targets, from, sources);
}

ssize_t oneself_write(const struct iovec *from, unsigned sources, const struct iovec *to,
		      unsigned targets)
{
	return copy(SYS_process_vm_writev, from, sources, to, targets);
}

/*
 * The kernel ORs 0 into the word, as part of a wake-up of nobody: an access as that of an atomic,
 * which is an error where that is a signal. A word that holds the number compared with costs a
 * sleeper there a wake-up in vain.
 */
bool oneself_write_nothing(uint64_t address)
{
	static uint32_t nobody_waits;

	return syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0,
		       (void *)(uintptr_t)address,
		       FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0x800)) >= 0;
}
