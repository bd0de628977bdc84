/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket - whole Ethernet frames through an AF_PACKET socket of one network interface.
 *
 * In:  frames to send; filters.
 * Out: frames that passed the filter.
 *
 * Its caller's lock guards it. Nothing blocks.
 */
#ifndef RAW_SOCKET_H
#define RAW_SOCKET_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "object/flow.h"
#include "raw/filter.h"

#define SOCKET_FRAME_MAX 65560 /* an IP packet, its Ethernet header and a VLAN tag */
#define SOCKET_FRAME_MIN 14
#define SOCKET_VLAN	 4 /* bytes of a VLAN tag: room before a received frame */

struct raw_socket {
	int fd;
	uint32_t ifindex;
	struct filter_interface interface;
	bool receives; /* it is bound to a protocol: only the filter drops frames */
};

/* 0 or -errno: -EPERM without CAP_NET_RAW, -ENODEV. Receives nothing yet. */
int socket_open(struct raw_socket *socket, uint32_t ifindex);
void socket_close(struct raw_socket *socket);

/* From now on receives the frames that the BPF program passes: 0 or -errno. */
int socket_filter(struct raw_socket *socket, struct sock_filter *code, unsigned count);

/* Makes the interface receive the flow's addresses (enum flow_wish), or no longer: 0 or -errno. */
int socket_let_in(struct raw_socket *socket, const struct flow *flow, bool on);

enum socket_result {
	SOCKET_SENT,
	SOCKET_LOST,	 /* as on a wire: the interface is down, its queue is full */
	SOCKET_FULL,	 /* try again when it is writable */
	SOCKET_TOO_LONG, /* or too short for a frame */
};

enum socket_result socket_send(struct raw_socket *socket, const void *frame, size_t length);

/* A received frame. */
struct socket_arrival {
	struct flow_frame frame; /* in `buffer`, SOCKET_VLAN bytes after its start */
	uint16_t vlan_type;	 /* EtherType of the tag, if there is one */
	bool outgoing;		 /* a copy of a frame that this host sends */
};

/* False: there is none. `buffer` has SOCKET_VLAN + SOCKET_FRAME_MAX bytes. */
bool socket_receive(struct raw_socket *socket, uint8_t *buffer, struct socket_arrival *arrival);

#endif
