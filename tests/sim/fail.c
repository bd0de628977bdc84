/* SPDX-License-Identifier: BSD-2-Clause */
#include "fail.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net.h"

static uint64_t seed;
static char line[64];

/* In a signal handler: only what is safe there. */
static void on_crash(int number)
{
	ssize_t ignored = write(STDERR_FILENO, line, strlen(line));

	(void)ignored;
	raise(number); /* SA_RESETHAND: to its end, with a core */
}

void sim_begin(uint64_t is)
{
	struct sigaction action = { .sa_handler = on_crash, .sa_flags = SA_RESETHAND };

	seed = is;
	snprintf(line, sizeof(line), "seed %" PRIu64 ": crashed\n", seed);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGABRT, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

void sim_fail(const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "seed %" PRIu64 ", at %.3f us: ", seed, (double)net_now() / 1e3);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\nrepeat: sim --seed %" PRIu64 " -v\n", seed);
	exit(1);
}
