/* SPDX-License-Identifier: BSD-2-Clause */
#include "runner.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "networks.h"

#define CASES_MAX    256
#define EXIT_FAILED  1
#define EXIT_SKIPPED 77

struct test_case {
	const struct test *test;
	enum arrangement arrangement;
	char name[128];
};

static const char *const arrangement_names[ARRANGEMENTS] = {
	[ONE_CONTEXT] = "one_context",
	[ONE_PROCESS] = "one_process",
	[TWO_PROCESSES] = "two_processes",
	[TWO_NAMESPACES] = "two_namespaces",
};

static const int crash_signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS };
static struct sigaction crash_actions[sizeof(crash_signals) / sizeof(crash_signals[0])];
static bool is_peer;
static pid_t runner; /* 0: not in this process */

/* cmocka catches crashes; here they shall end the case's process, which the runner sees. */
static void save_crash_actions(void)
{
	for (size_t i = 0; i < sizeof(crash_signals) / sizeof(crash_signals[0]); i++)
		sigaction(crash_signals[i], NULL, &crash_actions[i]);
}

static void restore_crash_actions(void)
{
	for (size_t i = 0; i < sizeof(crash_signals) / sizeof(crash_signals[0]); i++)
		sigaction(crash_signals[i], &crash_actions[i], NULL);
}

static int factor_of(const char *name)
{
	const char *value = getenv(name);

	return value ? atoi(value) : 0;
}

int slowness(void)
{
	int factor = factor_of("VERBATIM_TEST_PATIENCE");

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	if (factor < 1)
		factor = 4;
#endif
	return factor < 1 ? 1 : factor;
}

int patience(void)
{
	int neighbours = factor_of("VERBATIM_TEST_NEIGHBOURS"), slow = slowness();

	return slow < neighbours ? neighbours : slow;
}

bool over_wire(void)
{
	const char *path = getenv("VERBATIM_PATH");

	return networks_wanted() || (path && !strcmp(path, "wire"));
}

void runner_become_peer(void)
{
	is_peer = true;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(0);
}

void fail_here(const char *file, int line, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "%s%s:%d: %s\n", is_peer ? "in the other process: " : "", file, line, text);
	if (getpid() != runner)
		_exit(EXIT_FAILED);
	_fail(file, line);
	abort();
}

void skip_because(const char *reason, ...)
{
	va_list args;

	va_start(args, reason);
	fprintf(stderr, "skipped: ");
	vfprintf(stderr, reason, args);
	fprintf(stderr, "\n");
	va_end(args);
	_exit(EXIT_SKIPPED);
}

/* In the process of the case, which reports by its exit status. */
static void run_case(const struct test_case *this)
{
	unsigned int limit_s = this->test->limit_s ? this->test->limit_s : TEST_LIMIT_S;
	struct pair pair;

	runner = 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	restore_crash_actions();
	signal(SIGALRM, SIG_DFL);
	alarm(limit_s * (unsigned int)patience());
	pair_init(&pair, this->arrangement);
	this->test->body(&pair);
	pair_fini(&pair);
	_exit(0);
}

static void run_apart(void **state)
{
	struct test_case *this = *state;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		run_case(this);
	if (pid < 0)
		FAIL("fork: %s", strerror(errno));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			FAIL("waitpid: %s", strerror(errno));
	if (WIFSIGNALED(status))
		FAIL("%s: %s", this->name,
		     WTERMSIG(status) == SIGALRM ? "out of time" : strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) == EXIT_SKIPPED)
		skip();
	if (WEXITSTATUS(status) != 0)
		FAIL("%s: failed with status %d", this->name, WEXITSTATUS(status));
}

/* Each program is run once for two namespaces, and once for everything else. */
static bool is_asked_for(const struct test *test, enum arrangement where)
{
	return test->arrangements & 1u << where && (where == TWO_NAMESPACES) == networks_wanted();
}

/* Whether one of the patterns matches, which counts; without any all are meant. */
static bool is_named(const char *name, char **patterns, bool *matched)
{
	bool found = !*patterns;

	for (size_t i = 0; patterns[i]; i++)
		if (!fnmatch(patterns[i], name, 0))
			found = matched[i] = true;
	return found;
}

/* A pattern that matches nothing would pass for ever. */
static bool have_all_matched(char **patterns, const bool *matched)
{
	bool all = true;

	for (size_t i = 0; patterns[i]; i++)
		if (!matched[i]) {
			fprintf(stderr, "no test is named '%s'\n", patterns[i]);
			all = false;
		}
	return all;
}

int contract_run(const char *program, const struct test *tests, size_t count, int argc, char **argv)
{
	static struct test_case cases[CASES_MAX];
	static struct CMUnitTest units[CASES_MAX];
	char **patterns = argv + (argc > 0);
	bool matched[CASES_MAX] = { false };
	const char *lacks;
	size_t n = 0;

	if (argc > CASES_MAX)
		return 1;

	/* The parent may ignore SIGCHLD: then waitpid would find no child. */
	signal(SIGCHLD, SIG_DFL);
	lacks = networks_wanted() ? networks_make() : NULL;
	if (lacks) {
		fprintf(stderr, "skipped: %s\n", lacks);
		return EXIT_SKIPPED;
	}
	for (size_t i = 0; i < count; i++) {
		for (int where = 0; where < ARRANGEMENTS; where++) {
			struct test_case *this = &cases[n];

			if (n == CASES_MAX)
				return 1;
			snprintf(this->name, sizeof(this->name), "%s.%s", tests[i].name,
				 arrangement_names[where]);
			if (!is_named(this->name, patterns, matched) ||
			    !is_asked_for(&tests[i], where))
				continue;
			this->test = &tests[i];
			this->arrangement = where;
			units[n++] = (struct CMUnitTest){ this->name, run_apart, NULL, NULL, this };
		}
	}
	if (!have_all_matched(patterns, matched))
		return 1;
	runner = getpid();
	save_crash_actions();
	return _cmocka_run_group_tests(program, units, n, NULL, NULL) ? 1 : 0;
}
