/* SPDX-License-Identifier: BSD-2-Clause */
#include "cores.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The lowest CPU of the core that this one belongs to; itself if the kernel does not say. */
static int first_sibling(int cpu)
{
	char path[96];
	int first = cpu;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
		 cpu);
	file = fopen(path, "re");
	if (!file)
		return cpu;
	if (fscanf(file, "%d", &first) != 1)
		first = cpu;
	fclose(file);
	return first;
}

void cores_choose(int cpu[2])
{
	cpu_set_t allowed;
	int second = -1;

	cpu[0] = -1;
	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &allowed))
			continue;
		if (cpu[0] < 0) {
			cpu[0] = i;
		} else if (first_sibling(i) != first_sibling(cpu[0])) {
			cpu[1] = i;
			return;
		} else if (second < 0) {
			second = i;
		}
	}
	cpu[1] = second >= 0 ? second : cpu[0];
}

int cores_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

pid_t cores_fork(const char *program, const int cpu[2], void (*answer)(void *), void *argument)
{
	pid_t child = fork();

	if (child < 0) {
		fprintf(stderr, "%s: ", program);
		perror("fork");
		exit(1);
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cores_pin(cpu[1]);
		answer(argument);
		_exit(0);
	}
	cores_pin(cpu[0]);
	return child;
}

void cores_end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}
