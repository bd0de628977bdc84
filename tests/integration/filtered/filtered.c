/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Filtered - runs a program under a filter of system calls like that of a container.
 *
 * In:  which filter, a program and its arguments.
 * Out: the program, with no new privileges. Refused is what Docker's default profile refuses a
 *      container without capabilities; it allows what it names, and fails all else with EPERM, but
 *      clone3 with ENOSYS, so that the C library uses clone.
 *
 *     filtered docker|strict PROGRAM [ARGUMENT...]
 *
 * "strict" refuses what older versions refused, too: a process at another one's memory.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAMESPACES                                                                                 \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)
#define FIRST_UNKNOWN 450 /* system calls from this number on are newer than the profile */

#define LOAD(field)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)
#define FAIL(error)    ANSWER(SECCOMP_RET_ERRNO | (error))
#define REFUSE(call)   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), FAIL(EPERM)

static struct sock_filter memory_of_others[] = {
	LOAD(nr),	REFUSE(process_vm_readv),  REFUSE(process_vm_writev),
	REFUSE(ptrace), ANSWER(SECCOMP_RET_ALLOW),
};

static struct sock_filter docker[] = {
	LOAD(nr),
	BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_UNKNOWN, 0, 1),
	FAIL(EPERM),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
	FAIL(ENOSYS),
	REFUSE(acct),
	REFUSE(add_key),
	REFUSE(bpf),
	REFUSE(chroot),
	REFUSE(clock_settime),
	REFUSE(delete_module),
	REFUSE(fanotify_init),
	REFUSE(finit_module),
	REFUSE(fsconfig),
	REFUSE(fsmount),
	REFUSE(fsopen),
	REFUSE(fspick),
	REFUSE(get_mempolicy),
	REFUSE(init_module),
	REFUSE(io_uring_enter),
	REFUSE(io_uring_register),
	REFUSE(io_uring_setup),
	REFUSE(kcmp),
	REFUSE(kexec_load),
	REFUSE(keyctl),
	REFUSE(lookup_dcookie),
	REFUSE(mbind),
	REFUSE(migrate_pages),
	REFUSE(mount),
	REFUSE(mount_setattr),
	REFUSE(move_mount),
	REFUSE(move_pages),
	REFUSE(open_by_handle_at),
	REFUSE(open_tree),
	REFUSE(perf_event_open),
	REFUSE(pidfd_getfd),
	REFUSE(pivot_root),
	REFUSE(process_madvise),
	REFUSE(quotactl),
	REFUSE(reboot),
	REFUSE(request_key),
	REFUSE(set_mempolicy),
	REFUSE(sethostname),
	REFUSE(setns),
	REFUSE(settimeofday),
	REFUSE(swapoff),
	REFUSE(swapon),
	REFUSE(syslog),
	REFUSE(umount2),
	REFUSE(unshare),
	REFUSE(userfaultfd),
	REFUSE(vhangup),
	/* By their first argument, whose low half comes first. */
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
	LOAD(args[0]),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1),
	FAIL(EPERM),
	LOAD(nr),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
	LOAD(args[0]),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_VSOCK, 0, 1),
	FAIL(EPERM),
	ANSWER(SECCOMP_RET_ALLOW),
};

static int install(struct sock_filter *filter, size_t bytes)
{
	struct sock_fprog program = { .len = (unsigned short)(bytes / sizeof(*filter)),
				      .filter = filter };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
	if (argc < 3 || (strcmp(argv[1], "docker") && strcmp(argv[1], "strict"))) {
		fputs("usage: filtered docker|strict PROGRAM [ARGUMENT...]\n", stderr);
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || install(docker, sizeof(docker)) < 0 ||
	    (!strcmp(argv[1], "strict") &&
	     install(memory_of_others, sizeof(memory_of_others)) < 0)) {
		perror("filtered");
		return 1;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
