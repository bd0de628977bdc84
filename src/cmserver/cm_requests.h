/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM requests - serves the requests of ctl/cm_protocol.h.
 *
 * In:  a request of a client that has a session.
 * Out: the reply; what the request leads to, in the other files here.
 *
 * A request may have been made to an earlier daemon, too, which may have been killed while it
 * served it. Then it is done once, and has the reply that it would have had.
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

/* Whether there is such a port space, and such a kind of QP for connections. */
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
