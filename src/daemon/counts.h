/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts - what the processes of a user have counted of a device, the ended ones included.
 *
 * In:  the arenas of processes, of any content; processes that get a slot, and that leave.
 * Out: the sum over all that an observer may see, for counters and hw_counters in sysfs.
 *
 * The counts of a process that has left are kept by its slot, as it may come back: a daemon's
 * client that is cut off returns with the same arena, whose counts must not be there twice. Once
 * the slot is another process's, or the kernel says that the process has ended, they are added to
 * what is kept of its user and device. All is lost when the daemon ends.
 *
 * A user has room for COUNTS_DEVICES names of devices, all users together for COUNTS_ALL; what
 * ended processes have counted of others is dropped.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_COUNTS_H
#define DAEMON_COUNTS_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"

#define COUNTS_DEVICES 64
#define COUNTS_ALL     4096

/* The process has got its slot, for the first time or again. */
void counts_on_slot(struct client *c);

/* Before its slot is given up. Does nothing if c has none. */
void counts_on_death(struct client *c);

/* Of the device of this name, for the observer. */
void counts_sum(const struct client *observer, const char device[CTL_DEVICE_BYTES],
		uint64_t out[CTL_COUNTS]);

void counts_on_counters(struct client *c, struct fdmsg *m);

/* The daemon ends. */
void counts_forget(struct daemon *d);

#endif
