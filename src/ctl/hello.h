/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hello - makes this process a client of verbatimd: HELLO, WELCOME, and what the refusal means.
 *
 * In:  the process's arena, wake-up eventfd and heap; the token of its slot if it returns.
 * Out: a connection, a slot and its token; or one sentence that says why not.
 *
 * Any thread; blocks up to the limit that it is given.
 */
#ifndef CTL_HELLO_H
#define CTL_HELLO_H

#include <stddef.h>
#include <sys/types.h>

#include "ctl/dial.h"

struct ctl_client;
struct ctl_welcome;

/* The result of hello_enter. The descriptors are the caller's. */
struct entry {
	int sock;
	int token_fd; /* -1 if the process had the slot before */
	unsigned slot;
	pid_t daemon_pid;
	enum dial_which which;
};

/*
 * Starts a daemon if need be, and tries the next one if a daemon ends meanwhile. 0, or -errno with
 * why.
 */
int hello_enter(const struct ctl_client *c, enum dial_which which, int limit_ms, struct entry *out,
		char *why, size_t why_len);

/* The sentence for a welcome whose status is not 0. */
void hello_explain(const struct ctl_welcome *w, char *why, size_t why_len);

#endif
