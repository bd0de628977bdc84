/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that are blocked in ibv_get_cq_event, as in read(2): rule 29 of the contract. Signal
 * handlers run there, fork and leave by longjmp; threads are cancelled.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "events.h"

/* A thread of end a that waits for an event. */
struct waiter {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	int result, error;
	_Atomic bool done;
	pthread_t thread;
};

static void *wait_for_event(void *argument)
{
	struct waiter *this = argument;
	void *context;

	this->result = ibv_get_cq_event(this->channel, &this->cq, &context);
	this->error = errno;
	this->done = true;
	return NULL;
}

static void start_waiter(struct waiter *this, struct pair *pair)
{
	*this = (struct waiter){ .channel = pair->a.side->channel, .result = 1 };
	REQUIRE(pthread_create(&this->thread, NULL, wait_for_event, this) == 0, "pthread_create");
	sleep_ms(50);
}

static void expect_waited(struct waiter *this, struct pair *pair, uint64_t wr_id)
{
	pthread_join(this->thread, NULL);
	REQUIRE(this->result == 0, "ibv_get_cq_event: %s", strerror(this->error));
	ibv_ack_cq_events(this->cq, 1);
	expect(&pair->a, RECEIVES, wr_id, IBV_WC_SUCCESS);
}

static void ignore(int number)
{
}

static void on_signal(int flags)
{
	struct sigaction action = { .sa_handler = ignore, .sa_flags = flags };

	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
}

/* signal(7): as read() does, a wait goes on after a handler with SA_RESTART, and ends after others.
 */
static void rule_29_signals_while_blocked(struct pair *pair)
{
	struct waiter waiter;

	pair_connect(pair, WITH(.channel = true));
	arm(pair, RECEIVES, false);
	on_signal(SA_RESTART);
	start_waiter(&waiter, pair);
	for (int i = 0; i < 3; i++) {
		pthread_kill(waiter.thread, SIGUSR1);
		sleep_ms(10);
	}
	deliver(pair, 50, IBV_SEND_SIGNALED);
	expect_waited(&waiter, pair, 50);

	on_signal(0);
	start_waiter(&waiter, pair);
	for (; !waiter.done; sleep_ms(10)) /* the first ones may come before it waits */
		pthread_kill(waiter.thread, SIGUSR1);
	pthread_join(waiter.thread, NULL);
	REQUIRE(waiter.result == -1 && waiter.error == EINTR, "result %d, %s", waiter.result,
		strerror(waiter.error));
}

/* pthreads(7): a cancellation point. What comes afterwards is for another thread. */
static void rule_29_cancelled_while_blocked(struct pair *pair)
{
	struct waiter waiter;
	void *result;

	pair_connect(pair, WITH(.channel = true));
	for (uint64_t i = 0; i < 5; i++) {
		arm(pair, RECEIVES, false);
		start_waiter(&waiter, pair);
		REQUIRE(pthread_cancel(waiter.thread) == 0, "pthread_cancel");
		pthread_join(waiter.thread, &result);
		REQUIRE(result == PTHREAD_CANCELED, "not cancelled");
		deliver(pair, 2 * i, IBV_SEND_SIGNALED);
		expect_event(pair, RECEIVES);
		expect(&pair->a, RECEIVES, 2 * i, IBV_WC_SUCCESS);
		arm(pair, RECEIVES, false);
		start_waiter(&waiter, pair);
		deliver(pair, 2 * i + 1, IBV_SEND_SIGNALED);
		expect_waited(&waiter, pair, 2 * i + 1);
	}
}

static _Atomic pid_t handled_by;
static sigjmp_buf way_out;

static void leave(int number)
{
	siglongjmp(way_out, 1);
}

/* Its state in /proc is "running", or begins with the system call in which it sleeps. */
static void await_sleep(pid_t tid)
{
	uint64_t end = now_ms() + WAIT_MS;
	char path[64], first = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	for (int calm = 0; calm < 5; calm++) {
		REQUIRE(now_ms() < end, "it does not sleep");
		sleep_ms(10);
		file = fopen(path, "re");
		REQUIRE(file && fread(&first, 1, 1, file) == 1, "%s: %s", path, strerror(errno));
		fclose(file);
		if (first < '0' || first > '9')
			calm = -1;
	}
}

struct leaver {
	struct waiter waiter;
	_Atomic pid_t tid;
	_Atomic bool has_left;
	bool comes_back;
};

static void *wait_and_leave(void *argument)
{
	struct leaver *this = argument;

	if (sigsetjmp(way_out, 1) == 0) {
		this->tid = gettid();
		return wait_for_event(&this->waiter);
	}
	this->has_left = true;
	return this->comes_back ? wait_for_event(&this->waiter) : NULL;
}

