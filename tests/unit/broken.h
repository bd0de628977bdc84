/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Broken - tests of checks (base/check.h): a child breaks a rule, the check has to end it.
 *
 * Include it behind cmocka.h.
 */
#ifndef TESTS_UNIT_BROKEN_H
#define TESTS_UNIT_BROKEN_H

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: what the check prints is not shown, and no core is left. */
static inline void broken_begin(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	signal(SIGABRT, SIG_DFL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	dup2(null, STDERR_FILENO);
}

static inline int broken_end(pid_t child)
{
	int status = 0;

	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* `check` passes; it fails after `breakage`, in a child. */
#define assert_broken(breakage, check)                                                             \
	do {                                                                                       \
		pid_t child;                                                                       \
                                                                                                   \
		check;                                                                             \
		child = fork();                                                                    \
		if (!child) {                                                                      \
			broken_begin();                                                            \
			breakage;                                                                  \
			check;                                                                     \
			_exit(0);                                                                  \
		}                                                                                  \
		assert_int_equal(broken_end(child), SIGABRT);                                      \
	} while (0)

#endif
