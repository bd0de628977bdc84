/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watch - tells when the network interfaces of this namespace change.
 *
 * In:  the kernel's announcements of links and addresses (rtnetlink(7)).
 * Out: that there were any; interface_scan tells what is there now.
 *
 * Owner: the progress thread. Never blocks.
 */
#ifndef NETDEV_WATCH_H
#define NETDEV_WATCH_H

#include <stdbool.h>

/* If the kernel offers no such socket nothing is ever announced. */
void watch_start(void);

/* Readable while there are announcements; -1: there is none. */
int watch_fd(void);

/* Takes what was announced. True: there was something. */
bool watch_take(void);

void watch_reset_after_fork(void);

#endif
