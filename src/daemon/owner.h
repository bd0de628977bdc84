/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owner - finds the process that has UDP port 4791 of an address.
 *
 * In:  an address.
 * Out: the user, by sock_diag(7); and the process, by /proc/PID/fd, if that is found soon enough; a
 *      sentence that says so.
 *
 * For messages about failures only. The search takes some milliseconds of each second at most, for
 * all requests together.
 */
#ifndef DAEMON_OWNER_H
#define DAEMON_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/protocol.h"

struct owner {
	bool found; /* there is such a socket */
	uid_t uid;
	pid_t pid;     /* 0: not found, or the daemon may not inspect it */
	bool searched; /* through all processes, if none was found: the search was not given up */
	char comm[64]; /* printable */
};

/* Within a second the same address gets the same answer. */
void owner_find(const uint8_t gid[CTL_GID_BYTES], struct owner *out);

/* Who has the port of the address, which is `text`: one sentence, no more than is known. */
void owner_tell(const struct owner *o, const char *text, char why[CTL_WHY_BYTES]);

#endif
