/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM state - the state of connection management: for the host, and for each client.
 *
 * Owner: the daemon's one thread. No process can make it keep more than the limits below.
 */
#ifndef CMSERVER_CM_STATE_H
#define CMSERVER_CM_STATE_H

#include "cmserver/cm_interfaces.h"
#include "cmserver/cm_sessions.h"
#include "cmserver/cm_space.h"
#include "cmserver/cm_store.h"
#include "cmserver/cm_timers.h"
#include "cmserver/comm_ids.h"
#include "cmserver/gsi.h"
#include "event/secret.h"
#include "event/table.h"

#define CM_IDS_PER_CLIENT      65536
#define CM_CHANNELS_PER_CLIENT 65536
#define CM_EVENTS_PER_CLIENT   131072 /* 57 MiB */

struct client;
struct cm_pending;
struct cm_return;

struct cm {
	struct daemon *daemon;
	struct comm_ids channels, ids, connections;
	unsigned channel_count; /* of all clients */
	struct secret secret;	/* for both tables: other hosts choose the hashed values */
	struct table by_remote; /* connections, by the other end's number */
	struct table by_qp;	/* established ones with other hosts, by the other end's QP */
	struct cm_space space;
	struct cm_timers timers;
	struct gsi gsi;
	struct cm_interfaces interfaces;
	struct list deaf; /* listeners on an address whose port cannot be opened now, */
	struct loop_timer listen_again; /* armed while there are any */
	struct list portless;  /* restored connections that lack the port of their address */
	struct list in_flight; /* messages between ends on this host */
	struct cm_sessions sessions;
	struct cm_pending *pending;  /* requests that wait for a listener */
	struct cm_return *returning; /* the wait for the processes of an earlier daemon */
};

/* What a client of role CLIENT_CM_EARLY or CLIENT_CM has. */
struct cm_client {
	struct cm *cm;
	struct client *client;
	struct list ids, channels;
	unsigned id_count, channel_count, event_count;

	/* For the next daemon: cmserver/cm_store.h. */
	struct cm_store store;
	uint32_t session;
	bool returns;		   /* it had this session with an earlier daemon */
	uint32_t given_slot;	   /* of the last event that it got */
	uint64_t order;		   /* of its last event */
	uint32_t repeated;	   /* seq of the request that it makes a second time; 0: none */
	struct loop_timer hang_up; /* armed from the end of its socket: cm_on_hang_up */
	uint32_t begin_seq; /* of BEGIN, while its reply waits for others to return; else 0 */
};

#endif
