/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM - connection management: what verbatimd does for librdmacm.
 *
 * In:  the requests of ctl/cm_protocol.h; the end of the processes that make them.
 * Out: replies; and what the requests lead to in the files cm_*.
 *
 * Owner: the daemon's one thread. No process can make it keep more than the limits below.
 */
#ifndef CMSERVER_CM_H
#define CMSERVER_CM_H

#include "cmserver/cm_interfaces.h"
#include "cmserver/cm_moved.h"
#include "cmserver/cm_pending.h"
#include "cmserver/cm_return.h"
#include "cmserver/cm_space.h"
#include "cmserver/cm_store.h"
#include "cmserver/cm_timers.h"
#include "cmserver/comm_ids.h"
#include "cmserver/gsi.h"
#include "ctl/fdmsg.h"
#include "daemon/client.h"
#include "event/secret.h"
#include "event/table.h"

#define CM_IDS_PER_CLIENT      65536
#define CM_CHANNELS_PER_CLIENT 65536
#define CM_EVENTS_PER_CLIENT   131072 /* 57 MiB */

struct cm {
	struct daemon *daemon;
	struct comm_ids channels, ids, connections;
	unsigned channel_count; /* of all clients */
	struct secret secret; /* for the hashes of both tables: other hosts choose what is hashed */
	struct table by_remote; /* connections, by the other end's number */
	struct table by_qp;	/* established ones with other hosts, by the other end's QP */
	struct cm_space space;
	struct cm_timers timers;
	struct gsi gsi;
	struct cm_interfaces interfaces;
	struct cm_places places; /* on which interface each address is */
	struct list in_flight;	 /* messages between ends on this host */
	struct cm_pending pending;
	struct cm_return returning;
};

/* What a client of role CLIENT_CM_EARLY or CLIENT_CM has. */
struct cm_client {
	struct cm *cm;
	struct client *client;
	struct list ids, channels;
	unsigned id_count, channel_count, event_count;

	/* For the next daemon: cmserver/cm_save.h. */
	struct cm_store store;
	uint32_t session;
	bool returns;	     /* it had this session with an earlier daemon */
	uint32_t given_slot; /* of the event that it was given last */
	uint64_t order;	     /* of its last event */
	uint32_t repeated;   /* seq of the request that it makes a second time; 0: none */
	uint32_t begin_seq;  /* of BEGIN, while that waits for others to return; else 0 */
};

/* 0 or -errno. */
int cm_init(struct daemon *d);

/* The daemon ends: forgets all connections and sends nothing; then the clients go. */
void cm_forget(struct daemon *d);
void cm_fini(struct daemon *d);

/*
 * Takes over store_fd on success. session: 0: a new one. 0; -ESTALE: the session ended; -EINVAL: no
 * store; -ENOMEM.
 */
int cm_client_create(struct client *c, int store_fd, uint32_t session);

/* Does nothing if c has no session. */
void cm_on_death(struct client *c);

#endif
