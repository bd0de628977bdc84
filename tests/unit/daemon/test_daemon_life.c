/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's life: how it starts, what it keeps open, when it ends. */
#include "harness.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "cm_raw.h"
#include "ctl/fdmsg.h"
#include "ctl/observe.h"

#define PROCESSES 30

/* All start in the same moment, when the test hangs up. */
static void join_at_once(int fd)
{
	uint64_t gone;
	struct ctl_client *c;

	CHECK(read(fd, &gone, sizeof(gone)) == sizeof(gone));
	c = join();
	say(fd, ctl_slot(c));
	say(fd, (uint64_t)ctl_daemon_pid(c));
	hear(fd);
	ctl_close(c);
}

static void test_thirty_at_once(void **state)
{
	struct worker w[PROCESSES];
	uint64_t slots = 0;
	uint64_t daemon = 0;

	for (int i = 0; i < PROCESSES; i++)
		worker_start(&w[i], join_at_once);
	for (int i = 0; i < PROCESSES; i++)
		say(w[i].fd, 0);
	for (int i = 0; i < PROCESSES; i++) {
		uint64_t slot = hear(w[i].fd);
		uint64_t pid = hear(w[i].fd);

		CHECK(slot >= 1 && slot <= PROCESSES);
		CHECK(!(slots >> slot & 1));
		slots |= UINT64_C(1) << slot;
		CHECK(!daemon || daemon == pid);
		daemon = pid;
	}
	for (int i = 0; i < PROCESSES; i++)
		say(w[i].fd, 0);
	for (int i = 0; i < PROCESSES; i++)
		worker_end(&w[i]);
}

/* A client that connects while the daemon ends is still served. */
static void test_arrival_while_it_ends(void **state)
{
	setenv("VERBATIMD_LINGER_MS", "0", 1);
	for (int i = 0; i < 50; i++) {
		struct ctl_client *c = join();

		CHECK(ctl_slot(c) == 1);
		ctl_close(c);
	}
}

static void test_ends_after_its_last_client(void **state)
{
	struct ctl_client *a = join(), *b = join();
	pid_t pid = ctl_daemon_pid(a);
	int64_t left_ms;

	ctl_close(a);
	CHECK(!wait_for_end(pid, 500));
	left_ms = now_ms();
	ctl_close(b);
	CHECK(wait_for_end(pid, PATIENCE_MS));
	CHECK(now_ms() - left_ms >= 290);
	CHECK(daemon_pid() == -1);
}

static bool is_expected(const char *target)
{
	static const char *const prefixes[] = { "/dev/null", "anon_inode:[eventpoll]",
						"anon_inode:[signalfd]", "socket:" };
	struct sockname_space space;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		if (!strncmp(target, prefixes[i], strlen(prefixes[i])))
			return true;
	}
	/* the lock of the directory that its sockets are in */
	sockname_space_of_user(geteuid(), &space);
	return !strncmp(target, space.dir, strlen(space.dir)) &&
	       !strcmp(target + strlen(space.dir), "/lock");
}

static void check_link(pid_t pid, const char *name, const char *expected)
{
	char path[64], target[256] = "";

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	CHECK(readlink(path, target, sizeof(target) - 1) > 0);
	if (expected)
		CHECK(!strcmp(target, expected));
	else
		CHECK(is_expected(target));
}

