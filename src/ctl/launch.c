/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/launch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/deadline.h"

#define STACK_BYTES (64u << 10)

/*
 * The children share this process's memory, so that starting costs the same in a program of any
 * size. The thread sanitizer would attribute their accesses to the thread that waits for them, so
 * with it they get copies.
 */
#ifdef __SANITIZE_THREAD__
#define CHILD_MEMORY 0
#else
#define CHILD_MEMORY CLONE_VM
#endif

/* When the children end, the address sanitizer would report that they are on a foreign stack. */
#define RUNS_ON_BARE_STACK __attribute__((no_sanitize("address")))

/* For the two children, which run in this process's memory while the calling thread waits. */
struct launch {
	const char *path;
	char *const *argv;
	char *const *envp;
	char *inner_stack_top;
	int output_fd; /* above 2: becomes the daemon's stdout and stderr */
	int error;     /* positive errno of the step that failed, or 0 */
};

static bool is_program(const char *path)
{
	return !access(path, X_OK);
}

/*
 * With the library in DIR: DIR/../verbatimd/verbatimd, as in the build tree. Or, if DIR ends in the
 * configured libdir, the configured daemon below the same root, as in an installation that was
 * moved or staged.
 */
static bool find_beside_library(char path[PATH_MAX])
{
	const size_t suffix = strlen(VERBATIM_LIBDIR);
	Dl_info info;
	const char *slash;
	size_t dir;
	int n;

	if (getauxval(AT_SECURE) || !dladdr((void *)launch_daemon, &info) || !info.dli_fname)
		return false;
	slash = strrchr(info.dli_fname, '/');
	if (!slash)
		return false;
	dir = (size_t)(slash - info.dli_fname);
	n = snprintf(path, PATH_MAX, "%.*s/../verbatimd/verbatimd", (int)dir, info.dli_fname);
	if (n < PATH_MAX && is_program(path))
		return true;
	if (dir <= suffix || strncmp(slash - suffix, VERBATIM_LIBDIR, suffix))
		return false;
	n = snprintf(path, PATH_MAX, "%.*s" VERBATIM_LIBEXECDIR "/verbatimd", (int)(dir - suffix),
		     info.dli_fname);
	return n < PATH_MAX && is_program(path);
}

static int find_program(char path[PATH_MAX], char *why, size_t why_len)
{
	const char *named = secure_getenv("VERBATIM_DAEMON");

	if (named && *named) {
		int error = ENAMETOOLONG;

		if (strlen(named) < PATH_MAX) {
			strcpy(path, named);
			if (is_program(path))
				return 0;
			error = errno;
		}
		snprintf(why, why_len,
			 "verbatimd cannot be started because VERBATIM_DAEMON names %s (%s); "
			 "correct or unset the variable",
			 named, strerror(error));
		return -error;
	}
	if (find_beside_library(path))
		return 0;
	strcpy(path, VERBATIM_LIBEXECDIR "/verbatimd");
	if (is_program(path))
		return 0;
	strcpy(path, VERBATIM_BINDIR "/verbatimd");
	if (is_program(path))
		return 0;
	snprintf(why, why_len,
		 "verbatimd cannot be started because it is neither %s nor %s; install Verbatim "
		 "completely or name the program in VERBATIM_DAEMON",
		 VERBATIM_LIBEXECDIR "/verbatimd", VERBATIM_BINDIR "/verbatimd");
	return -ENOENT;
}

/* The daemon outlives the program, so it inherits only VERBATIM* and the sanitizers' variables. */
static bool is_daemons_variable(const char *variable)
{
	return !strncmp(variable, "VERBATIM", strlen("VERBATIM")) ||
	       !strncmp(variable, "XDG_RUNTIME_DIR=", strlen("XDG_RUNTIME_DIR=")) ||
	       strstr(variable, "SAN_OPTIONS=");
}

/* Copies pointers only. The caller frees the result. */
static char **make_environment(void)
{
	size_t count = 0, kept = 0;
	char **envp;

	while (environ && environ[count])
		count++;
	envp = calloc(count + 1, sizeof(*envp));
	for (size_t i = 0; envp && i < count; i++) {
		if (is_daemons_variable(environ[i]))
			envp[kept++] = environ[i];
	}
	return envp;
}