static void wait_until_left(struct leaver *this, struct pair *pair, bool comes_back)
{
	struct waiter *waiter = &this->waiter;
	uint64_t end = now_ms() + WAIT_MS;

	*this = (struct leaver){ .comes_back = comes_back };
	*waiter = (struct waiter){ .channel = pair->a.side->channel, .result = 1 };
	REQUIRE(pthread_create(&waiter->thread, NULL, wait_and_leave, this) == 0, "pthread_create");
	for (; !this->tid; sleep_ms(1))
		REQUIRE(now_ms() < end, "the thread does not begin");
	await_sleep(this->tid);
	pthread_kill(waiter->thread, SIGUSR1);
	for (; !this->has_left; sleep_ms(1))
		REQUIRE(now_ms() < end, "no signal came");
}

/* A signal handler leaves by longjmp, as it can leave read(). What comes then is not lost. */
static void rule_29_left_by_longjmp_while_blocked(struct pair *pair)
{
	struct sigaction action = { .sa_handler = leave, .sa_flags = SA_RESTART };
	struct leaver leaver;

	pair_connect(pair, WITH(.channel = true));
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
	for (uint64_t i = 0; i < 5; i++) {
		arm(pair, RECEIVES, false);
		wait_until_left(&leaver, pair, true);
		await_sleep(leaver.tid);
		deliver(pair, i, IBV_SEND_SIGNALED);
		expect_waited(&leaver.waiter, pair, i);
	}
	arm(pair, RECEIVES, false);
	wait_until_left(&leaver, pair, false);
	pthread_join(leaver.waiter.thread, NULL);
	deliver(pair, 50, IBV_SEND_SIGNALED);
	expect_event(pair, RECEIVES);
	expect(&pair->a, RECEIVES, 50, IBV_WC_SUCCESS);
}

static void fork_in_handler(int number)
{
	handled_by = fork();
}

static void *wait_in_both(void *argument)
{
	struct leaver *this = argument;
	pid_t pid = getpid();

	this->tid = gettid();
	wait_for_event(&this->waiter);
	if (getpid() != pid)
		_exit(1);
	return NULL;
}

static uint64_t cpu_us_of(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	REQUIRE(clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &used) == 0,
		"the child is gone");
	return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

/* A signal handler forks: the child waits on, as in a read() that it shares with its parent. */
static void rule_29_forks_while_blocked(struct pair *pair)
{
	struct sigaction action = { .sa_handler = fork_in_handler, .sa_flags = SA_RESTART };
	struct leaver this = { .waiter.result = 1 };
	uint64_t end, used_us;
	int status = 0;

	pair_connect(pair, WITH(.channel = true));
	this.waiter.channel = pair->a.side->channel;
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
	arm(pair, RECEIVES, false);
	REQUIRE(pthread_create(&this.waiter.thread, NULL, wait_in_both, &this) == 0,
		"pthread_create");
	for (end = now_ms() + WAIT_MS; !this.tid; sleep_ms(1))
		REQUIRE(now_ms() < end, "the thread does not begin");
	await_sleep(this.tid);
	pthread_kill(this.waiter.thread, SIGUSR1);
	for (; !handled_by; sleep_ms(1))
		REQUIRE(now_ms() < end, "no signal came");
	REQUIRE(handled_by > 0, "fork");
	sleep_ms(100);
	used_us = cpu_us_of(handled_by);
	sleep_ms(500);
	used_us = cpu_us_of(handled_by) - used_us;
	REQUIRE(kill(handled_by, SIGKILL) == 0, "kill");
	REQUIRE(waitpid(handled_by, &status, 0) == handled_by && WIFSIGNALED(status),
		"the child did not wait on: status 0x%x", status);
	REQUIRE(used_us < 25000 * (uint64_t)slowness(),
		"the child: %llu us of CPU time in half a second", (unsigned long long)used_us);
	deliver(pair, 50, IBV_SEND_SIGNALED);
	expect_waited(&this.waiter, pair, 50);
}

/* Two threads wait on one channel, and each gets one of two events. */
static void rule_29_two_threads_blocked(struct pair *pair)
{
	struct waiter waiters[2];

	pair_connect(pair, WITH(.channel = true));
	arm(pair, RECEIVES, false);
	start_waiter(&waiters[0], pair);
	start_waiter(&waiters[1], pair);
	deliver(pair, 50, IBV_SEND_SIGNALED);
	expect(&pair->a, RECEIVES, 50, IBV_WC_SUCCESS);
	arm(pair, RECEIVES, false);
	deliver(pair, 51, IBV_SEND_SIGNALED);
	expect(&pair->a, RECEIVES, 51, IBV_WC_SUCCESS);
	for (int i = 0; i < 2; i++) {
		pthread_join(waiters[i].thread, NULL);
		REQUIRE(waiters[i].result == 0, "ibv_get_cq_event: %s", strerror(waiters[i].error));
		ibv_ack_cq_events(waiters[i].cq, 1);
	}
}

static const struct test tests[] = {
	PAIR(rule_29_signals_while_blocked),	     PAIR(rule_29_cancelled_while_blocked),
	PAIR(rule_29_left_by_longjmp_while_blocked), PAIR(rule_29_forks_while_blocked),
	PAIR(rule_29_two_threads_blocked),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