static void read_proc(pid_t pid, const char *name, char *text, size_t room)
{
	char path[64];
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	n = read(fd, text, room - 1);
	CHECK(n >= 0);
	for (ssize_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : '\n';
	text[n] = '\0';
	close(fd);
}

static uint64_t signal_set(const char *status, const char *field)
{
	const char *line = strstr(status, field);

	CHECK(line != NULL);
	return strtoull(line + strlen(field), NULL, 16);
}

static uint64_t bit(int sig)
{
	return UINT64_C(1) << (sig - 1);
}

static const int limited[] = { RLIMIT_FSIZE, RLIMIT_CPU };

/* The program has unusual signals, limits and descriptors; the daemon inherits none of them. */
static void start_from_a_strange_program(int fd)
{
	sigset_t all;
	cpu_set_t one;
	struct ctl_client *c;

	for (int i = 0; i < 20; i++)
		CHECK(dup(fd) >= 0);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	/*
	 * All that can be ignored, with the two that signal() keeps for the C library (SIG_IGN is
	 * 1).
	 */
	for (int sig = 1; sig < NSIG; sig++) {
		const unsigned long ignore[8] = { 1 };

		syscall(SYS_rt_sigaction, sig, ignore, NULL, (size_t)(NSIG - 1) / 8);
	}
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (size_t i = 0; i < sizeof(limited) / sizeof(limited[0]); i++) {
		struct rlimit limit;

		CHECK(!getrlimit(limited[i], &limit));
		limit.rlim_cur = 1 << 20;
		CHECK(!setrlimit(limited[i], &limit));
	}
	setenv("SECRET", "1", 1);
	setenv("LD_LIBRARY_PATH", "/nonexistent", 1);
	CHECK(!chdir("/tmp"));
	c = join();
	say(fd, (uint64_t)ctl_daemon_pid(c));
	pause();
}

static void test_owes_nothing_to_its_starter(void **state)
{
	struct worker w;
	char text[8192];
	pid_t pid;
	unsigned cpus;
	cpu_set_t set;

	setenv("VERBATIMD_LINGER_MS", "60000", 1); /* it is looked at when its client is gone */
	worker_start(&w, start_from_a_strange_program);
	pid = (pid_t)hear(w.fd);
	worker_kill(&w);

	/*
	 * Once the client is freed the daemon has two sockets with their reserves, and the
	 * directory's lock.
	 */
	for (int64_t end = now_ms() + PATIENCE_MS; count_fds(pid) > 10 && now_ms() < end;)
		usleep(1000);
	CHECK(count_fds(pid) == 10);
	for (int i = 0; i < 3; i++) {
		char name[16];

		snprintf(name, sizeof(name), "fd/%d", i);
		check_link(pid, name, "/dev/null");
	}

	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);

	DIR *dir = opendir(path);

	for (struct dirent *e; (e = readdir(dir));) {
		snprintf(path, sizeof(path), "fd/%.16s", e->d_name);
		if (e->d_name[0] != '.')
			check_link(pid, path, NULL);
	}
	closedir(dir);

	check_link(pid, "cwd", "/");
	read_proc(pid, "environ", text, sizeof(text));
	CHECK(!strstr(text, "SECRET=") && !strstr(text, "LD_LIBRARY_PATH="));
	CHECK(strstr(text, "VERBATIM_NAMESPACE="));
	read_proc(pid, "status", text, sizeof(text));
	CHECK(!(signal_set(text, "SigBlk:") & ~(bit(SIGTERM) | bit(SIGINT))));
	CHECK(signal_set(text, "SigIgn:") == (bit(SIGHUP) | bit(SIGPIPE) | bit(SIGXFSZ)));
	for (size_t i = 0; i < sizeof(limited) / sizeof(limited[0]); i++) {
		struct rlimit limit;

		CHECK(!prlimit(pid, limited[i], NULL, &limit) && limit.rlim_cur == limit.rlim_max);
	}
	CHECK(strstr(text, "PPid:\t1\n") || !strstr(text, "PPid:\t0\n"));
	CHECK(getsid(pid) != getsid(0) && getsid(pid) != pid);
	CHECK(!sched_getaffinity(pid, sizeof(set), &set));
	cpus = (unsigned)CPU_COUNT(&set);
	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	CHECK(cpus >= (unsigned)CPU_COUNT(&set));
}

static void test_signals(void **state)
{
	struct ctl_client *c = join();
	struct ctl_peer_info peer;
	pid_t pid = ctl_daemon_pid(c);

	kill(pid, SIGHUP);
	CHECK(!ctl_peer(c, 1, &peer));
	close_peer(&peer);
	kill(pid, SIGTERM);
	CHECK(wait_for_end(pid, PATIENCE_MS));
	CHECK(ctl_peer(c, 1, &peer) == -ENOTCONN);
	ctl_close(c);
}

