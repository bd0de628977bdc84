/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/xcopy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/uncancelled.h"
#include "memory/memory.h"
#include "memory/oneself.h"

void xcopy_allow(void)
{
	const char *wish = secure_getenv("VERBATIM_PTRACER");

	/* without Yama it fails, and is not needed */
	if (wish && !strcmp(wish, "any"))
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

/* Whether the PID or TID names the link's process. 0, or an errno. */
static int try_id(const struct link *link, pid_t id)
{
	uint64_t cookie = 0;
	struct iovec here = { &cookie, sizeof(cookie) };
	struct iovec there = { (void *)(uintptr_t)link->peer->cookie_addr, sizeof(cookie) };
	ssize_t n = process_vm_readv(id, &here, 1, &there, 1, 0);

	if (n != sizeof(cookie))
		return n < 0 ? errno : EFAULT;
	return cookie == link->peer->cookie ? 0 : ESRCH; /* another one of this namespace has it */
}

/*
 * After ESRCH: the first thread, whose number the PID is, may have ended before the others. The
 * liveness word has the TID of one that lives as long as the process. The peer wrote it, so the
 * kernel is asked whether it is of the process that verbatimd named. Not where verbatimd and the
 * process number it differently: its end is found by the PID (adapter/peers.c). 0, or an errno.
 */
static int try_living_thread(struct link *link)
{
	uint32_t word = atomic_load_explicit(&link->peer->liveness, memory_order_acquire);
	pid_t id = (pid_t)(word & FUTEX_TID_MASK);
	int error = ESRCH;

	if (id && !(word & FUTEX_OWNER_DIED) && link->peer->pid == (uint32_t)link->pid)
		error = syscall(SYS_tgkill, link->pid, id, 0) ? errno : try_id(link, id);
	if (!error)
		atomic_store_explicit(&link->xcopy_id, id, memory_order_relaxed);
	return error;
}

void xcopy_probe(struct link *link)
{
	const char *wish = secure_getenv("VERBATIM_REACH");
	int error;

	if (wish && !strcmp(wish, "message")) {
		link->xcopy = XCOPY_NONE;
		return;
	}
	if (link->xcopy == XCOPY_SELF)
		return;
	error = try_id(link, link->pid);
	if (error == ESRCH)
		error = try_living_thread(link);
	link->xcopy_error = error;
	if (!error)
		link->xcopy = XCOPY_VM;
}

/* Which processes may trace others, by the kernel's Yama module; -1: it is not loaded. */
static int ptrace_scope(void)
{
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	char text[4] = "";
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	return got > 0 ? atoi(text) : -1;
}

/* Whether the kernel refuses the system call for every process (seccomp). */
static bool may_not_call(void)
{
	char a = 0, b;
	struct iovec here = { &b, 1 }, there = { &a, 1 };

	return oneself_read(&here, 1, &there, 1) < 0;
}

void xcopy_explain(struct link *link)
{
	UNCANCELLED;
	int scope;

	if (atomic_exchange(&link->xcopy_told, true))
		return;
	scope = ptrace_scope();
	if (!link->xcopy_error)
		cause_report(CAUSE_REACH_REFUSED, 0, "process %d: VERBATIM_REACH", (int)link->pid);
	else if (may_not_call())
		cause_report(CAUSE_REACH_REFUSED, 0,
			     "process %d: this one may not call process_vm_readv (seccomp)",
			     (int)link->pid);
	else if (link->xcopy_error == ESRCH)
		cause_report(CAUSE_REACH_REFUSED, 0, "process %d: it is of another PID namespace",
			     (int)link->pid);
	else if (scope > 0)
		cause_report(CAUSE_REACH_REFUSED, 0, "process %d: kernel.yama.ptrace_scope is %d",
			     (int)link->pid, scope);
	else
		cause_report(
			CAUSE_REACH_REFUSED, 0,
			"process %d: it is not dumpable, or has other rights than this one: %s",
			(int)link->pid, strerror(link->xcopy_error));
}

static int copy_self(enum xcopy_direction direction, const struct iovec *local, int count,
		     uint64_t remote, size_t length)
{
	for (int i = 0; i < count && length; i++) {
		size_t bytes = local[i].iov_len < length ? local[i].iov_len : length;
		int r;

		if (direction == XCOPY_WRITE)
			r = memory_copy(remote, (uintptr_t)local[i].iov_base, bytes);
		else
			r = memory_copy((uintptr_t)local[i].iov_base, remote, bytes);
		if (r)
			return r;
		remote += bytes;
		length -= bytes;
	}
	return 0;
}

/*
 * The kernel stores in the order of the pieces, and one piece is finished before the next is begun;
 * so the last word is a piece of its own.
 */
static ssize_t call_kernel(pid_t id, enum xcopy_direction direction, const struct iovec *local,
			   int count, uint64_t remote, size_t length)
{
	uint64_t last = (remote + length - 1) & ~7ull;
	size_t body = last > remote && direction == XCOPY_WRITE ? last - remote : 0;
	struct iovec there[2] = {
		{ (void *)(uintptr_t)remote, body },
		{ (void *)(uintptr_t)(remote + body), length - body },
	};

	if (direction == XCOPY_READ)
		return process_vm_readv(id, local, (unsigned)count, there + 1, 1, 0);
	return process_vm_writev(id, local, (unsigned)count, body ? there : there + 1, body ? 2 : 1,
				 0);
}

static int copy_vm(struct link *link, enum xcopy_direction direction, const struct iovec *local,
		   int count, uint64_t remote, size_t length)
{
	pid_t id = atomic_load_explicit(&link->xcopy_id, memory_order_relaxed);
	ssize_t n = call_kernel(id, direction, local, count, remote, length);
	int error = n < 0 ? errno : 0;

	if (error == ESRCH && id == link->pid && !try_living_thread(link)) {
		n = call_kernel(link->xcopy_id, direction, local, count, remote, length);
		error = n < 0 ? errno : 0;
	}
	if (n == (ssize_t)length)
		return 0;
	if (n >= 0)
		return -EFAULT; /* a partial copy: the next page is missing */
	if (error == EPERM) {
		link->xcopy_error = EPERM;
		link->xcopy = XCOPY_NONE;
		return -EPERM;
	}
	return error == ESRCH ? -ESRCH : -EFAULT;
}

int xcopy_move(struct link *link, enum xcopy_direction direction, const struct iovec *local,
	       int count, uint64_t remote, size_t length)
{
	if (!length)
		return 0;
	switch (link->xcopy) {
	case XCOPY_SELF:
		return copy_self(direction, local, count, remote, length);
	case XCOPY_VM:
		return copy_vm(link, direction, local, count, remote, length);
	case XCOPY_NONE:
		break;
	}
	return -EPERM;
}
