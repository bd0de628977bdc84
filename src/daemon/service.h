/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Service - descriptors that a service manager (systemd) passes to the daemon, and keeps for the
 * next.
 *
 * In:  LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES: descriptors from 3 on, each a listening socket or
 *      what an earlier daemon stored; NOTIFY_SOCKET.
 * Out: these, each taken once; messages to the manager, as of sd_notify(3).
 *
 * Without a service manager there are no descriptors, and messages are dropped.
 *
 * Owner: the daemon's one thread. A message waits SERVICE_NOTIFY_MS at most if the manager is busy.
 */
#ifndef DAEMON_SERVICE_H
#define DAEMON_SERVICE_H

#include <stdbool.h>

#define SERVICE_NOTIFY_MS 1000
#define SERVICE_FDS_MAX	  2 /* in a message */

/*
 * Reads the environment, before anything else opens or closes a descriptor. Returns how many
 * descriptors there are, from 3 on.
 */
unsigned service_begin(void);

/* There is a NOTIFY_SOCKET. */
bool service_is_managed(void);

/*
 * Calls `take` with each descriptor that was not taken yet, and its name. True: `take` has taken it
 * over; else it stays for the next call.
 */
void service_each(bool (*take)(int fd, const char *name, void *arg), void *arg);

/* Closes the descriptors that were not taken. */
void service_drop_rest(void);

/* 0; -errno; -ENOTCONN: there is no NOTIFY_SOCKET. fds stay the caller's. */
int service_notify(const char *message, const int *fds, unsigned count);

#endif