/* A pipeline ends when its program ends, not when the daemon does. */
static void test_holds_no_pipe_open(void **state)
{
	int ends[2];
	char byte;
	pid_t child;

	setenv("VERBATIMD_LINGER_MS", "60000", 1);
	CHECK(!pipe(ends));
	child = fork();
	if (!child) {
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		dup2(ends[1], 0);
		ctl_close(join());
		_exit(0);
	}
	close(ends[1]);
	CHECK(waitpid(child, NULL, 0) == child);
	CHECK(daemon_pid() > 0);
	CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
	CHECK(read(ends[0], &byte, 1) == 0);
	close(ends[0]);
}

struct seen {
	unsigned count;
	struct observe_process last;
	bool has_arena;
};

static void see(const struct observe_process *p, void *arg)
{
	struct seen *seen = arg;

	seen->count++;
	seen->last = *p;
	seen->has_arena = fcntl(p->arena_fd, F_GET_SEALS) & F_SEAL_SHRINK;
}

static void test_observer(void **state)
{
	struct seen seen = { 0 };
	struct ctl_client *a, *b;
	char why[256] = "";
	pid_t pid;

	CHECK(observe_processes(see, &seen, why, sizeof(why)) == -ECONNREFUSED);
	CHECK(daemon_pid() == -1);

	a = join();
	CHECK(!ctl_connect(&b, make_arena(), make_wake(), make_arena(),
			   "a\x1b[31mname that is long", why, sizeof(why)));
	pid = ctl_daemon_pid(a);
	CHECK(!observe_processes(see, &seen, why, sizeof(why)));
	CHECK(seen.count == 2 && seen.last.slot == 2 && seen.last.pid == getpid());
	CHECK(seen.last.uid == geteuid() && seen.last.daemon_pid == pid && seen.has_arena);
	CHECK(!strcmp(seen.last.comm, "a?[31mname that"));
	CHECK(seen.last.since_ns > 0);

	/* An idle connection does not keep the daemon alive. */
	int sock = raw_connect();
	struct ctl_observe observe = { .greeting = { .header = { .type = CTL_OBSERVE },
						     .magic = CTL_MAGIC,
						     .version = CTL_VERSION } };

	CHECK(write(sock, &observe, sizeof(observe)) == sizeof(observe));
	ctl_close(a);
	ctl_close(b);
	CHECK(wait_for_end(pid, PATIENCE_MS));
	close(sock);
}

static void test_many_processes_are_listed(void **state)
{
	enum { MANY = 400 };
	static struct ctl_client *c[MANY];
	struct seen seen = { 0 };
	char why[256] = "";

	/* More than a socket's buffer holds. */
	for (int i = 0; i < MANY; i++)
		c[i] = join();
	CHECK(!observe_processes(see, &seen, why, sizeof(why)));
	CHECK(seen.count == MANY);
	for (int i = 0; i < MANY; i++)
		ctl_close(c[i]);
}

