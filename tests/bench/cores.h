/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cores - two processor cores to measure on.
 *
 * In:  the CPUs this process may use, and which of them share a core. Out: two CPU numbers.
 */
#ifndef BENCH_CORES_H
#define BENCH_CORES_H

/*
 * Two allowed CPUs, of different cores if there are such, else the same one twice if only one is
 * allowed. The lowest numbers that qualify, so that all programs of a run choose the same.
 */
void cores_choose(int cpu[2]);

/* The calling thread runs on this CPU only, as do those that it makes later. 0 or -errno. */
int cores_pin(int cpu);

#endif
