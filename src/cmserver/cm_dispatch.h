/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM dispatch - brings each message to the connection, or to the listener, that it is for.
 *
 * In:  MADs from other hosts; messages between two ends on this host; deadlines of connections.
 * Out: calls of that connection; a child of the listener; a request that is pending; or a refusal.
 *
 * Only ends of one user meet on this host. From another host a message is for a connection only if
 * it comes from the address that the connection is with. No end is called from within the other:
 * whatever calls an end calls cm_dispatch_deliver afterwards.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_DISPATCH_H
#define CMSERVER_CM_DISPATCH_H

#include <stdint.h>

struct cm;
struct cm_origin;
struct timer_heap_entry;
struct cm_timers;
struct gsi;
struct gsi_port;
struct ibcm_message;

/* From another host: of struct gsi. */
void cm_dispatch_on_mad(struct gsi *gsi, struct gsi_port *port, const uint8_t *remote,
			const struct ibcm_message *m);

/* Of struct cm_timers. */
void cm_dispatch_on_time(struct cm_timers *timers, struct timer_heap_entry *timer, int64_t now_ns);

/* Delivers the messages between ends on this host, until there are none. */
void cm_dispatch_deliver(struct cm *cm);

/* A REQ or SIDR_REQ. 0: it has a connection now; or the reason why not (enum ibcm_reason). */
int cm_dispatch_take(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m);

/* Refuses a message that is for no connection and no listener, if it is one that gets an answer. */
void cm_dispatch_refuse(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m,
			int reason);

#endif
