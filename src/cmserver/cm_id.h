/*
 * CM identifier - the daemon's half of an rdma_cm_id.
 *
 * Has a port, may listen, may have one end of a connection. A child is made by a request that came
 * for a listener; until its event is fetched it belongs to the listener, and dies with it.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_ID_H
#define CMSERVER_CM_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "cmserver/cm_channel.h"
#include "cmserver/cm_space.h"
#include "cmserver/comm_ids.h"
#include "event/loop.h"

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

	/* Which address it is bound to, and on which interface that is (cmserver/cm_moved.h). */
	bool has_own_gid;
	uint8_t own_gid[CTL_GID_BYTES];
	uint32_t own_ifindex; /* 0: not known yet */

	/* cmserver/cm_save.h */
	uint32_t slot;
	uint32_t made_seq; /* of CREATE_ID; 0 of a child */
	uint32_t raised;   /* events of its connections so far */
	bool is_lost;	   /* not all of it could be restored: to be told */

	/* Of a listener. */
	unsigned backlog, backlog_left;
	struct gsi_port *gsi; /* of the address that it listens on; NULL: all, or none ... */
	struct loop_timer again; /* ... yet: the port may not be closed by who had it */
	bool listens_everywhere;
	struct list children; /* whose request was not fetched yet */

	/* Of such a child. */
	struct list in_listener;
	struct cm_id *listener;
};

/* Saved by the caller. number: 0: a new one. 0; -EEXIST, -EINVAL: it cannot have that; -ENOMEM. */
int cm_id_create(struct cm_client *owner, struct cm_channel *channel, uint16_t space,
		 enum ctl_cm_qp_type qp_type, uint32_t number, struct cm_id **out);

/* Its connection ends itself from here on; its children are refused. */
void cm_id_destroy(struct cm_id *id);

/* The request of a child was fetched: it stands for itself. */
void cm_id_release_child(struct cm_id *child);

/* Its request is waiting to be fetched (again). */
void cm_id_make_child(struct cm_id *child, struct cm_id *listener);

/* 0 or -errno. flags and address as of CTL_CM_BIND. */
int cm_id_bind(struct cm_id *id, uint32_t flags, const struct ctl_cm_address *local);

/* 0 or -errno. */
int cm_id_listen(struct cm_id *id, uint32_t backlog, uint32_t flags);

/*
 * As with an earlier daemon, an address of which the caller knows. 0; -EADDRINUSE: the port is
 * another's by now.
 */
int cm_id_bind_again(struct cm_id *id, uint32_t flags, const struct ctl_cm_address *local);

#endif
