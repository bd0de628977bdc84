/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fail - the end of a simulation that went wrong: what, in which seed, at what time. fail.c
 */
#ifndef TESTS_SIM_FAIL_H
#define TESTS_SIM_FAIL_H

#include <stdint.h>

/* The seed that is simulated: a crash names it, too. */
void sim_begin(uint64_t seed);

/* Prints it and ends the process with 1. */
void sim_fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
