/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A daemon inherits no descriptor, where the kernel closes a range of them and where that is
 * refused, and its start does not take longer because the limit of descriptors is high.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "event/background.h"

#define KEPT	  3
#define INHERITED 20 /* from KEPT + 1 on */
#define FAR	  900
#define MANY	  1000

static unsigned closes;

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
	closes++;
	return __real_close(fd);
}

static bool refuse_close_range(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* In a child: what is wrong, or 0. */
static int clean(bool refused, bool lower)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 1;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_max <= MANY)
		return 77;
	for (int fd = KEPT; fd <= KEPT + INHERITED; fd++)
		dup2(STDIN_FILENO, fd);
	dup2(STDIN_FILENO, FAR);
	limit.rlim_cur = KEPT + INHERITED / 2;
	if (lower && setrlimit(RLIMIT_NOFILE, &limit))
		return 2;
	if (refused && !refuse_close_range())
		return 3;
	closes = 0;
	if (background_clean(1))
		return 4;
	if (closes > MANY)
		return 5;
	for (int fd = 0; fd <= KEPT; fd++)
		if (!is_open(fd))
			return 6;
	for (int fd = KEPT + 1; fd <= FAR; fd++)
		if (is_open(fd))
			return 7;
	return 0;
}

static void expect_clean(bool refused, bool lower)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child)
		_exit(clean(refused, lower));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_close_range(void **state)
{
	expect_clean(false, false);
}

static void test_close_range_refused(void **state)
{
	expect_clean(true, false);
}

/* The program has lowered the limit since it opened them, and none is left to list them by. */
static void test_beyond_the_limit(void **state)
{
	expect_clean(true, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_close_range),
		cmocka_unit_test(test_close_range_refused),
		cmocka_unit_test(test_beyond_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
