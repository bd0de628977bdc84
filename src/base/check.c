/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void check_fail(const char *file, int line, const char *check, const char *rule, const char *values,
		...)
{
	char text[400];
	va_list args;

	va_start(args, values);
	vsnprintf(text, sizeof(text), values, args);
	va_end(args);
	fprintf(stderr, "verbatim: invariant broken: %s\n%s: %s\n(%s:%d)\n", rule, check, text,
		file, line);
	abort();
}

bool check_sometimes(uint32_t every)
{
	static _Thread_local uint32_t state = 1;

	/* Numerical Recipes' generator: its upper bits are good */
	state = state * 1664525 + 1013904223;
	return (state >> 8) % every == 0;
}
