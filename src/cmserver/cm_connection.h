/*
 * CM connection - one end of a connection (ibcm/connection.h), with its way to the other end.
 *
 * In:  what an identifier wants; messages from this host and from others.
 * Out: messages there; events for the identifier.
 *
 * On this host messages go through a queue (cm_connection_deliver), so that no end is called from
 * within the other. Only ends of one user meet there. From another host a message is for a
 * connection only if it comes from the address that the connection is with.
 *
 * Owner: the daemon's one thread. A connection is freed here, once it is closed: any call may do
 * that, and id->connection is NULL then. One whose REJ had no port to leave by stays without its
 * identifier, for a while, until there is the port.
 */
#ifndef CMSERVER_CM_CONNECTION_H
#define CMSERVER_CM_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cmserver/cm_id.h"
#include "cmserver/cm_timers.h"
#include "ibcm/connection.h"

struct cm;
struct cm_record_id;
struct gsi;

/* Where a message came from, and how. */
struct cm_origin {
	bool is_local;
	uid_t uid;		       /* of who sent it, if is_local */
	const uint8_t *local, *remote; /* GIDs: where it came to, where it came from */
	uint32_t ifindex;
	struct gsi_port *gsi; /* unless is_local */
};

struct cm_connection {
	struct connection end;
	struct comm_id comm_id;	      /* end.local_id */
	struct table_entry by_remote; /* once the other end's number is known */
	struct table_entry by_qp;     /* while it is established with another host */
	struct cm *cm;
	struct cm_id *id; /* NULL: abandoned */
	uid_t uid;
	bool is_local; /* the other end is on this host */
	bool is_ud;
	bool is_hearsay; /* it is known from the store of another user's process alone */
	uint8_t local_gid[CTL_GID_BYTES], remote_gid[CTL_GID_BYTES];
	uint32_t ifindex;
	struct gsi_port *gsi; /* unless is_local */
	struct cm_timer timer;
};

/* The active end: sends a REQ or SIDR_REQ. 0 or -errno. */
int cm_connection_connect(struct cm_id *id, const struct ctl_cm_request *request);

/* 0 or -errno. */
int cm_connection_accept(struct cm_connection *c, const struct ctl_cm_request *request);
int cm_connection_reject(struct cm_connection *c, const struct ctl_cm_request *request);
int cm_connection_ready(struct cm_connection *c);
int cm_connection_establish(struct cm_connection *c);
int cm_connection_disconnect(struct cm_connection *c);

/* Its identifier is no more. */
void cm_connection_abandon(struct cm_connection *c);

/* From another host: of struct gsi. */
void cm_connection_on_mad(struct gsi *gsi, struct gsi_port *port, const uint8_t *remote,
			  const struct ibcm_message *m);

/* Of a REQ or SIDR_REQ: 0: it has a connection now; or the reason why not (enum ibcm_reason). */
int cm_connection_take(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m);

/* Says no to what is for nobody, if it wants an answer. */
void cm_connection_refuse(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m,
			  int reason);

void cm_connection_on_time(struct cm_timers *timers, struct cm_timer *timer, int64_t now_ns);

/* Hands over the messages between ends on this host, until there are none. */
void cm_connection_deliver(struct cm *cm);

/*
 * The connection that the identifier had with an earlier daemon, with the same numbers. The caller
 * has checked what the protocol does not know of: addresses, the service, the kind. False: no such
 * connection can be. Its other end hears nothing of it before cm_connection_resume.
 */
bool cm_connection_restore(struct cm_id *id, const struct cm_record_id *r);

/* Of one with another host: whether the port of its address is open; tries to open it. */
bool cm_connection_open_port(struct cm_connection *c);

/* What was under way may be lost, and so is what was said without a port: says it again. It may be freed. */
void cm_connection_resume(struct cm_connection *c);

/* All have come back: is it one whose other end has not? It then ends, as if that one had said so. */
void cm_connection_end_orphan(struct cm_connection *c);

/* The daemon ends: without a word. */
void cm_connection_forget_all(struct cm *cm);

#endif
