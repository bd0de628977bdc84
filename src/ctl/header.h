/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Header - what every message of the control socket begins with.
 */
#ifndef CTL_HEADER_H
#define CTL_HEADER_H

#include <stdint.h>

enum ctl_type {
	CTL_HELLO = 1,
	CTL_OBSERVE,
	CTL_WELCOME,
	CTL_PEER,
	CTL_PEER_REPLY,
	CTL_MCAST_ATTACH,
	CTL_MCAST_DETACH,
	CTL_MCAST_REPLY,
	CTL_MCAST_MEMBERS,
	CTL_MCAST_MEMBERS_REPLY,
	CTL_LIST,
	CTL_PROCESS,
	CTL_LIST_END,
	CTL_NOTICE_LINK,
	CTL_NOTICE_DEATH,
	CTL_NOTICE_MCAST_CHANGED,
	CTL_PORT,
	CTL_PORT_KEPT,
	CTL_PORT_REPLY,
	CTL_CM_HELLO, /* from here on: ctl/cm_protocol.h */
	CTL_CM_CREATE_CHANNEL,
	CTL_CM_DESTROY_CHANNEL,
	CTL_CM_CREATE_ID,
	CTL_CM_DESTROY_ID,
	CTL_CM_MIGRATE_ID,
	CTL_CM_BIND,
	CTL_CM_LISTEN,
	CTL_CM_CONNECT,
	CTL_CM_ACCEPT,
	CTL_CM_REJECT,
	CTL_CM_READY,
	CTL_CM_ESTABLISH,
	CTL_CM_DISCONNECT,
	CTL_CM_RAISE,
	CTL_CM_REPLY,
	CTL_CM_GET_EVENT,
	CTL_CM_EVENT,
	CTL_CM_RETURN_CHANNEL,
	CTL_CM_BEGIN,
	CTL_CM_LIST,
	CTL_CM_LISTENER,
	CTL_COUNTERS,
	CTL_COUNTERS_REPLY,
	CTL_TYPE_COUNT,
};

struct ctl_header {
	uint32_t type; /* enum ctl_type */
	uint32_t seq;  /* of a request, repeated in its reply; 0 in notices */
};

/* What a first message begins with in every version. */
struct ctl_greeting {
	struct ctl_header header;
	uint32_t magic;
	uint32_t version;
};

#endif
