/* SPDX-License-Identifier: BSD-2-Clause */
/* Thread state - what a thread of this process does, as proc(5) says it. */
#ifndef TESTS_UNIT_BASE_THREAD_STATE_H
#define TESTS_UNIT_BASE_THREAD_STATE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/types.h>

/* /proc/PID/syscall: "running", or the number of the system call in which the thread sleeps. */
static inline bool is_in_futex(pid_t tid)
{
	char path[64];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	file = fopen(path, "re");
	assert_non_null(file);
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number == SYS_futex;
}

#endif
