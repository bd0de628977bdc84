/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watch - notices changes of the network interfaces of this namespace.
 *
 * In:  the kernel's announcements of links and addresses (rtnetlink(7)).
 * Out: whether there were any; interface_scan reads the interfaces themselves.
 *
 * Owner: the progress thread. Never blocks.
 */
#ifndef NETDEV_WATCH_H
#define NETDEV_WATCH_H

#include <stdbool.h>

/* Without such a socket of the kernel no change is ever noticed. */
void watch_start(void);

/* Readable while there are announcements; -1: there is none. */
int watch_fd(void);

/* Takes all announcements. True: there were any. */
bool watch_take(void);

void watch_reset_after_fork(void);

#endif
