/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stress - processes that are all connected to each other do random things, and check everything.
 *
 *     stress [--seed N] [--procs N] [--ops N] [--threads N] [--kill] [--stop] [--forks]
 *            [--signals] [--limit SECONDS]
 *
 * All follows from the seed, but for the timing. Every process has an RC connection to every other,
 * UC to its neighbours and UD to all; some use SRQs, some sleep for events. An oracle in each
 * (oracle.c) knows from the plan (plan.c) what has to complete and arrive, to the byte. With --kill
 * one process is killed halfway: the others get errors on their QPs to it and on no other. With
 * --stop processes are stopped (SIGSTOP) at random moments, in the middle of a copy too, several at
 * a time, and go on (SIGCONT) some milliseconds later, now and then most of a second: that must
 * have no effect. With --forks their threads fork, with --signals their signal handlers write to a
 * region (mishap.c).
 *
 * Exit status: 0 good, 1 something was wrong, 2 wrong usage.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker.h"

/* Of the looks at the children, which come twice in a millisecond; and how long the stops are. */
#define STOP_ONE_IN 8
#define STOP_MS	    30
#define STOP_MS_MAX 700

#if defined(__SANITIZE_THREAD__)
/*
 * Only a peer in another process orders its RDMA writes with earlier accesses of this program, and
 * the sanitizer does not see that process.
 */
const char *__tsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void)
{
	return "race:src/shm/memory.c\n";
}
#endif

static pid_t children[PROCS_MAX];
static uint64_t stopped_until_ms[PROCS_MAX]; /* 0: it runs */

static void kill_children(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (children[i] > 0)
			kill(children[i], SIGKILL);
	for (unsigned int i = 0; i < count; i++)
		if (children[i] > 0)
			waitpid(children[i], NULL, 0);
}

static void start_children(struct board *board)
{
	pid_t parent = getpid();

	for (unsigned int i = 0; i < board->settings.procs; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(1);
			worker_run(board, i);
		}
		if (pid < 0) {
			perror("fork");
			kill_children(i);
			exit(1);
		}
		children[i] = pid;
	}
}

/* Kills the victim when it has posted half of its steps. */
static void kill_when_due(struct board *board)
{
	const struct settings *settings = &board->settings;
	uint32_t half = settings->ops * (settings->procs - 1) / 2;

	if (settings->kill < 0 || atomic_load(&board->killed) != 0 ||
	    atomic_load(&board->seat[settings->kill].posted) < half)
		return;
	atomic_store(&board->killed_at_ms, now_ms());
	atomic_store(&board->killed, settings->kill + 1);
	kill(children[settings->kill], SIGKILL);
	waitpid(children[settings->kill], NULL, 0);
	children[settings->kill] = 0;
}

/*
 * How long a process stays stopped: mostly shorter than a time slice, sometimes longer than a
 * time-out.
 */
static uint64_t stop_ms(uint64_t *random)
{
	uint64_t value = plan_random(random);

	return 1 + (value % 8 ? value / 8 % STOP_MS : value / 8 % STOP_MS_MAX);
}

/* Once in half a millisecond or so. */
static void stop_at_random(struct board *board, uint64_t *random)
{
	unsigned int procs = board->settings.procs;
	unsigned int which = (unsigned int)(plan_random(random) % procs);
	uint64_t now = now_ms();

	for (unsigned int i = 0; i < procs; i++)
		if (stopped_until_ms[i] && stopped_until_ms[i] <= now) {
			stopped_until_ms[i] = 0;
			if (children[i] > 0)
				kill(children[i], SIGCONT);
		}
	if (!board->settings.stop || children[which] <= 0 || stopped_until_ms[which] ||
	    plan_random(random) % STOP_ONE_IN)
		return;
	stopped_until_ms[which] = now + stop_ms(random);
	atomic_fetch_add(&board->seat[which].stopped, 1);
	kill(children[which], SIGSTOP);
}

/* Judges a child that has ended. True: it succeeded, or was to be killed. */
static bool judge(const struct board *board, pid_t pid, int status, unsigned int *left)
{
	for (unsigned int i = 0; i < board->settings.procs; i++) {
		if (children[i] != pid)
			continue;
		children[i] = 0;
		(*left)--;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			return true;
		if (WIFSIGNALED(status))
			fprintf(stderr, "process %u was killed: %s\n", i,
				strsignal(WTERMSIG(status)));
		else if (!atomic_load(&board->failed))
			fprintf(stderr, "process %u ended with status %d\n", i,
				WEXITSTATUS(status));
		return false;
	}
	return true;
}

