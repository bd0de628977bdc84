/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/background.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "event/receive_queue.h"

/* False: they cannot be listed. */
static bool close_listed(int first)
{
	const struct dirent *entry;
	DIR *all;

	close(first); /* leaves a number for the directory */
	all = opendir("/proc/self/fd");
	if (!all)
		return false;
	while ((entry = readdir(all)) != NULL) {
		int fd = (int)strtol(entry->d_name, NULL, 10);

		if (fd >= first && fd != dirfd(all))
			close(fd);
	}
	closedir(all);
	return true;
}

/*
 * Linux before 5.9 does not have the call, and a seccomp filter may refuse it. All numbers up to
 * the limit would be a billion in some containers, and not all where the program has lowered it.
 */
static void close_inherited(unsigned kept)
{
	int first = STDERR_FILENO + 1 + (int)kept;

	if (!syscall(SYS_close_range, first, ~0u, 0) || close_listed(first))
		return;
	for (long fd = sysconf(_SC_OPEN_MAX); --fd >= first;)
		close((int)fd);
}

/* So that no later descriptor becomes 0, 1 or 2. */
static int fill_standard_fds(void)
{
	int fd;

	do { /* NOLINTNEXTLINE(android-cloexec-open): as standard descriptors are */
		fd = open("/dev/null", O_RDWR);
		if (fd < 0)
			return -errno;
	} while (fd <= STDERR_FILENO);
	close(fd);
	return 0;
}

static void reset_signals(void)
{
	sigset_t none;

	/*
	 * Not by signal(): it refuses the two signals that the C library keeps for its threads, and
	 * the parent may have ignored those, too. All zero is SIG_DFL without flags, whatever the
	 * layout.
	 */
	for (int sig = 1; sig < NSIG; sig++)
		syscall(SYS_rt_sigaction, sig, (const char[64]){ 0 }, NULL, (size_t)(NSIG - 1) / 8);
	/* The daemon must not end because a terminal or a reader does. */
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* what it writes to clients' files fails instead */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The program's CPU affinity and real-time priority are not for the daemon. */
static void reset_scheduling(void)
{
	struct sched_param normal = { .sched_priority = 0 };
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	sched_setaffinity(0, sizeof(all), &all);
	sched_setscheduler(0, SCHED_OTHER, &normal);
}

/* A program's, or those of a batch job, which may be one of many that the daemon serves. */
static void raise_limit(int resource)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(resource, &limit);
}

int background_clean(unsigned kept)
{
	close_inherited(kept);
	reset_signals();
	reset_scheduling();
	raise_limit(RLIMIT_FSIZE);
	raise_limit(RLIMIT_CPU);
	receive_queue_limit_fds();
	umask(077);
	return fill_standard_fds();
}

/* Exits with 1 if the daemon died before it could report. */
static int wait_for_report(int fd)
{
	unsigned char status = 1;

	while (read(fd, &status, 1) < 0 && errno == EINTR)
		;
	return status;
}

int background_fork(int *report_fd)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		close(ends[1]);
		waitpid(pid, NULL, 0);
		_exit(wait_for_report(ends[0]));
	}
	setsid();
	/* A process that does not lead its session can never get a terminal again. */
	pid = fork();
	if (pid)
		_exit(pid < 0 ? 1 : 0);
	close(ends[0]);
	*report_fd = ends[1];
	return 0;
}

int background_detach(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0 || chdir("/") < 0)
		return -errno;
	for (int standard = STDIN_FILENO; standard <= STDERR_FILENO; standard++) {
		if (dup2(fd, standard) < 0)
			return -errno;
	}
	close(fd);
	return 0;
}

void background_report(int report_fd, int status)
{
	unsigned char byte = (unsigned char)status;

	while (write(report_fd, &byte, 1) < 0 && errno == EINTR)
		;
	close(report_fd);
}
