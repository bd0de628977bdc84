/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM identifier - the daemon's half of an rdma_cm_id.
 *
 * It has a port, may listen, or may have one end of a connection. A request for a listener creates
 * a child. Until the program fetches its event, the child belongs to the listener and ends with it.
 * Until the program accepts it, no event but the request is about it: the program still takes it
 * for the listener's (its context is).
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_ID_H
#define CMSERVER_CM_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "cmserver/cm_space.h"
#include "cmserver/comm_ids.h"
#include "event/loop.h"

struct cm;
struct cm_channel;
struct cm_client;
struct cm_connection;
struct gsi_port;

struct cm_id {
	struct comm_id comm_id;
	struct list in_client;
	struct cm_client *owner;
	struct cm_channel *channel;
	struct list in_channel;
	struct list events; /* about it, not fetched yet */
	struct cm_binding binding;
	enum ctl_cm_qp_type qp_type;	  /* of the QP that its connection has, or its children's */
	struct cm_connection *connection; /* NULL: none */
	bool had_connection;
	bool is_unaccepted; /* a child that its program has not accepted */

	/* The address that it is bound to, and the interface of that (cmserver/cm_moved.h). */
	bool has_own_gid;
	uint8_t own_gid[CTL_GID_BYTES];
	uint32_t own_ifindex; /* 0: not known yet */

	/* cmserver/cm_store.h */
	uint32_t slot;
	uint32_t made_seq; /* of CREATE_ID; 0 of a child */
	uint32_t raised;   /* events of its connections so far */
	bool is_lost;	   /* not all of it could be restored: the program gets DEVICE_REMOVAL */

	/* Of a listener. */
	unsigned backlog, backlog_left;
	struct gsi_port
		*gsi; /* of the address that it listens on; NULL: the wildcard, or not open */
	struct list in_deaf; /* linked while the port of its address cannot be opened */
	bool was_told;	     /* that it cannot be opened */
	bool listens_everywhere;
	struct list children; /* requests that were not fetched yet */

	/* Of such a child. */
	struct list in_listener;
	struct cm_id *listener;
};

/* At the start of the daemon. */
void cm_id_init_all(struct cm *cm);

/*
 * The caller saves it. number: 0: a new one. 0; -EEXIST, -EINVAL: the number is in use, or invalid;
 * -ENOMEM.
 */
int cm_id_create(struct cm_client *owner, struct cm_channel *channel, uint16_t space,
		 enum ctl_cm_qp_type qp_type, uint32_t number, struct cm_id **out);

/* It has no connection, children and events any more (cm_teardown.h). */
void cm_id_destroy(struct cm_id *id);

/* The program has fetched the request of a child, which is an identifier like others now. */
void cm_id_release_child(struct cm_id *child);

/* The program has not fetched its request. */
void cm_id_make_child(struct cm_id *child, struct cm_id *listener);

/* It is bound to this address from now on: its program gets an event if that moves (cm_moved.h). */
void cm_id_set_address(struct cm_id *id, const uint8_t gid[CTL_GID_BYTES]);

/* 0; -errno: it is not bound. flags and address as of CTL_CM_BIND. */
int cm_id_bind(struct cm_id *id, uint32_t flags, const struct ctl_cm_address *local);

/* 0 or -errno. */
int cm_id_listen(struct cm_id *id, uint32_t backlog, uint32_t flags);

/*
 * Binds to the address that the identifier had with an earlier daemon; the caller has checked it.
 * 0; -EADDRINUSE: another identifier has the port by now.
 */
int cm_id_bind_again(struct cm_id *id, uint32_t flags, const struct ctl_cm_address *local);

#endif
