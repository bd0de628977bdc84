/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Observe - lists the processes that use verbatimd, and the listeners of rdma_cm, for tools; and
 * reads the counters of devices.
 *
 * In:  the daemons that run: the system's and the user's own; none is started or kept alive.
 * Out: one call per process, in slot order; or one per listener; or sums.
 *
 * Any thread. Blocks for 2 s at most per daemon; for counters, for 0.2 s in all.
 */
#ifndef CTL_OBSERVE_H
#define CTL_OBSERVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/protocol.h"

struct observe_process {
	unsigned slot;
	pid_t pid;
	uid_t uid;
	pid_t daemon_pid;
	int64_t since_ns; /* CLOCK_REALTIME */
	char comm[CTL_COMM_BYTES];
	int arena_fd; /* closed after the call; dup it to keep it */
};

/*
 * Calls each for every process of this user (of all users, for root at the system's daemon).
 * 0; -ECONNREFUSED: no daemon runs, so no process uses Verbatim; otherwise -errno and a sentence.
 */
int observe_processes(void (*each)(const struct observe_process *, void *arg), void *arg, char *why,
		      size_t why_len);

struct observe_listener {
	pid_t pid; /* 0: not known here */
	uid_t uid;
	uint16_t space; /* enum ctl_cm_space */
	uint32_t backlog;
	struct ctl_cm_address local;
};

/* The same for each identifier of rdma_cm that listens, in no order. */
int observe_listeners(void (*each)(const struct observe_listener *, void *arg), void *arg,
		      char *why, size_t why_len);

/*
 * What was counted of a device by this user's processes (for root by all at the system's daemon),
 * also by those that have ended since the daemon began, by enum ctl_count. 0; -ECONNREFUSED: no
 * daemon runs, so all is 0; -EOPNOTSUPP: one runs that is older and cannot tell; otherwise -errno
 * and a sentence, or why_len is 0. `out` is 0 where it is not known.
 */
int observe_counters(const char *device, uint64_t out[CTL_COUNTS], char *why, size_t why_len);

#endif
