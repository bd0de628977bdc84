/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM requests - serves the requests of ctl/cm_protocol.h.
 *
 * In:  a request of a client that has a session.
 * Out: the reply; changes of identifiers, channels and connections.
 *
 * A process may repeat a request that an earlier daemon had, which may have been killed while it
 * served it. Such a request is executed once in all, and gets the usual reply.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_REQUESTS_H
#define CMSERVER_CM_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/protocol.h"

struct client;
struct fdmsg;

/* The port space exists, and QPs of this type connect. */
bool cm_requests_is_kind(uint32_t space, enum ctl_cm_qp_type type);

void cm_requests_reply(struct client *c, uint32_t seq, int rc);

void cm_requests_on_return_channel(struct client *c, struct fdmsg *m);
void cm_requests_on_create_channel(struct client *c, struct fdmsg *m);
void cm_requests_on_destroy_channel(struct client *c, struct fdmsg *m);
void cm_requests_on_create_id(struct client *c, struct fdmsg *m);
void cm_requests_on_destroy_id(struct client *c, struct fdmsg *m);
void cm_requests_on_migrate_id(struct client *c, struct fdmsg *m);
void cm_requests_on_bind(struct client *c, struct fdmsg *m);
void cm_requests_on_listen(struct client *c, struct fdmsg *m);
void cm_requests_on_connect(struct client *c, struct fdmsg *m); /* CONNECT, ACCEPT, REJECT */
void cm_requests_on_step(struct client *c, struct fdmsg *m);	/* READY, ESTABLISH, DISCONNECT */
void cm_requests_on_raise(struct client *c, struct fdmsg *m);
void cm_requests_on_get_event(struct client *c, struct fdmsg *m);

#endif
