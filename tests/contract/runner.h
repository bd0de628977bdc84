/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runner - runs each test of a program in a process of its own, in each arrangement it asks for.
 *
 * In:  a table of tests (RUN_TESTS).
 * Out: cmocka's report; one case for each test and arrangement, named TEST.ARRANGEMENT.
 *
 * The process that runs the table never opens a device: each case starts from a fork of it, and so
 * does the other end of a connection (ends.h). A crash, a hang or a leak stays within its case. A
 * case ends at its first failure by leaving its process: cmocka's own assertions cannot be used.
 *
 *     test_status                      all cases
 *     test_status 'rule_17*' 'rule_2*' those that match
 *     VERBATIM_TEST_PATIENCE=5         time limits five times as long
 *     VERBATIM_TEST_NEIGHBOURS=4       likewise four times, but not those of processor time
 *     VERBATIM_TEST_NETWORKS=2         the cases between two network namespaces, and only those
 */
#ifndef CONTRACT_RUNNER_H
#define CONTRACT_RUNNER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* Where the two ends of a connection live. */
enum arrangement {
	ONE_CONTEXT,   /* one process, one ibv_context */
	ONE_PROCESS,   /* one process, a context for each end */
	TWO_PROCESSES, /* end b in a child, forked before the device was opened */
	/* the same, and the child is in a network namespace of its own (networks.h) */
	TWO_NAMESPACES,
	ARRANGEMENTS,
};

#define BETWEEN_PROCESSES (1u << TWO_PROCESSES | 1u << TWO_NAMESPACES)
#define BETWEEN_ANY	  (1u << ONE_PROCESS | BETWEEN_PROCESSES)

struct pair;
typedef void test_body(struct pair *pair);

struct test {
	const char *name;
	test_body *body;
	unsigned int arrangements; /* one bit each */
	unsigned int limit_s;	   /* 0: TEST_LIMIT_S */
};

#define TEST_LIMIT_S 60

#define PAIR(body)                                                                                 \
	{                                                                                          \
#body, body, BETWEEN_ANY, 0                                                        \
	}
#define EVERY(body)                                                                                \
	{                                                                                          \
#body, body, (1u << ARRANGEMENTS) - 1, 0                                           \
	}
#define HERE(body)                                                                                 \
	{                                                                                          \
#body, body, 1u << ONE_PROCESS, 0                                                  \
	}
#define APART(body)                                                                                \
	{                                                                                          \
#body, body, BETWEEN_PROCESSES, 0                                                  \
	}
#define PAIR_WITHIN(seconds, body)                                                                 \
	{                                                                                          \
#body, body, BETWEEN_ANY, seconds                                                  \
	}
#define HERE_WITHIN(seconds, body)                                                                 \
	{                                                                                          \
#body, body, 1u << ONE_PROCESS, seconds                                            \
	}

int contract_run(const char *program, const struct test *tests, size_t count, int argc,
		 char **argv);

#define RUN_TESTS(tests, argc, argv)                                                               \
	contract_run(__FILE__, tests, sizeof(tests) / sizeof((tests)[0]), argc, argv)

/* Ends the case as skipped. Only in the test's own process, not at an end that has its own. */
void skip_because(const char *reason, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The ends meet over UDP: in two namespaces, or with VERBATIM_PATH=wire as if they were. */
bool over_wire(void);

/* Ends the case as failed, from whatever thread or process of it. */
void fail_here(const char *file, int line, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
#define FAIL(...) fail_here(__FILE__, __LINE__, __VA_ARGS__)
#define REQUIRE(condition, ...)                                                                    \
	do {                                                                                       \
		if (!(condition))                                                                  \
			FAIL(__VA_ARGS__);                                                         \
	} while (0)

/* Limits of processor time, and of the quickest of several, are multiplied by this: 1, more under a
 * sanitizer or as the environment says. */
int slowness(void);
/* Limits of time are: as slow, or as many tests share a processor. */
int patience(void);

/* The fork of a case that is not its main process calls this first. */
void runner_become_peer(void);

#endif
