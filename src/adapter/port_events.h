/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port events - raises events of ports on a device's contexts when its interface changes.
 *
 * In:  announcements of changes (netdev/watch.h).
 * Out: IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE and IBV_EVENT_GID_CHANGE; devices as the
 *      interfaces are now, for ibv_query_port and ibv_query_gid.
 *
 * Owner: the progress thread. Takes the contexts' lock.
 */
#ifndef ADAPTER_PORT_EVENTS_H
#define ADAPTER_PORT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * After an announcement, compares each context's last event with its interface. Never blocks. True:
 * devices are up to date after a change.
 */
bool port_events_poll(uint64_t now);
/* When that is due although nothing is announced, CLOCK_MONOTONIC; or UINT64_MAX. */
uint64_t port_events_due_ns(void);

#endif
