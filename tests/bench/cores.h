/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cores - two processor cores to measure on.
 *
 * In:  the CPUs this process may use, and which of them share a core. Out: two CPU numbers.
 */
#ifndef BENCH_CORES_H
#define BENCH_CORES_H

#include <sys/types.h>

/*
 * Two allowed CPUs, of different cores if there are such, else the same one twice if only one is
 * allowed. The lowest numbers that qualify, so that all programs of a run choose the same.
 */
void cores_choose(int cpu[2]);

/* The calling thread runs on this CPU only, as do those that it makes later. 0 or -errno. */
int cores_pin(int cpu);

/*
 * Forks a child that runs `answer` on one of these CPUs, and is killed if its parent ends; the
 * caller goes on on the other one. Returns its process ID. Ends the program, named so in the
 * message, if that fails.
 */
pid_t cores_fork(const char *program, const int cpu[2], void (*answer)(void *), void *argument);

/* Kills the child and waits for its end. */
void cores_end(pid_t child);

#endif
