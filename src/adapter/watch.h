/*
 * Watch - sees the network interfaces change, and tells the contexts of their devices.
 *
 * In:  the kernel's announcements (rtnetlink) of links and addresses of this network namespace.
 * Out: IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE and IBV_EVENT_GID_CHANGE; and devices as the
 * interfaces are now, for ibv_query_port and ibv_query_gid.
 *
 * Owner: the progress thread, whose epoll holds the descriptor. Takes the adapter's lock.
 */
#ifndef ADAPTER_WATCH_H
#define ADAPTER_WATCH_H

/* The descriptor that is readable when something was announced; -1: the kernel offers none. */
int watch_start(void);

/* Reads what was announced, if anything, and acts on it. Never blocks. */
void watch_run(void);

void watch_reset_after_fork(void);

#endif
