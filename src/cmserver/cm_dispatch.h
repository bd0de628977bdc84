/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM dispatch - called by the loop: passes messages and deadlines to connections and listeners.
 *
 * In:  MADs from other hosts; messages between two ends on this host; deadlines of connections and
 *      of pending requests.
 * Out: calls of a connection; a child of a listener; a request that is pending; or a refusal.
 *
 * No end is called from within the other: the caller of an end calls cm_dispatch_deliver
 * afterwards.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_DISPATCH_H
#define CMSERVER_CM_DISPATCH_H

#include <stdint.h>

struct cm;
struct timer_heap_entry;
struct cm_timers;
struct gsi;
struct gsi_port;
struct ibcm_message;
struct loop_timer;

/* From another host: of struct gsi. */
void cm_dispatch_on_mad(struct gsi *gsi, struct gsi_port *port, const uint8_t *remote,
			const struct ibcm_message *m);

/* Of struct cm_timers. */
void cm_dispatch_on_time(struct cm_timers *timers, struct timer_heap_entry *timer, int64_t now_ns);

/* Of struct cm_pending's queues. */
void cm_dispatch_on_pending_timeout(struct loop_timer *timer);

/* Delivers the messages between ends on this host, until there are none. */
void cm_dispatch_deliver(struct cm *cm);

#endif
