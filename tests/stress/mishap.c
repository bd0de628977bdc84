/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process disturbs itself while it moves data: any of its threads forks, and a signal handler
 * writes into registered memory, on any thread.
 *
 * The child of a fork finds the memory of that moment and can allocate. The handler counts in the
 * part of the target that belongs to no peer, which is on pages that peers write to and that
 * migrate meanwhile, and also in memory that is not registered: both must have the same count in
 * the end.
 */
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORK_EVERY_MS	15
#define SIGNAL_EVERY_US 2000
#define CHILD_BLOCKS	64

static _Atomic uint64_t *in_region, beside_it;
static _Atomic uint64_t next_fork_ms;

static void count_signal(int number)
{
	int saved = errno;

	atomic_fetch_add(&beside_it, 1);
	atomic_fetch_add(in_region, 1);
	errno = saved;
}

static void set_timer(struct worker *worker, suseconds_t every_us)
{
	const struct itimerval timer = { .it_interval.tv_usec = every_us,
					 .it_value.tv_usec = every_us };

	CHECK(worker, setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");
}

void mishap_begin(struct worker *worker)
{
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART };

	in_region = (_Atomic uint64_t *)((char *)worker->target->addr +
					 (size_t)worker->self * plan_slots_bytes());
	if (!worker->settings->signals)
		return;
	atomic_store(in_region, 0);
	CHECK(worker, sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
	set_timer(worker, SIGNAL_EVERY_US);
}

void mishap_end(struct worker *worker)
{
	if (!worker->settings->signals)
		return;
	set_timer(worker, 0);
	signal(SIGALRM, SIG_IGN);
	worker->seat->signals = atomic_load(&beside_it);
	CHECK(worker, atomic_load(in_region) == atomic_load(&beside_it),
	      "signals have counted to %llu in a region, to %llu beside it",
	      (unsigned long long)atomic_load(in_region),
	      (unsigned long long)atomic_load(&beside_it));
	memset((void *)in_region, CANARY, sizeof(*in_region));
}

static void live_as_child(struct worker *worker)
{
	char *block[CHILD_BLOCKS];

	if (pattern_check(worker->source->addr, SOURCE_BYTES, worker->settings->seed + worker->self,
			  0) >= 0)
		_exit(2);
	for (unsigned int i = 0; i < CHILD_BLOCKS; i++) {
		block[i] = malloc(1u << i % 17);
		if (!block[i])
			_exit(3);
		block[i][0] = (char)i;
	}
	for (unsigned int i = 0; i < CHILD_BLOCKS; i++) {
		if (block[i][0] != (char)i)
			_exit(4);
		free(block[i]);
	}
	/* the child's own copy */
	memset(worker->target->addr, 0, worker->target->length);
	memset(worker->source->addr, 0, worker->source->length);
	_exit(0);
}

void mishap_turn(struct worker *worker)
{
	uint64_t begin = now_ms(), next = atomic_load(&next_fork_ms);
	int status;
	pid_t pid;

	if (!worker->settings->forks || begin < next ||
	    !atomic_compare_exchange_strong(&next_fork_ms, &next, UINT64_MAX))
		return;
	pid = fork();
	if (pid == 0)
		live_as_child(worker);
	CHECK(worker, pid > 0, "fork: %s", strerror(errno));
	while (waitpid(pid, &status, 0) < 0)
		CHECK(worker, errno == EINTR, "waitpid: %s", strerror(errno));
	CHECK(worker, status == 0, "the child of a fork ended with 0x%x", (unsigned int)status);
	worker->seat->forks++;
	/* on a busy machine a fork takes long: most of the time is for traffic */
	atomic_store(&next_fork_ms, now_ms() + FORK_EVERY_MS + 4 * (now_ms() - begin));
}
