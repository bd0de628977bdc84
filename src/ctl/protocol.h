/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protocol - the messages between a process and verbatimd on the control socket.
 *
 * The socket is SOCK_SEQPACKET: one message per send, each exactly as long as the struct of its
 * type; descriptors travel beside it (SCM_RIGHTS), in the order given at the struct. The first
 * message of a connection is HELLO (a process that wants a slot), CM_HELLO (one that manages
 * connections) or OBSERVE (a tool that looks); all are answered by WELCOME. Then each request gets
 * the one reply that carries its seq, and notices, whose seq is 0, may come at any time in between.
 *
 * A peer that sends anything else is disconnected. Both ends are of one host: all fields are in
 * host order. HELLO, CM_HELLO, OBSERVE and WELCOME keep their first four fields in every version,
 * so that each end detects a different version.
 */
#ifndef CTL_PROTOCOL_H
#define CTL_PROTOCOL_H

#include <stdint.h>

#include "ctl/cm_protocol.h"
#include "ctl/header.h"

#define CTL_MAGIC	 0x74627256u /* "Vrbt" */
#define CTL_VERSION	 14u
#define CTL_SLOT_MAX	 1023u /* slots are 1..1023; 0 is the daemon's own */
#define CTL_COMM_BYTES	 16
#define CTL_MGID_BYTES	 16
#define CTL_GID_BYTES	 16
#define CTL_WHY_BYTES	 240 /* a sentence and its terminating 0 */
#define CTL_FDS_MAX	 4   /* no message carries more descriptors */
#define CTL_BITMAP_WORDS 16  /* 1024 bits, one a slot: bit s % 64 of word s / 64 */

#define CTL_UDP_PORT 4791 /* of RoCEv2 */

/*
 * Sizes of the memfd that two processes share: while verbatimd has few processes, and else. Sealed
 * against shrinking and growing.
 */
#define LINK_BYTES_LONG	 (1088u << 10)
#define LINK_BYTES_SHORT (576u << 10)

/*
 * Descriptors: arena memfd and heap memfd (both sealed SHRINK and GROW), wake eventfd; and, only
 * with a wanted_slot, the token of that slot. The order is arena, wake, heap, token.
 */
struct ctl_hello {
	struct ctl_greeting greeting;
	/*
	 * 0: any; else the slot whose token is passed along, or without a token that which the
	 * daemon of VERBATIM_SOCKET_DIR has given to this process
	 */
	uint32_t wanted_slot;
	uint32_t directory; /* a hash of VERBATIM_SOCKET_DIR's device and inode; 0: it is not set */
	char comm[CTL_COMM_BYTES];
};

struct ctl_observe {
	struct ctl_greeting greeting;
};

/*
 * To CM_HELLO: the session's number instead of a slot's, and the token of a new session.
 *
 * Descriptors: the slot's token if a new slot was given, else none. The token is a datagram socket
 * bound to the slot's name. While a process holds it, no other gets the slot, even while no daemon
 * runs. Its holder never reads or writes it.
 */
struct ctl_welcome {
	struct ctl_greeting greeting;
	int32_t status; /* 0, or an errno: the daemon refuses, and hangs up */
	uint32_t slot;	/* 0 for an observer */
	int32_t pid;	/* the daemon's */
};

struct ctl_peer {
	struct ctl_header header;
	uint32_t slot;
};

#define CTL_LINK_FDS 4

/*
 * Of PEER_REPLY with status 0, and of NOTICE_LINK. Descriptors: the peer's arena, the peer's wake
 * eventfd, the link memfd (of either length; the same file for both ends), the peer's heap.
 */
struct ctl_link {
	struct ctl_header header;
	int32_t status; /* 0; ENOENT: no such process of this user; or why the daemon failed */
	uint32_t slot;	/* the peer's */
	int32_t pid;	/* the peer's */
	uint32_t uid;	/* the peer's */
	uint32_t side;	/* the receiver's end; 0: the lower slot's, or a link to itself */
};

struct ctl_death {
	struct ctl_header header;
	uint32_t slot;
	int32_t pid;
};

