/*
 * Owner - who has UDP port 4791 of an address that is taken.
 *
 * In:  an address.
 * Out: whose it is, by sock_diag(7); and which process, by /proc/PID/fd, if that is found soon enough.
 *
 * Milliseconds in a second, whoever asks for how many addresses: for messages about failures only.
 */
#ifndef DAEMON_OWNER_H
#define DAEMON_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/protocol.h"

struct owner {
	bool found;    /* there is such a socket */
	uid_t uid;     /* whose */
	pid_t pid;     /* 0: none was found, or this daemon may not look at it */
	char comm[64]; /* printable */
};

/* Who asks for the same address again within a second is told the same. */
void owner_find(const uint8_t gid[CTL_GID_BYTES], struct owner *out);

#endif
