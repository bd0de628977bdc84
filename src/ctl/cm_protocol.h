/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM protocol - what librdmacm and verbatimd say to each other.
 *
 * On a connection of its own, which begins with CM_HELLO, RETURN_CHANNEL for each channel that an
 * earlier daemon knew, and BEGIN. Every request gets one answer: CM_EVENT to GET_EVENT, CM_REPLY to
 * all others; there are no notices. Identifiers and channels are known by numbers that verbatimd
 * gives, never 0 and not used again for long.
 *
 * A session outlives the daemon: what the daemon has for the process is in a memfd of the process
 * (the store, cmserver/cm_store.h), which the process gives to the next daemon. The library repeats
 * an unanswered request to the next daemon, with the same header.seq; the store tells the daemon
 * what the first attempt has done.
 *
 * Fields for private data are as long as in InfiniBand's messages; shorter data are padded with
 * zeroes.
 */
#ifndef CTL_CM_PROTOCOL_H
#define CTL_CM_PROTOCOL_H

#include <stdint.h>

#include "ctl/header.h"

#define CTL_CM_PRIVATE_BYTES 216

/* As in rdma_cm_event_type. */
enum ctl_cm_event_kind {
	CTL_CM_ADDR_RESOLVED,
	CTL_CM_ADDR_ERROR,
	CTL_CM_ROUTE_RESOLVED,
	CTL_CM_ROUTE_ERROR,
	CTL_CM_CONNECT_REQUEST,
	CTL_CM_CONNECT_RESPONSE,
	CTL_CM_CONNECT_ERROR,
	CTL_CM_UNREACHABLE,
	CTL_CM_REJECTED,
	CTL_CM_ESTABLISHED,
	CTL_CM_DISCONNECTED,
	CTL_CM_DEVICE_REMOVAL,
	CTL_CM_MULTICAST_JOIN,
	CTL_CM_MULTICAST_ERROR,
	CTL_CM_ADDR_CHANGE,
	CTL_CM_TIMEWAIT_EXIT,
	CTL_CM_ADDRINFO_RESOLVED,
	CTL_CM_ADDRINFO_ERROR,
	CTL_CM_USER,
	CTL_CM_INTERNAL,
	CTL_CM_IWARP, /* the library has it (cm/iwcm.h); never seen by programs */
	CTL_CM_EVENT_KINDS,
};

/* As in rdma_port_space. */
enum ctl_cm_space {
	CTL_CM_IPOIB = 0x0002,
	CTL_CM_TCP = 0x0106,
	CTL_CM_UDP = 0x0111,
	CTL_CM_IB = 0x013f,
};

/* As in ibv_qp_type. */
enum ctl_cm_qp_type {
	CTL_CM_QP_NONE = 0,
	CTL_CM_QP_RC = 2,
	CTL_CM_QP_UC = 3,
	CTL_CM_QP_UD = 4,
	CTL_CM_QP_XRC_SEND = 9,
	CTL_CM_QP_XRC_RECV = 10,
};

#define CTL_CM_STORE_BYTES (192 << 20) /* sparse: nearly all of it is a hole */

/*
 * Descriptors: the store, a memfd of CTL_CM_STORE_BYTES that cannot shrink or grow; of a session
 * that returns, the token that came with it.
 */
struct ctl_cm_hello {
	struct ctl_greeting greeting;
	uint32_t session; /* 0: a new one, with an empty store; else its number */
};

/* An address and a port. The wildcard is IPv4-mapped 0.0.0.0, or ::, as the family says. */
struct ctl_cm_address {
	uint8_t gid[16];
	uint16_t family;  /* AF_INET, AF_INET6; 0: none */
	uint16_t port;	  /* network order; 0: none yet */
	uint32_t ifindex; /* of IPv6 link-local addresses, else 0 */
};

/* What one end of a connection tells the other about itself. */
struct ctl_cm_end {
	uint32_t qpn;
	uint32_t psn;  /* the first that the other end is to send */
	uint32_t qkey; /* of UD */
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count;
	uint8_t has_srq;
	uint8_t path_mtu;    /* enum ibv_mtu */
	uint8_t ack_timeout; /* exponent of the QP's time-out */
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint16_t private_bytes;
	uint8_t private_data[CTL_CM_PRIVATE_BYTES];
	uint32_t ece_vendor, ece_options;
};

/*
 * CREATE_CHANNEL (descriptor: the program's, a unix datagram socket that is connected to itself),
 * RETURN_CHANNEL (the same; channel: its number), DESTROY_CHANNEL, GET_EVENT: channel. BEGIN: value
 * is the seq of the last request that was answered, flags that of the repeated request (0: none).
 * ENOENT: the daemon has no such session any more. CREATE_ID: channel, value is the port space,
 * flags the QP type, which counts in CTL_CM_IB alone. DESTROY_ID. MIGRATE_ID: id, channel. LISTEN:
 * id, value is the backlog, flags CTL_CM_REUSEADDR and CTL_CM_AFONLY. READY: id; the QP is in RTS,
 * so the RTU may go. ESTABLISH: id; data came before the RTU. DISCONNECT: id.
 */
struct ctl_cm_ask {
	struct ctl_header header;
	uint32_t id;
	uint32_t channel;
	uint32_t value;
	uint32_t flags;
};

#define CTL_CM_REUSEADDR 1u
#define CTL_CM_AFONLY	 2u

struct ctl_cm_bind {
	struct ctl_header header;
	uint32_t id;
	uint32_t flags; /* CTL_CM_REUSEADDR, CTL_CM_AFONLY */
	struct ctl_cm_address local;
};

/* CONNECT, ACCEPT and REJECT. */
struct ctl_cm_request {
	struct ctl_header header;
	uint32_t id;
	uint32_t reason;		     /* REJECT: of the IBA */
	struct ctl_cm_address local, remote; /* CONNECT: from where to where */
	struct ctl_cm_end end;
};

/* Puts an event into the channel of the identifier. */
struct ctl_cm_raise {
	struct ctl_header header;
	uint32_t id;
	uint32_t kind; /* enum ctl_cm_event_kind */
	int32_t status;
	uint32_t reserved;
	uint64_t cookie;
};

struct ctl_cm_reply {
	struct ctl_header header;
	int32_t status;		     /* 0 or an errno */
	uint32_t number;	     /* CREATE_*: the new one's; DISCONNECT: 1: no event follows */
	struct ctl_cm_address local; /* BIND, CONNECT, LISTEN: the address of the identifier */
};

struct ctl_cm_event {
	struct ctl_header header;
	int32_t answer; /* 0; EAGAIN: there is none; or an errno */
	uint32_t kind;	/* enum ctl_cm_event_kind */
	int32_t status; /* as in rdma_cm_event */
	uint32_t id;
	uint32_t listener;		     /* CONNECT_REQUEST: the parent of id */
	uint32_t channel;		     /* of the id */
	uint64_t cookie;		     /* of CM_RAISE */
	struct ctl_cm_address local, remote; /* CONNECT_REQUEST */
	struct ctl_cm_end end;		     /* the other end's */
};

/*
 * The answer to an observer's CM_LIST (a ctl_list): one for each identifier that listens, then
 * LIST_END.
 */
struct ctl_cm_listener {
	struct ctl_header header;
	int32_t pid; /* 0: the process is in a pid namespace that verbatimd does not see */
	uint32_t uid;
	uint16_t space; /* enum ctl_cm_space */
	uint16_t reserved;
	uint32_t backlog;
	struct ctl_cm_address local;
};

#endif