/* An arena in which a device has sent packets, so many as *sent says. */
static int make_counting_arena(_Atomic uint64_t **sent)
{
	int fd = memfd_create("test-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *arena;

	CHECK(fd >= 0 && !ftruncate(fd, ARENA_BYTES));
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(arena != MAP_FAILED);
	arena_header(arena)->magic = ARENA_MAGIC;
	arena_header(arena)->version = ARENA_VERSION;
	arena_header(arena)->cookie = (uintptr_t)arena;
	strcpy(arena_devices(arena)[0].name, "vrb_test");
	arena_traffic(arena)[0].device = 1;
	*sent = &arena_traffic(arena)[0].sent_unicast;
	return fd;
}

static uint64_t count_sent(void)
{
	uint64_t counts[CTL_COUNTS];
	char why[256] = "";
	int rc;

	do /* a daemon on a busy machine may not answer within 0.2 s */
		rc = observe_counters("vrb_test", counts, why, sizeof(why));
	while (rc == -ETIMEDOUT);
	CHECK(!rc);
	return counts[CTL_SENT_UNICAST];
}

/* A client that was cut off returns with its arena; then it leaves, and the next one comes. */
static void test_counts_stay(void **state)
{
	struct ctl_client *keeps_it = join(), *c;
	_Atomic uint64_t *sent, *sent_later;
	struct ctl_header garbage = { 0 };
	struct ctl_notice notice;
	char why[256] = "";
	int arena = make_counting_arena(&sent), later = make_counting_arena(&sent_later);

	CHECK(!ctl_connect(&c, arena, make_wake(), make_arena(), "test", why, sizeof(why)));
	CHECK(count_sent() == 0);
	*sent = 5;
	CHECK(count_sent() == 5);
	CHECK(!fdmsg_send(ctl_fd(c), &garbage, sizeof(garbage), NULL, 0));
	while (ctl_next_notice(c, &notice) != -ENOTCONN)
		usleep(1000);
	CHECK(count_sent() == 5);
	CHECK(!ctl_reconnect(c, CTL_CONNECT_MS, why, sizeof(why)));
	*sent = 6;
	CHECK(count_sent() == 6);
	ctl_close(c);
	CHECK(count_sent() == 6);
	CHECK(!ctl_connect(&c, later, make_wake(), make_arena(), "test", why, sizeof(why)));
	*sent_later = 10;
	CHECK(count_sent() == 16);
	ctl_close(c);
	CHECK(count_sent() == 16);
	ctl_close(keeps_it);
}

enum { LISTENERS = 3000 };

struct heard {
	unsigned count;
	pid_t pid;
	bool ports[UINT16_MAX + 1];
};

static void see_listener(const struct observe_listener *l, void *arg)
{
	struct heard *heard = arg;

	CHECK(!heard->ports[ntohs(l->local.port)]); /* none twice */
	CHECK(l->space == CTL_CM_TCP && l->uid == geteuid() && l->local.gid[12] == 127);
	heard->ports[ntohs(l->local.port)] = true;
	heard->pid = l->pid;
	heard->count++;
}

static unsigned listen_for(struct heard *heard)
{
	char why[256] = "";

	memset(heard, 0, sizeof(*heard));
	CHECK(!observe_listeners(see_listener, heard, why, sizeof(why)));
	return heard->count;
}

/* More than a socket's buffer holds; and what is only bound is no listener. */
static void test_listeners_are_listed(void **state)
{
	struct ctl_client *starts_it = join();
	int sock = cm_join();
	uint32_t channel = cm_make_channel(sock), last = 0;
	struct ctl_cm_address at;
	static struct heard heard;

	CHECK(listen_for(&heard) == 0);
	cm_make_id(sock, channel);
	CHECK(listen_for(&heard) == 0);
	for (int i = 0; i < LISTENERS; i++) {
		last = cm_listen(sock, channel, &at);
		CHECK(last);
	}
	CHECK(listen_for(&heard) == LISTENERS);
	CHECK(heard.pid == getpid() && heard.ports[ntohs(at.port)]);
	CHECK(!cm_say(sock, CTL_CM_DESTROY_ID, last, 0));
	CHECK(listen_for(&heard) == LISTENERS - 1 && !heard.ports[ntohs(at.port)]);
	close(sock);
	ctl_close(starts_it);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_thirty_at_once),
		TEST(test_arrival_while_it_ends),
		TEST(test_ends_after_its_last_client),
		TEST(test_owes_nothing_to_its_starter),
		TEST(test_signals),
		TEST(test_holds_no_pipe_open),
		TEST(test_observer),
		TEST(test_many_processes_are_listed),
		TEST(test_counts_stay),
		TEST(test_listeners_are_listed),
	};

	return cmocka_run_group_tests_name("daemon life", tests, NULL, NULL);
}