RUNS_ON_BARE_STACK
static int exec_daemon(void *arg)
{
	struct launch *l = arg;

	if (dup2(l->output_fd, STDOUT_FILENO) >= 0 && dup2(l->output_fd, STDERR_FILENO) >= 0)
		execve(l->path, l->argv, l->envp);
	l->error = errno;
	_exit(127);
}

RUNS_ON_BARE_STACK
static int orphan_daemon(void *arg)
{
	struct launch *l = arg;

	if (clone(exec_daemon, l->inner_stack_top, CHILD_MEMORY | CLONE_VFORK | SIGCHLD, l) < 0)
		l->error = errno;
	_exit(0);
}

/* Clones twice, so that the daemon's parent has ended before the program goes on. */
static int clone_twice(struct launch *l)
{
	char *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	sigset_t all, before;
	pid_t pid;
	int cancel;

	if (stacks == MAP_FAILED)
		return -errno;
	l->inner_stack_top = stacks + STACK_BYTES;
	l->error = 0;

	/* The program's handlers must not run in a child that shares its memory. */
	sigfillset(&all);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_sigmask(SIG_BLOCK, &all, &before);

	/* No exit signal: no SIGCHLD, and only a wait with __WCLONE or __WALL sees this child. */
	pid = clone(orphan_daemon, stacks + 2 * STACK_BYTES, CHILD_MEMORY | CLONE_VFORK, l);
	if (pid < 0 && errno == EINVAL) /* qemu-user knows children with SIGCHLD alone */
		pid = clone(orphan_daemon, stacks + 2 * STACK_BYTES,
			    CHILD_MEMORY | CLONE_VFORK | SIGCHLD, l);
	if (pid < 0)
		l->error = errno;
	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;

	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_setcancelstate(cancel, NULL);
	munmap(stacks, 2 * STACK_BYTES);
	return -l->error;
}

/* Reads what the daemon prints before it goes into the background. No output is success. */
static int read_output(int fd, int64_t deadline_ns, char *text, size_t room)
{
	size_t len = 0;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int ready = poll(&p, 1, deadline_left_ms(deadline_ns));
		char excess[128];
		ssize_t n;

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return ready ? -errno : -ETIMEDOUT;
		if (len + 1 < room)
			n = read(fd, text + len, room - 1 - len);
		else
			n = read(fd, excess, sizeof(excess));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		if (len + 1 < room)
			len += (size_t)n;
	}
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

/* A pipe whose ends are above 2, so that they can be put onto stdout and stderr. */
static int make_pipe(int ends[2])
{
	int raw[2];
	int error = 0;

	if (pipe2(raw, O_CLOEXEC) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		ends[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, 3);
		if (ends[i] < 0)
			error = -errno;
		close(raw[i]);
	}
	for (int i = 0; error && i < 2; i++) {
		if (ends[i] >= 0)
			close(ends[i]);
	}
	return error;
}

int launch_daemon(enum dial_which which, int64_t deadline_ns, char *why, size_t why_len)
{
	char path[PATH_MAX];
	char *argv[] = { (char *)"verbatimd", which == DIAL_SHARED ? (char *)"--shared" : NULL,
			 NULL };
	struct launch l = { .path = path, .argv = argv };
	char output[256] = "";
	int ends[2] = { -1, -1 };
	int rc;

	rc = find_program(path, why, why_len);
	if (rc)
		return rc;

	char **envp = make_environment();

	rc = envp ? make_pipe(ends) : -ENOMEM;
	if (rc)
		goto say;
	l.envp = envp;
	l.output_fd = ends[1];
	rc = clone_twice(&l);
	close(ends[1]);
	if (!rc)
		rc = read_output(ends[0], deadline_ns, output, sizeof(output));
	close(ends[0]);
	if (!rc && *output)
		rc = -ECONNREFUSED;
say:
	free(envp);
	if (rc)
		snprintf(why, why_len, "%s could not be started: %s", path,
			 *output ? output : strerror(-rc));
	return rc;
}
