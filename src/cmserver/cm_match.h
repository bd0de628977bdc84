/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM match - finds the connection that a message is for, or the listener of a request.
 *
 * In:  messages and their origins.
 * Out: the connection; a child of the listener, with a connection; or a refusal.
 *
 * Only ends of one user meet on this host. From another host a message is for a connection only if
 * it comes from the address that the connection is with.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_MATCH_H
#define CMSERVER_CM_MATCH_H

#include <stdbool.h>

struct cm;
struct cm_connection;
struct cm_origin;
struct ibcm_message;

/* NULL: there is none. */
struct cm_connection *cm_match_find(struct cm *cm, const struct cm_origin *o,
				    const struct ibcm_message *m);

/*
 * Makes a connection for a REQ or SIDR_REQ that has none. 0, or the reason why not (enum
 * ibcm_reason).
 */
int cm_match_take(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m);

/*
 * True: the other end connects a QP that this end still has a connection with. So the other end has
 * lost that connection (IBA 12.4.1): it is to get a REJ, and the identifier here has its event.
 */
bool cm_match_end_stale(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m);

/* Refuses a message that is for no connection and no listener, if it is one that gets an answer. */
void cm_match_refuse(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m,
		     int reason);

#endif
