/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/reach.h"

#include <errno.h>
#include <time.h>

#include "ctl/deadline.h"
#include "ctl/launch.h"

#define PAUSE_MS_MAX 64

static void pause_for(int *pause_ms)
{
	struct timespec t = { .tv_nsec = *pause_ms * 1000000L };

	nanosleep(&t, NULL);
	if (*pause_ms < PAUSE_MS_MAX)
		*pause_ms *= 2;
}

int reach_daemon(enum dial_which which, int64_t deadline_ns, int *sock, enum dial_which *reached,
		 char *why, size_t why_len)
{
	int pause_ms = 1;

	for (;;) {
		int rc = dial_running(which, sock, reached, why, why_len);

		if (rc != -ECONNREFUSED && rc != -EAGAIN)
			return rc;
		if (rc == -ECONNREFUSED && which == DIAL_SYSTEM)
			return rc;
		if (rc == -ECONNREFUSED) {
			rc = launch_daemon(which, deadline_ns, why, why_len);
			if (rc)
				return rc;
			/*
			 * The new daemon listens, or it gave way to another, which may not listen
			 * yet or be about to end: if that refuses the connection, start one again.
			 */
			rc = dial_running(which, sock, reached, why, why_len);
			if (rc != -ECONNREFUSED && rc != -EAGAIN)
				return rc;
		}
		if (!deadline_left_ms(deadline_ns))
			return -ETIMEDOUT;
		pause_for(&pause_ms);
	}
}
