/*
 * CM - connection management: what verbatimd does for librdmacm.
 *
 * In:  the requests of ctl/cm_protocol.h; the end of those who make them.
 * Out: answers; and all that they lead to in the files cm_*.
 *
 * Owner: the daemon's one thread. Nobody can make it keep more than the limits below.
 */
#ifndef DAEMON_CM_H
#define DAEMON_CM_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"
#include "daemon/cm_held.h"
#include "daemon/cm_interfaces.h"
#include "daemon/cm_moved.h"
#include "daemon/cm_space.h"
#include "daemon/cm_timers.h"
#include "daemon/gsi.h"
#include "daemon/numbers.h"
#include "daemon/secret.h"
#include "daemon/table.h"

#define CM_IDS_PER_CLIENT      65536
#define CM_CHANNELS_PER_CLIENT 65536
#define CM_EVENTS_PER_CLIENT   131072 /* 57 MiB */

struct cm {
	struct daemon *daemon;
	struct numbers channels, ids, connections;
	unsigned channel_count; /* of all clients */
	struct secret secret;	/* of the hashes of all below: other hosts choose what is hashed */
	struct table by_remote; /* connections, by the other end's number */
	struct table by_qp;	/* established ones with other hosts, by the other end's QP */
	struct cm_space space;
	struct cm_timers timers;
	struct gsi gsi;
	struct cm_interfaces interfaces;
	struct cm_places places; /* where addresses are, for those that are bound to them */
	struct list in_flight;	 /* messages between ends on this host */
	struct cm_held held;
};

/* What a client of role CLIENT_CM has. */
struct cm_client {
	struct cm *cm;
	struct client *client;
	struct list ids, channels;
	unsigned id_count, channel_count, event_count;
};

/* 0 or -errno. */
int cm_init(struct daemon *d);

/* The daemon ends: connections are forgotten without a word, then the clients go. */
void cm_forget(struct daemon *d);
void cm_fini(struct daemon *d);

/* 0 or -ENOMEM. */
int cm_client_create(struct client *c);

/* c may have none. */
void cm_on_death(struct client *c);

void cm_on_create_channel(struct client *c, struct fdmsg *m);
void cm_on_destroy_channel(struct client *c, struct fdmsg *m);
void cm_on_create_id(struct client *c, struct fdmsg *m);
void cm_on_destroy_id(struct client *c, struct fdmsg *m);
void cm_on_migrate_id(struct client *c, struct fdmsg *m);
void cm_on_bind(struct client *c, struct fdmsg *m);
void cm_on_listen(struct client *c, struct fdmsg *m);
void cm_on_talk(struct client *c, struct fdmsg *m); /* CONNECT, ACCEPT, REJECT */
void cm_on_step(struct client *c, struct fdmsg *m); /* READY, ESTABLISH, DISCONNECT */
void cm_on_raise(struct client *c, struct fdmsg *m);
void cm_on_get_event(struct client *c, struct fdmsg *m);

#endif
