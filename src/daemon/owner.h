/*
 * Owner - who has UDP port 4791 of an address that is taken.
 *
 * In:  an address.
 * Out: the process, if it can be seen: /proc/net/udp and udp6 tell the sockets, /proc/PID/fd whose.
 *
 * Reads all of /proc: for messages about failures only.
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
	pid_t pid;     /* 0: no process that this daemon may look at has it */
	char comm[64]; /* printable */
};

/*
 * Looks into all processes, which takes a while on a large host: who asks for the same address
 * again within a second is told the same.
 */
void owner_find(const uint8_t gid[CTL_GID_BYTES], struct owner *out);

#endif
