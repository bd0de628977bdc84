/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM connection - one end of a connection (ibcm/connection.h) for its identifier.
 *
 * In:  requests of an identifier; messages and deadlines, from cm_dispatch.c.
 * Out: messages to the other end, on this host or another; events for the identifier.
 *
 * Owner: the daemon's one thread. A closed connection is freed here: any call may do that, and
 * id->connection is NULL then. If a connection's last message is a REJ, and the port that it would
 * leave by is not open yet, the connection stays for a while without its identifier.
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

/* Where a message came from. */
struct cm_origin {
	bool is_local;
	uid_t uid;		       /* of the sender, if is_local */
	uint32_t session;	       /* likewise; 0: it has no identifier any more */
	const uint8_t *local, *remote; /* GIDs: its destination and its source */
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
	bool is_local;		/* the other end is on this host */
	uint32_t other_session; /* of its process, from its first message on; 0: not known */
	bool is_ud;
	bool is_unverified; /* known only from the store of another user's process */
	uint8_t local_gid[CTL_GID_BYTES], remote_gid[CTL_GID_BYTES];
	uint32_t ifindex;
	struct gsi_port *gsi;	 /* unless is_local */
	struct list in_portless; /* linked while its port could not be opened */
	struct timer_heap_entry timer;
};

/* The active end: sends a REQ or SIDR_REQ. 0 or -errno. */
int cm_connection_connect(struct cm_id *id, const struct ctl_cm_request *request);

/* 0 or -errno. */
int cm_connection_accept(struct cm_connection *c, const struct ctl_cm_request *request);
int cm_connection_reject(struct cm_connection *c, const struct ctl_cm_request *request);
int cm_connection_ready(struct cm_connection *c);
int cm_connection_establish(struct cm_connection *c);
int cm_connection_disconnect(struct cm_connection *c);

/* Its identifier is destroyed. */
void cm_connection_abandon(struct cm_connection *c);

void cm_connection_on_message(struct cm_connection *c, const struct ibcm_message *m);

/* A new connection becomes the passive end of this REQ or SIDR_REQ. */
void cm_connection_on_request(struct cm_connection *c, const struct ibcm_message *m);

void cm_connection_on_time(struct cm_connection *c, int64_t now_ns);

/*
 * A closed end, for an identifier that has none. number: its communication ID; 0: a new one. NULL:
 * out of memory, or the communication ID is in use.
 */
struct cm_connection *cm_connection_create(struct cm_id *id, const struct cm_origin *o,
					   uint32_t number);

/* Sends nothing. */
void cm_connection_destroy(struct cm_connection *c);

/*
 * Writes the identifier, with its connection, to its process's store: after each change of either.
 * A connection's own steps do so.
 */
void cm_connection_save_id(struct cm_id *id);

/* For by_remote and by_qp: hashes the number of a remote connection, or of its QP. */
uint64_t cm_connection_hash(const struct cm *cm, const uint8_t *remote_gid, uint32_t number);

/*
 * Restores the connection that the identifier had with an earlier daemon, with the same numbers.
 * The caller has checked addresses, service and QP type. False: there can be no such connection. It
 * sends nothing before cm_connection_resume.
 */
bool cm_connection_restore(struct cm_id *id, const struct cm_record_id *r);

/*
 * Opens the port of its address, if the other end is on another host. False: the port is missing.
 */
bool cm_connection_open_port(struct cm_connection *c);

/*
 * Repeats messages that may be lost: those under way, or sent while the port was not open. The
 * connection may be freed.
 */
void cm_connection_resume(struct cm_connection *c);

/*
 * If the connection's other end is missing, and its session is not away, ends the connection as if
 * that end had disconnected.
 */
void cm_connection_end_orphan(struct cm_connection *c);

/*
 * Visits those that lack a port (cm->portless), until visit returns false: the next call begins
 * with that one.
 */
void cm_connection_visit_portless(struct cm *cm, bool (*visit)(struct cm_connection *c));

/* visit may free the connection that it is called with, and no other. */
void cm_connection_visit_all(struct cm *cm, void (*visit)(struct cm_connection *c));

/* The daemon ends: sends nothing. */
void cm_connection_forget_all(struct cm *cm);

#endif
