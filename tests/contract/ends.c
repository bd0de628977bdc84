/* SPDX-License-Identifier: BSD-2-Clause */
#include "ends.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "networks.h"
#include "side.h"

/* A message to the other process and back: this struct, then the argument's bytes. */
struct call {
	side_fn *fn; /* NULL: end */
	size_t size;
};

static bool send_call(int fd, const struct call *call, void *argument)
{
	struct iovec parts[] = { { (void *)call, sizeof(*call) }, { argument, call->size } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)(sizeof(*call) + call->size);
}

static bool receive_call(int fd, struct call *call, void *argument)
{
	struct iovec parts[] = { { call, sizeof(*call) }, { argument, ARGUMENT_MAX } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	ssize_t got;

	do {
		got = recvmsg(fd, &message, 0);
	} while (got < 0 && errno == EINTR);
	return got >= (ssize_t)sizeof(*call) && got == (ssize_t)(sizeof(*call) + call->size);
}

/* Of a process that is an end. */
static struct {
	int fd;
	struct side *side;
	struct call call; /* that runs */
	char argument[ARGUMENT_MAX] __attribute__((aligned(16)));
} served;

static void serve(void)
{
	while (receive_call(served.fd, &served.call, served.argument) && served.call.fn) {
		served.call.fn(served.side, served.argument);
		if (!send_call(served.fd, &served.call, served.argument))
			break;
	}
	_exit(0);
}

static bool is_zombie(pid_t pid)
{
	char path[32], text[512];
	const char *name_end;
	size_t got;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	REQUIRE(file, "%s: %s", path, strerror(errno));
	got = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[got] = 0;
	name_end = strrchr(text, ')');
	return name_end && !strncmp(name_end, ") Z", 3);
}

static void *serve_on(void *argument)
{
	(void)argument;
	while (!is_zombie(getpid()))
		sleep_ms(1);
	if (!send_call(served.fd, &served.call, served.argument))
		_exit(0);
	serve();
	return NULL;
}

static void op_leave_first_thread(struct side *side, void *argument)
{
	pthread_t thread;

	(void)side;
	(void)argument;
	REQUIRE(pthread_create(&thread, NULL, serve_on, NULL) == 0, "pthread_create");
	pthread_exit(NULL);
}

void end_leave_first_thread(struct end *end)
{
	int nothing = 0;

	REQUIRE(!end->side, "end %s has no process of its own", end->name);
	RUN(end, op_leave_first_thread, &nothing);
}

static void fork_end(struct end *end, enum arrangement arrangement)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		FAIL("socketpair: %s", strerror(errno));
	end->pid = fork();
	REQUIRE(end->pid >= 0, "fork: %s", strerror(errno));
	if (end->pid == 0) {
		runner_become_peer();
		if (arrangement == TWO_NAMESPACES)
			networks_enter_second();
		close(fds[0]);
		served.fd = fds[1];
		served.side = side_create();
		serve();
	}
	close(fds[1]);
	end->fd = fds[0];
	end->side = NULL;
}

void pair_init(struct pair *pair, enum arrangement arrangement)
{
	memset(pair, 0, sizeof(*pair));
	pair->arrangement = arrangement;
	pair->a.name = "a";
	pair->b.name = "b";
	pair->a.fd = pair->b.fd = -1;
	if (BETWEEN_PROCESSES & 1u << arrangement)
		fork_end(&pair->b, arrangement);
	else
		pair->b.side = side_create();
	pair->a.side = side_create();
}

void pair_fini(struct pair *pair)
{
	struct call end = { NULL, 0 };

	if (pair->b.pid <= 0)
		return;
	send_call(pair->b.fd, &end, &end);
	close(pair->b.fd);
	waitpid(pair->b.pid, NULL, 0);
}

/* The other process ended in the middle of a call. */
static void report_death(struct end *end)
{
	int status = 0;

	if (waitpid(end->pid, &status, 0) == end->pid && WIFSIGNALED(status))
		FAIL("end %s was killed: %s", end->name, strsignal(WTERMSIG(status)));
	FAIL("end %s ended with status %d", end->name, WEXITSTATUS(status));
}

static void *run_here(void *argument)
{
	struct end *end = argument;

	end->started(end->side, end->argument);
	return NULL;
}

static void call_there(struct end *end, side_fn *fn, void *argument, size_t size)
{
	struct call call = { fn, size };

	REQUIRE(size <= ARGUMENT_MAX, "an argument of %zu bytes", size);
	if (!send_call(end->fd, &call, argument))
		report_death(end);
}

static void await_there(struct end *end, void *argument, size_t size)
{
	static char reply[ARGUMENT_MAX] __attribute__((aligned(16)));
	struct call call;

	if (!receive_call(end->fd, &call, reply))
		report_death(end);
	memcpy(argument, reply, size);
}

void end_run(struct end *end, side_fn *fn, void *argument, size_t size)
{
	if (end->side) {
		fn(end->side, argument);
		return;
	}
	call_there(end, fn, argument, size);
	await_there(end, argument, size);
}

void end_start(struct end *end, side_fn *fn, void *argument, size_t size)
{
	REQUIRE(!end->started, "end %s is busy", end->name);
	end->started = fn;
	end->argument = argument;
	end->size = size;
	if (!end->side)
		call_there(end, fn, argument, size);
	else
		REQUIRE(pthread_create(&end->thread, NULL, run_here, end) == 0, "pthread_create");
}

void end_finish(struct end *end)
{
	REQUIRE(end->started, "nothing was started at end %s", end->name);
	if (!end->side)
		await_there(end, end->argument, end->size);
	else
		pthread_join(end->thread, NULL);
	end->started = NULL;
}

void end_kill(struct end *end, int signal)
{
	REQUIRE(end->pid > 0, "end %s has no process of its own", end->name);
	kill(end->pid, signal);
	waitpid(end->pid, NULL, 0);
	end->pid = 0;
}
