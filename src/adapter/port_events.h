/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port events - tells the contexts of a device what has become of its interface.
 *
 * In:  announcements of changes (netdev/watch.h).
 * Out: IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE and IBV_EVENT_GID_CHANGE; devices as the
 * interfaces are now, for ibv_query_port and ibv_query_gid.
 *
 * Owner: the progress thread. Takes the contexts' lock.
 */
#ifndef ADAPTER_PORT_EVENTS_H
#define ADAPTER_PORT_EVENTS_H

/* If anything was announced, compares what each context was told with what is. Never blocks. */
void port_events_poll(void);

#endif
