/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbatimd/messages.h"

#include <errno.h>

#include "cmserver/cm.h"
#include "cmserver/cm_requests.h"
#include "cmserver/cm_return.h"
#include "ctl/fdmsg.h"
#include "daemon/client.h"
#include "daemon/counts.h"
#include "daemon/hello.h"
#include "daemon/links.h"
#include "daemon/mcast.h"
#include "daemon/ports.h"
#include "verbatimd/lists.h"

#define ASK sizeof(struct ctl_cm_ask)

/* The messages that a client may send. A message that does not match its row is an error. */
static const struct {
	size_t len;
	unsigned fds_min, fds_max;
	enum client_role role; /* of clients that may send it */
	void (*on_request)(struct client *c, struct fdmsg *m);
} requests[CTL_TYPE_COUNT] = {
	[CTL_HELLO] = { sizeof(struct ctl_hello), 3, 4, CLIENT_CONNECTED, hello_on_hello },
	[CTL_OBSERVE] = { sizeof(struct ctl_observe), 0, 0, CLIENT_CONNECTED, hello_on_observe },
	[CTL_PEER] = { sizeof(struct ctl_peer), 0, 0, CLIENT_PROCESS, links_on_peer },
	[CTL_MCAST_ATTACH] = { sizeof(struct ctl_mcast), 0, 0, CLIENT_PROCESS, mcast_on_attach },
	[CTL_MCAST_DETACH] = { sizeof(struct ctl_mcast), 0, 0, CLIENT_PROCESS, mcast_on_detach },
	[CTL_MCAST_MEMBERS] = { sizeof(struct ctl_mcast), 0, 0, CLIENT_PROCESS, mcast_on_members },
	[CTL_PORT] = { sizeof(struct ctl_port), 0, 0, CLIENT_PROCESS, ports_on_port },
	[CTL_PORT_KEPT] = { sizeof(struct ctl_port), 1, 1, CLIENT_PROCESS, ports_on_kept },
	[CTL_CM_HELLO] = { sizeof(struct ctl_cm_hello), 1, 2, CLIENT_CONNECTED, cm_on_hello },
	[CTL_CM_RETURN_CHANNEL] = { ASK, 1, 1, CLIENT_CM_EARLY, cm_requests_on_return_channel },
	[CTL_CM_BEGIN] = { ASK, 0, 0, CLIENT_CM_EARLY, cm_return_on_begin },
	[CTL_CM_CREATE_CHANNEL] = { ASK, 1, 1, CLIENT_CM, cm_requests_on_create_channel },
	[CTL_CM_DESTROY_CHANNEL] = { ASK, 0, 0, CLIENT_CM, cm_requests_on_destroy_channel },
	[CTL_CM_CREATE_ID] = { ASK, 0, 0, CLIENT_CM, cm_requests_on_create_id },
	[CTL_CM_DESTROY_ID] = { ASK, 0, 0, CLIENT_CM, cm_requests_on_destroy_id },
	[CTL_CM_MIGRATE_ID] = { ASK, 0, 0, CLIENT_CM, cm_requests_on_migrate_id },
	[CTL_CM_BIND] = { sizeof(struct ctl_cm_bind), 0, 0, CLIENT_CM, cm_requests_on_bind },
	[CTL_CM_LISTEN] = { ASK, 0, 0, CLIENT_CM, cm_requests_on_listen },
	[CTL_CM_CONNECT] = { sizeof(struct ctl_cm_request), 0, 0, CLIENT_CM,
			     cm_requests_on_connect },
	[CTL_CM_ACCEPT] = { sizeof(struct ctl_cm_request), 0, 0, CLIENT_CM,
			    cm_requests_on_connect },
	[CTL_CM_REJECT] = { sizeof(struct ctl_cm_request), 0, 0, CLIENT_CM,
			    cm_requests_on_connect },
	[CTL_CM_READY] = { ASK, 0, 0, CLIENT_CM, cm_requests_on_step },
	[CTL_CM_ESTABLISH] = { ASK, 0, 0, CLIENT_CM, cm_requests_on_step },
	[CTL_CM_DISCONNECT] = { ASK, 0, 0, CLIENT_CM, cm_requests_on_step },
	[CTL_CM_RAISE] = { sizeof(struct ctl_cm_raise), 0, 0, CLIENT_CM, cm_requests_on_raise },
	[CTL_CM_GET_EVENT] = { ASK, 0, 0, CLIENT_CM, cm_requests_on_get_event },
	[CTL_LIST] = { sizeof(struct ctl_list), 0, 0, CLIENT_OBSERVER, lists_on_list },
	[CTL_COUNTERS] = { sizeof(struct ctl_counters), 0, 0, CLIENT_OBSERVER, counts_on_counters },
	[CTL_CM_LIST] = { sizeof(struct ctl_list), 0, 0, CLIENT_OBSERVER, lists_on_list },
};

/*
 * Of a shared directory's daemon. Its network namespace is not that of its clients, so it must not
 * open ports or make connections for them.
 */
static bool is_for_directory(uint32_t type)
{
	return type == CTL_HELLO || type == CTL_OBSERVE || type == CTL_PEER || type == CTL_LIST ||
	       type == CTL_COUNTERS;
}

/* A greeting of another version may have another length; it still gets an answer. */
static bool is_other_version(const struct client *c, const struct fdmsg *m)
{
	const struct ctl_greeting *g = &m->body.greeting;

	return c->role == CLIENT_CONNECTED && m->len >= sizeof(*g) &&
	       (g->header.type == CTL_HELLO || g->header.type == CTL_OBSERVE ||
		g->header.type == CTL_CM_HELLO) &&
	       g->magic == CTL_MAGIC && g->version != CTL_VERSION;
}

const char *messages_on_message(struct client *c, struct fdmsg *m)
{
	uint32_t type = m->len >= sizeof(struct ctl_header) ? m->body.header.type : 0;

	if (is_other_version(c, m)) {
		hello_refuse(c, m->body.header.seq, EPROTONOSUPPORT);
		return NULL;
	}
	if (type >= CTL_TYPE_COUNT || !requests[type].on_request)
		return "it sent what is no request";
	if (c->daemon->scope == DAEMON_OF_DIRECTORY && !is_for_directory(type))
		return "it sent a request that is for the verbatimd of its network namespace";
	if (!(requests[type].role & c->role))
		return "it sent a request out of place";
	if (m->len != requests[type].len)
		return "it sent a request of a wrong length";
	if (m->fds_lost) {
		if (!requests[type].fds_max)
			return "it sent descriptors that belong to no request";
		/* The daemon lost them, not the client: the reply says so. */
		if (c->role != CLIENT_CONNECTED) {
			requests[type].on_request(c, m);
			return NULL;
		}
		hello_refuse(c, m->body.header.seq, EMFILE);
		return NULL;
	}
	if (m->fd_count < requests[type].fds_min || m->fd_count > requests[type].fds_max)
		return "it sent a wrong number of descriptors";
	requests[type].on_request(c, m);
	return NULL;
}
