/* SPDX-License-Identifier: BSD-2-Clause */
/* A process sees another's death before it gets a notice. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/liveness.h"

static struct arena_header *header;

/* A process that owns the arena until it is killed. */
static pid_t start_owner(void)
{
	int begun[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(begun), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		liveness_begin(header);
		if (write(begun[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(begun[0], &byte, 1), 1);
	close(begun[0]);
	close(begun[1]);
	return pid;
}

static int map_header(void **state)
{
	header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return header == MAP_FAILED;
}

static void says_nothing_before_it_begins(void **state)
{
	assert_false(liveness_is_alive(header));
	assert_false(liveness_is_dead(header));
}

static void sees_a_process_that_is_killed(void **state)
{
	pid_t pid = start_owner();
	siginfo_t info;

	assert_true(liveness_is_alive(header));
	assert_false(liveness_is_dead(header));
	assert_false(liveness_no_thread_left(pid));
	assert_int_equal(kill(pid, SIGKILL), 0);
	/* dead, and still a zombie */
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_false(liveness_is_alive(header));
	assert_true(liveness_is_dead(header));
	assert_true(liveness_no_thread_left(pid));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(liveness_no_thread_left(pid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_nothing_before_it_begins),
		cmocka_unit_test(sees_a_process_that_is_killed),
	};

	return cmocka_run_group_tests(tests, map_header, NULL);
}
