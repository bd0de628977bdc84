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
 * ended processes have counted of others is dropped. By slot there are ARENA_DEVICES at most.
 *
 * Whatever is in arenas and whoever asks, the sums of all observers together read COUNTS_READS
 * arenas in a millisecond, by three system calls and 43 KiB each: twice that in a turn of the loop
 * at most. What is left of a sum is added in later turns; who asks for the same meanwhile gets the
 * same answer.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_COUNTS_H
#define DAEMON_COUNTS_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"

#define COUNTS_DEVICES 64
#define COUNTS_ALL     4096
#define COUNTS_READS   32

void counts_init(struct daemon *d);

/* The process has got its slot, for the first time or again. */
void counts_on_slot(struct client *c);

/* Before its slot is given up, if it has one; an observer gets no answer any more. */
void counts_on_death(struct client *c);

/* The answer may come in a later turn. An observer that asks again before it is disconnected. */
void counts_on_counters(struct client *c, struct fdmsg *m);

/* The daemon ends. Clients are freed already. */
void counts_forget(struct daemon *d);

#endif