static bool wait_for_children(struct board *board)
{
	const struct settings *settings = &board->settings;
	unsigned int left = settings->procs - (settings->kill >= 0);
	uint64_t end_ms = now_ms() + settings->limit_s * UINT64_C(1000);
	uint64_t random = plan_mix(settings->seed + 0x570b);

	while (left > 0) {
		int status;
		pid_t pid;

		kill_when_due(board);
		stop_at_random(board, &random);
		pid = waitpid(-1, &status, WNOHANG);
		if (pid > 0 && !judge(board, pid, status, &left))
			return false;
		if (pid > 0)
			continue;
		if (now_ms() > end_ms) {
			fprintf(stderr, "out of time after %u s; %u processes are not done\n",
				settings->limit_s, left);
			atomic_store(&board->out_of_time, true);
			atomic_store(&board->failed, true);
			usleep(300000); /* they print their open requests */
			return false;
		}
		usleep(500);
	}
	return true;
}

static void print_summary(const struct board *board, bool good, uint64_t took_ms)
{
	const struct settings *settings = &board->settings;
	uint64_t bytes = 0, completions = 0, lost = 0;
	uint64_t forks = 0, signals = 0;
	uint32_t settled_ms = 0, stopped = 0;

	for (unsigned int i = 0; i < settings->procs; i++) {
		bytes += board->seat[i].bytes;
		completions += board->seat[i].completions;
		lost += board->seat[i].lost;
		stopped += board->seat[i].stopped;
		forks += board->seat[i].forks;
		signals += board->seat[i].signals;
		if (board->seat[i].settled_ms > settled_ms)
			settled_ms = board->seat[i].settled_ms;
	}
	printf("seed %llu: %s: %u processes, %u threads, %llu completions, %llu MiB, %llu UC "
	       "messages lost, %llu ms",
	       (unsigned long long)settings->seed, good ? "good" : "BAD", settings->procs,
	       settings->threads, (unsigned long long)completions,
	       (unsigned long long)(bytes >> 20), (unsigned long long)lost,
	       (unsigned long long)took_ms);
	if (settings->kill >= 0)
		printf(", process %d killed, all settled after %u ms", settings->kill, settled_ms);
	if (settings->stop)
		printf(", processes stopped %u times", stopped);
	if (settings->forks)
		printf(", %llu forks", (unsigned long long)forks);
	if (settings->signals)
		printf(", %llu signals", (unsigned long long)signals);
	printf("\n");
}

static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);

	if (*end || end == text || value > max) {
		fprintf(stderr, "stress: '%s' is no number up to %lu\n", text, max);
		exit(2);
	}
	return value;
}

static struct settings parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "procs", required_argument, NULL, 'p' },
		{ "ops", required_argument, NULL, 'o' },
		{ "threads", required_argument, NULL, 't' },
		{ "kill", no_argument, NULL, 'k' },
		{ "stop", no_argument, NULL, 'x' },
		{ "forks", no_argument, NULL, 'f' },
		{ "signals", no_argument, NULL, 'i' },
		{ "limit", required_argument, NULL, 'l' },
		{ NULL, 0, NULL, 0 },
	};
	const char *patience = getenv("VERBATIM_TEST_PATIENCE");
	struct settings settings = { .seed = (uint64_t)time(NULL),
				     .procs = 8,
				     .threads = 1,
				     .ops = 300,
				     .kill = -1,
				     .limit_s = 60,
				     .patience = 1 };
	bool kills = false;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			settings.seed = number(optarg, ULONG_MAX);
			break;
		case 'p':
			settings.procs = (unsigned int)number(optarg, PROCS_MAX);
			break;
		case 'o':
			settings.ops = (unsigned int)number(optarg, 1000000);
			break;
		case 't':
			settings.threads = (unsigned int)number(optarg, 32);
			break;
		case 'k':
			kills = true;
			break;
		case 'x':
			settings.stop = true;
			break;
		case 'f':
			settings.forks = true;
			break;
		case 'i':
			settings.signals = true;
			break;
		case 'l':
			settings.limit_s = (unsigned int)number(optarg, 100000);
			break;
		default:
			exit(2);
		}
	}
	if (settings.procs < 2 || settings.threads < 1 || settings.ops < 2 || optind < argc) {
		fprintf(stderr, "stress: two processes, one thread and two steps are the least\n");
		exit(2);
	}
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	settings.patience = 4;
#endif
	if (patience && atoi(patience) > 0)
		settings.patience = (unsigned int)atoi(patience);
	settings.limit_s *= settings.patience;
	if (kills)
		settings.kill = (int)(plan_mix(settings.seed) % settings.procs);
	return settings;
}

int main(int argc, char **argv)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t start_ms = now_ms();
	bool good;

	if (board == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	board->settings = parse(argc, argv);
	printf("stress --seed %llu --procs %u --ops %u --threads %u%s%s%s%s\n",
	       (unsigned long long)board->settings.seed, board->settings.procs, board->settings.ops,
	       board->settings.threads, board->settings.kill >= 0 ? " --kill" : "",
	       board->settings.stop ? " --stop" : "", board->settings.forks ? " --forks" : "",
	       board->settings.signals ? " --signals" : "");
	fflush(stdout);
	start_children(board);
	good = wait_for_children(board);
	kill_children(board->settings.procs);
	print_summary(board, good, now_ms() - start_ms);
	return good ? 0 : 1;
}
