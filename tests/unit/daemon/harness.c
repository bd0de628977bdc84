/* SPDX-License-Identifier: BSD-2-Clause */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "ctl/exchange.h"
#include "ctl/fdmsg.h"

static pid_t test_pid;
static unsigned tests_begun;

void harness_check(bool ok, const char *text, const char *file, int line)
{
	if (ok)
		return;
	fprintf(stderr, "%s:%d: in process %d: %s\n", file, line, (int)getpid(), text);
	if (getpid() == test_pid)
		_fail(file, line);
	_exit(1);
}

int harness_setup(void **state)
{
	char name[32];

	test_pid = getpid();
	/* The parent may have set SIG_IGN: then waitpid finds no child, and alarm has no effect. */
	signal(SIGCHLD, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	snprintf(name, sizeof(name), "test.%d.%u", (int)test_pid, tests_begun++);
	setenv("VERBATIM_NAMESPACE", name, 1);
	setenv("VERBATIMD_LINGER_MS", "300", 1);
	return 0;
}

int harness_teardown(void **state)
{
	pid_t pid = daemon_pid();

	if (pid > 0) {
		kill(pid, SIGTERM);
		if (!wait_for_end(pid, PATIENCE_MS))
			kill(pid, SIGKILL);
	}
	return 0;
}

/* The environment that the process was started with has this variable. */
static bool has_variable(pid_t pid, const char *variable)
{
	char path[64], text[16384], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	for (at = text; at < text + n; at += strlen(at) + 1)
		if (!strcmp(at, variable))
			return true;
	return false;
}

/* A child of this process, or of its child, before it executes verbatimd. */
static bool is_fork(pid_t pid)
{
	char path[64], own[PATH_MAX], its[PATH_MAX];
	ssize_t n, m;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink("/proc/self/exe", own, sizeof(own));
	m = readlink(path, its, sizeof(its));
	return n > 0 && n == m && !memcmp(own, its, (size_t)n) && getpgid(pid) == getpgrp();
}

static bool another_daemon_starts(void)
{
	pid_t daemon = daemon_pid();
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char variable[64];
	bool found = false;

	CHECK(proc);
	snprintf(variable, sizeof(variable), "VERBATIM_NAMESPACE=%s", getenv("VERBATIM_NAMESPACE"));
	while (!found && (entry = readdir(proc))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		found = pid > 0 && pid != daemon && pid != getpid() &&
			(has_variable(pid, variable) || is_fork(pid));
	}
	closedir(proc);
	return found;
}

void wait_for_the_last_daemon(void)
{
	for (int64_t end = now_ms() + PATIENCE_MS; another_daemon_starts(); usleep(1000))
		CHECK(now_ms() < end);
}

int make_arena(void)
{
	int fd = memfd_create("test-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK(!ftruncate(fd, 4096));
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	return fd;
}

int make_wake(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	CHECK(fd >= 0);
	return fd;
}

struct ctl_client *join(void)
{
	struct ctl_client *c;
	char why[256] = "";
	int rc = ctl_connect(&c, make_arena(), make_wake(), make_arena(), "test", why, sizeof(why));

	if (rc)
		fprintf(stderr, "ctl_connect: %d %s\n", rc, why);
	CHECK(!rc);
	return c;
}

int leave_socket(struct ctl_client *next, const uint8_t gid[CTL_GID_BYTES])
{
	unsigned before = count_fds(ctl_daemon_pid(next));
	struct ctl_client *last = join();
	char why[CTL_WHY_BYTES];
	int fd;

	CHECK(!ctl_port(last, gid, 0, &fd, why, sizeof(why)));
	ctl_close(last);
	CHECK(comes_down_to(ctl_daemon_pid(next), before));
	return fd;
}

int get_members(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES],
		uint64_t slots[CTL_BITMAP_WORDS])
{
	struct ctl_mcast ask = { .header = { .type = CTL_MCAST_MEMBERS } };
	struct fdmsg m;
	int rc;

	memcpy(ask.mgid, mgid, sizeof(ask.mgid));
	rc = exchange_request(c, &ask.header, sizeof(ask), CTL_MCAST_MEMBERS_REPLY,
			      sizeof(struct ctl_mcast_members_reply), &m);
	if (rc)
		return rc;
	fdmsg_close_fds(&m);
	memcpy(slots, m.body.members_reply.slots, sizeof(m.body.members_reply.slots));
	return 0;
}

void await_notice(struct ctl_client *c, enum ctl_notice_kind kind, struct ctl_notice *out)
{
	int64_t deadline_ns = deadline_in_ms(PATIENCE_MS);
	int rc;

	while ((rc = ctl_next_notice(c, out)) == 0) {
		struct pollfd p = { .fd = ctl_fd(c), .events = POLLIN };

		CHECK(poll(&p, 1, deadline_left_ms(deadline_ns)) > 0);
	}
	CHECK(rc == 1);
	CHECK(out->kind == kind);
}

bool has_no_notice(struct ctl_client *c)
{
	struct ctl_notice notice;

	return ctl_next_notice(c, &notice) == 0;
}

void close_peer(struct ctl_peer_info *peer)
{
	close(peer->arena_fd);
	close(peer->wake_fd);
	close(peer->link_fd);
	close(peer->heap_fd);
}

void worker_start(struct worker *w, void (*body)(int fd))
{
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	w->pid = fork();
	CHECK(w->pid >= 0);
	if (!w->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		body(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	w->fd = ends[0];
}

void worker_kill(struct worker *w)
{
	kill(w->pid, SIGKILL);
	waitpid(w->pid, NULL, 0);
	close(w->fd);
}

void worker_end(struct worker *w)
{
	int status;

	/* Later workers hold copies: closing alone would not be noticed. */
	shutdown(w->fd, SHUT_RDWR);
	close(w->fd);
	CHECK(wait_for_end(w->pid, PATIENCE_MS));
	CHECK(waitpid(w->pid, &status, 0) == w->pid);
	CHECK(status == 0);
}

void say(int fd, uint64_t number)
{
	CHECK(send(fd, &number, sizeof(number), MSG_NOSIGNAL) == sizeof(number));
}

uint64_t hear_within(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t number;

	CHECK(poll(&p, 1, ms) == 1);
	CHECK(recv(fd, &number, sizeof(number), 0) == sizeof(number));
	return number;
}

uint64_t hear(int fd)
{
	return hear_within(fd, PATIENCE_MS);
}

static int try_raw_connect(void)
{
	struct sockname_space space;
	struct sockname name;
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	sockname_space_of_user(geteuid(), &space);
	sockname_of_daemon(&space, &name);
	if (connect(sock, (struct sockaddr *)&name.addr, name.len) < 0) {
		close(sock);
		return -1;
	}
	return sock;
}

int raw_connect(void)
{
	int sock = try_raw_connect();

	CHECK(sock >= 0);
	return sock;
}

pid_t daemon_pid(void)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	int sock = try_raw_connect();

	if (sock < 0)
		return -1;
	CHECK(!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len));
	close(sock);
	return peer.pid;
}

bool wait_for_end(pid_t pid, int ms)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	bool ended = fd < 0 || poll(&p, 1, ms) == 1;

	if (fd >= 0)
		close(fd);
	return ended;
}

unsigned count_fds(pid_t pid)
{
	char path[64];
	unsigned count = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);

	DIR *dir = opendir(path);

	CHECK(dir != NULL);
	for (struct dirent *e; (e = readdir(dir));)
		count += e->d_name[0] != '.';
	closedir(dir);
	return count;
}

bool comes_down_to(pid_t pid, unsigned fds)
{
	for (int64_t until = now_ms() + 5000; now_ms() < until; usleep(2000))
		if (count_fds(pid) <= fds)
			return true;
	return false;
}

int64_t now_ms(void)
{
	return deadline_now_ns() / 1000000;
}

int64_t processor_ms(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	CHECK(!clock_getcpuclockid(pid, &clock));
	CHECK(!clock_gettime(clock, &t));
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool is_cut_off(int sock)
{
	int64_t deadline_ns = deadline_in_ms(PATIENCE_MS);
	struct fdmsg m;
	int rc;

	while ((rc = fdmsg_wait(sock, deadline_ns, &m)) == 0)
		fdmsg_close_fds(&m);
	return rc == -ECONNRESET || rc == -EPIPE;
}