/* MCAST_ATTACH, MCAST_DETACH, MCAST_MEMBERS and NOTICE_MCAST_CHANGED. */
struct ctl_mcast {
	struct ctl_header header;
	uint8_t mgid[CTL_MGID_BYTES];
};

struct ctl_mcast_reply {
	struct ctl_header header;
	int32_t status; /* 0, ENOENT: detached more often than attached, ENOSPC: too many groups */
};

struct ctl_mcast_members_reply {
	struct ctl_header header;
	uint64_t slots[CTL_BITMAP_WORDS];
};

/*
 * PORT asks for this process's socket of UDP port 4791 of a local address. PORT_KEPT gives a new
 * daemon the descriptor store that the old one left with the process. IPv4 addresses are
 * IPv4-mapped; ifindex counts for IPv6 link-local addresses only.
 */
struct ctl_port {
	struct ctl_header header;
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
};

/*
 * The answer to both. Descriptors come with a PORT's status 0 only: the socket and, from a user's
 * own daemon, the descriptor store: a unix socket whose queue holds all sockets of the address, in
 * their order (event/fd_store.h). The process keeps it as long as it uses the address, and neither
 * reads nor writes it.
 */
struct ctl_port_reply {
	struct ctl_header header;
	/*
	 * 0; EADDRNOTAVAIL: not an address of this host; EADDRINUSE: a process that is no client
	 * has the port; EAGAIN: a process that has not returned to this daemon has it, or a process
	 * that has just ended; EEXIST: the kept sockets are not those that other processes kept; or
	 * why the daemon failed.
	 */
	int32_t status;
	char why[CTL_WHY_BYTES]; /* one sentence, if status is not 0 */
};

struct ctl_list {
	struct ctl_header header;
};

/* One per process, in slot order, then LIST_END (a ctl_list). Descriptor: the arena. */
struct ctl_process {
	struct ctl_header header;
	uint32_t slot;
	int32_t pid;
	uint32_t uid;
	uint32_t reserved;
	int64_t since_ns; /* CLOCK_REALTIME of its HELLO */
	char comm[CTL_COMM_BYTES];
};

#define CTL_DEVICE_BYTES 32 /* the name of a device, as in struct arena_device */
#define CTL_EVENTS	 64 /* kinds of events that there may be */

/* What is counted of a device: struct arena_traffic, and its counters. */
enum ctl_count {
	CTL_SENT_UNICAST,
	CTL_SENT_MULTICAST,
	CTL_SENT_BYTES,
	CTL_RECEIVED_UNICAST,
	CTL_RECEIVED_MULTICAST,
	CTL_RECEIVED_BYTES,
	CTL_EVENT, /* plus enum counter */
	CTL_COUNTS = CTL_EVENT + CTL_EVENTS,
};

struct ctl_counters {
	struct ctl_header header;
	char device[CTL_DEVICE_BYTES];
};

/*
 * The sum over the processes that the observer may see, and those that have ended since the daemon
 * began.
 */
struct ctl_counters_reply {
	struct ctl_header header;
	uint64_t counts[CTL_COUNTS];
};

/* Room and alignment for any of them. */
union ctl_message {
	struct ctl_header header;
	struct ctl_greeting greeting;
	struct ctl_hello hello;
	struct ctl_observe observe;
	struct ctl_welcome welcome;
	struct ctl_peer peer;
	struct ctl_link link;
	struct ctl_death death;
	struct ctl_mcast mcast;
	struct ctl_mcast_reply mcast_reply;
	struct ctl_mcast_members_reply members_reply;
	struct ctl_port port;
	struct ctl_port_reply port_reply;
	struct ctl_list list;
	struct ctl_process process;
	struct ctl_counters counters;
	struct ctl_counters_reply counters_reply;
	struct ctl_cm_hello cm_hello;
	struct ctl_cm_ask cm_ask;
	struct ctl_cm_bind cm_bind;
	struct ctl_cm_request cm_request;
	struct ctl_cm_raise cm_raise;
	struct ctl_cm_reply cm_reply;
	struct ctl_cm_event cm_event;
	struct ctl_cm_listener cm_listener;
};

#endif
