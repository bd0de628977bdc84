/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs get of the tree, and beside it, at their limits and with bad pointers, while
 * libverbatim-sysfs.so is loaded before them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE "/sys/class/infiniband/vrb_lo"

/* In a child, for which nothing is left to be done: 0. */
static void in_child(int (*run)(void))
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child)
		_exit(run());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void set_limit(int resource, rlim_t soft)
{
	struct rlimit limit;

	getrlimit(resource, &limit);
	limit.rlim_cur = soft;
	setrlimit(resource, &limit);
}

static char elsewhere[] = "/tmp/verbatim-limits-XXXXXX/infiniband";

static int stat_without_descriptors(void)
{
	struct stat status;
	int free_fd = dup(STDERR_FILENO);

	close(free_fd);
	set_limit(RLIMIT_NOFILE, (rlim_t)free_fd);
	return stat(elsewhere, &status) || !S_ISDIR(status.st_mode);
}

/* No interface is looked for because of a name that other directories may have as well. */
static void other_directories_cost_nothing(void **state)
{
	char *slash = strrchr(elsewhere, '/');

	*slash = 0;
	assert_non_null(mkdtemp(elsewhere));
	*slash = '/';
	assert_return_code(mkdir(elsewhere, 0700), errno);
	in_child(stat_without_descriptors);
	rmdir(elsewhere);
	*slash = 0;
	rmdir(elsewhere);
}

static int read_version(void)
{
	char line[64] = "";
	FILE *file;

	set_limit(RLIMIT_FSIZE, 0);
	file = fopen(DEVICE "/fw_ver", "r");
	if (!file || !fgets(line, sizeof(line), file) || !strchr(line, '\n'))
		return 1;
	return fgets(line, sizeof(line), file) || !feof(file);
}

static void may_not_write_files(void **state)
{
	in_child(read_version);
}

/* The kernel says EFAULT. Volatile, as compilers know that no such pointer is valid. */
static void bad_pointers(void **state)
{
	const char *volatile bad = (const char *)1;
	char buffer[8];
	struct stat status;

	assert_int_equal(open(bad, O_RDONLY), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(stat(bad, &status), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(fstatat(STDIN_FILENO, bad, &status, AT_EMPTY_PATH), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(access(bad, R_OK), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(readlink(bad, buffer, sizeof(buffer)), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(chdir(bad), -1);
	assert_int_equal(errno, EFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_directories_cost_nothing),
		cmocka_unit_test(may_not_write_files),
		cmocka_unit_test(bad_pointers),
	};

	signal(SIGCHLD, SIG_DFL); /* else, as the parent may have set it, waitpid finds no child */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
