/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Check - invariants of our own structures, checked at run time in builds with -Dinvariants=true
 * and in those with sanitizers.
 *
 * A module has its rules in one function, <thing>_check, as a list in the comment above it. The
 * module calls it where a public operation ends: CHECK(qp_check(qp)). A check holds the locks that
 * its structure needs (REQUIRES), changes nothing, and takes no lock of its own. A rule that is
 * broken ends the process: the rule and its values go to standard error, then abort().
 *
 * In other builds CHECK compiles to nothing, its argument is not evaluated, and no <thing>_check
 * exists. Checks are for our own mistakes alone. What a peer or a program does is a verdict
 * (execute/verdict.h).
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#ifdef VERBATIM_CHECK

#include <stdbool.h>
#include <stdint.h>

/* Runs a check. */
#define CHECK(call) (call)

/*
 * In a check: `rule` holds; else its text and these values are printed (a format and its
 * arguments).
 */
#define INVARIANT(rule, ...)                                                                       \
	do {                                                                                       \
		if (__builtin_expect(!(rule), 0))                                                  \
			check_fail(__FILE__, __LINE__, __func__, #rule, __VA_ARGS__);              \
	} while (0)

_Noreturn void check_fail(const char *file, int line, const char *check, const char *rule,
			  const char *values, ...) __attribute__((format(printf, 5, 6)));

/*
 * True once in `every` calls, on average: for a walk over all of something large. The calls that
 * are chosen are the same in each run of a program with one thread.
 */
bool check_sometimes(uint32_t every);

#else

#define CHECK(call) ((void)0)

#endif

#endif
