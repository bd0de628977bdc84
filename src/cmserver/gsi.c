/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/gsi.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/gid.h"
#include "base/psn.h"
#include "base/source_port.h"
#include "ctl/deadline.h"
#include "daemon/daemon.h"
#include "daemon/ports.h"
#include "ibcm/mad.h"
#include "packet/icrc.h"
#include "packet/packet.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define GSI_QPN	       1
#define GSI_QKEY       0x80010000u
#define HEADER_BYTES   (PACKET_BTH_BYTES + 8) /* with the DETH */
#define PACKET_BYTES   (HEADER_BYTES + MAD_BYTES + ICRC_BYTES)
#define DATAGRAM_BYTES 65536 /* of a GSO batch, at most */
#define PACKETS_A_TURN 64
#define BUFFER_BYTES   (4 << 20) /* for the messages of a thousand connections at once */

struct gsi_port {
	struct loop_deferred_free deferred; /* first */
	struct list in_gsi;
	struct gsi *gsi;
	struct port_group *group;
	struct loop_source on_packet;
	unsigned users;
	psn_t psn;		 /* of the next packet */
	uint16_t identification; /* of the last packet that came: a guess for the next */
	int sender;
	uint16_t sender_number; /* of UDP, host order */
};

void gsi_init(struct gsi *gsi, struct daemon *d,
	      void (*on_message)(struct gsi *gsi, struct gsi_port *port, const uint8_t *remote,
				 const struct ibcm_message *m))
{
	memset(gsi, 0, sizeof(*gsi));
	gsi->daemon = d;
	gsi->on_message = on_message;
	list_init(&gsi->ports);
	icrc_init();
}

const uint8_t *gsi_gid(const struct gsi_port *port)
{
	return port->group->gid;
}

uint32_t gsi_ifindex(const struct gsi_port *port)
{
	return port->group->ifindex;
}

static int socket_of(const struct gsi_port *port)
{
	return port->group->sockets[0]->fd;
}

static bool is_for_gsi(const struct packet *p)
{
	return p->dest_qpn == GSI_QPN && p->qkey == GSI_QKEY && p->src_qpn == GSI_QPN;
}

static void on_bytes(struct gsi_port *port, const union gid_sockaddr *from, const uint8_t *bytes,
		     size_t length)
{
	struct gsi *gsi = port->gsi;
	struct icrc_path path = { .destination_port = CTL_UDP_PORT };
	uint8_t remote[CTL_GID_BYTES];
	struct ibcm_message m;
	struct packet p;

	gid_from_sockaddr(&from->any, remote);
	memcpy(path.source, remote, sizeof(path.source));
	memcpy(path.destination, gsi_gid(port), sizeof(path.destination));
	path.source_port = gid_sockaddr_port(from);
	if (length > PACKET_BYTES + 64) {
		gsi->counters.malformed++;
	} else if (!icrc_check(NULL, &path, bytes, length, &port->identification)) {
		gsi->counters.damaged++;
	} else if (packet_decode(bytes, length - ICRC_BYTES, &p) != PACKET_GOOD ||
		   packet_service(p.opcode) != PACKET_UD ||
		   packet_opcode(p.opcode)->kind != OPERATION_SEND) {
		gsi->counters.malformed++;
	} else if (!is_for_gsi(&p)) {
		gsi->counters.out_of_place++;
	} else if (!mad_decode(p.payload, p.payload_bytes, &m)) {
		gsi->counters.unknown++;
	} else {
		gsi->counters.received++;
		gsi->on_message(gsi, port, remote, &m);
	}
}

/* UDP_GRO's segment size: the length of all packets but the last; `bytes` if there is only one. */
static size_t segment_of(struct msghdr *h, size_t bytes)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		int segment;

		if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO)
			continue;
		memcpy(&segment, CMSG_DATA(c), sizeof(segment));
		if (segment > 0)
			return (size_t)segment;
	}
	return bytes;
}

/*
 * Handles one datagram. Returns how many packets it had, 1 also if it could not be read; 0: there
 * is none.
 */
static int take_datagram(struct gsi_port *port)
{
	static uint8_t bytes[DATAGRAM_BYTES]; /* the daemon has one thread */
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(int))];
	} control;
	union gid_sockaddr from;
	struct iovec iov = { bytes, sizeof(bytes) };
	struct msghdr h = { .msg_name = &from.any,
			    .msg_namelen = sizeof(from),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.bytes,
			    .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(socket_of(port), &h, MSG_DONTWAIT);
	size_t segment, length;
	int packets = 0;

	if (n < 0)
		return errno != EAGAIN;
	segment = segment_of(&h, (size_t)n);
	for (size_t at = 0; at < (size_t)n; at += length) {
		length = (size_t)n - at < segment ? (size_t)n - at : segment;
		if (packets++)
			port->identification++; /* counts through a GSO batch */
		on_bytes(port, &from, bytes + at, length);
	}
	return packets ? packets : 1;
}

static void on_packet(struct loop_source *source, uint32_t events)
{
	struct gsi_port *port = container_of(source, struct gsi_port, on_packet);
	int packets = 0, n = 1;

	if (!port->users)
		return;
	/* The message's handler may drop the last reference to the port. */
	gsi_ref(port);
	for (; n && packets < PACKETS_A_TURN; packets += n)
		n = take_datagram(port);
	gsi_put(port);
}

/* Messages that do not fit are lost, and repeated seconds later. */
static void enlarge(int fd, int forced, int name)
{
	int bytes = BUFFER_BYTES;

	/* Without CAP_NET_ADMIN only up to the system's limit (net.core.rmem_max). */
	if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, name, &bytes, sizeof(bytes));
}

/* Without a socket of its own it sends by socket 0. */
static void share_socket(struct gsi_port *port)
{
	int v4 = IP_PMTUDISC_DO, v6 = IPV6_PMTUDISC_DO;

	port->sender = socket_of(port);
	port->sender_number = CTL_UDP_PORT;
	source_port_share(port->sender);
	/* DF, so that the identification is 0, which the ICRC covers. */
	if (gid_is_v4(gsi_gid(port)))
		setsockopt(port->sender, IPPROTO_IP, IP_MTU_DISCOVER, &v4, sizeof(v4));
	else
		setsockopt(port->sender, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &v6, sizeof(v6));
}

static void open_sender(struct gsi_port *port)
{
	union gid_sockaddr local;
	socklen_t length = gid_to_sockaddr(gsi_gid(port), gsi_ifindex(port), CTL_UDP_PORT, &local);

	port->sender = source_port_open(&local.any, length, &port->sender_number);
	if (port->sender < 0)
		share_socket(port);
	enlarge(socket_of(port), SO_RCVBUFFORCE, SO_RCVBUF);
	enlarge(port->sender, SO_SNDBUFFORCE, SO_SNDBUF);
}

/* A reference to the port that is open. NULL: none is. */
static struct gsi_port *find(struct gsi *gsi, const uint8_t *gid, uint32_t ifindex)
{
	struct list *m;

	list_for_each(m, &gsi->ports) {
		struct gsi_port *port = container_of(m, struct gsi_port, in_gsi);

		if (gsi_ifindex(port) == ifindex && !memcmp(gsi_gid(port), gid, CTL_GID_BYTES))
			return gsi_ref(port);
	}
	return NULL;
}

static struct gsi_failure *find_failure(struct gsi *gsi, const uint8_t *gid, uint32_t ifindex)
{
	for (unsigned i = 0; i < GSI_FAILURES; i++) {
		struct gsi_failure *f = &gsi->failures[i];

		if (f->rc && f->ifindex == ifindex && !memcmp(f->gid, gid, CTL_GID_BYTES))
			return f;
	}
	return NULL;
}

/* rc 0: the port is open. */
static void note(struct gsi *gsi, const uint8_t *gid, uint32_t ifindex, int rc)
{
	struct gsi_failure *f = find_failure(gsi, gid, ifindex);

	if (!f && !rc)
		return;
	if (!f)
		f = &gsi->failures[gsi->next_failure++ % GSI_FAILURES];
	*f = (struct gsi_failure){ .ifindex = ifindex, .rc = rc, .when_ns = deadline_now_ns() };
	memcpy(f->gid, gid, CTL_GID_BYTES);
}

static int open_port(struct gsi *gsi, const uint8_t *gid, uint32_t ifindex, uint64_t begun_by,
		     struct gsi_port **out)
{
	struct gsi_port *port = calloc(1, sizeof(*port));
	int rc;

	if (!port)
		return -ENOMEM;
	rc = ports_use_for_daemon(gsi->daemon, gid, ifindex, begun_by, &port->group);
	if (rc) {
		free(port);
		return rc;
	}
	port->gsi = gsi;
	port->users = 1;
	port->on_packet.on_ready = on_packet;
	list_add_tail(&gsi->ports, &port->in_gsi);
	open_sender(port);
	rc = loop_watch(&gsi->daemon->loop, socket_of(port), EPOLLIN, &port->on_packet);
	if (rc) {
		gsi_put(port);
		return rc;
	}
	*out = port;
	return 0;
}

int gsi_get(struct gsi *gsi, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, uint64_t begun_by,
	    struct gsi_port **out)
{
	return gsi_get_again(gsi, gid, ifindex, begun_by, 0, out);
}

static bool is_recent(const struct gsi_failure *f, int age_ms)
{
	if (f->rc == -EAGAIN && age_ms > GSI_AGAIN_MS)
		age_ms = GSI_AGAIN_MS;
	return deadline_now_ns() - f->when_ns < age_ms * INT64_C(1000000);
}

int gsi_get_again(struct gsi *gsi, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex,
		  uint64_t begun_by, int age_ms, struct gsi_port **out)
{
	const struct gsi_failure *f;
	struct gsi_port *port;
	int rc;

	if (!gid_is_link_local(gid))
		ifindex = 0;
	port = find(gsi, gid, ifindex);
	if (port) {
		*out = port;
		return 0;
	}
	f = find_failure(gsi, gid, ifindex);
	if (f && is_recent(f, age_ms))
		return f->rc;
	rc = open_port(gsi, gid, ifindex, begun_by, out);
	if (rc != -ENOSPC)
		note(gsi, gid, ifindex, rc);
	return rc;
}

struct gsi_port *gsi_ref(struct gsi_port *port)
{
	port->users++;
	return port;
}

void gsi_put(struct gsi_port *port)
{
	if (!port || --port->users)
		return;
	loop_forget(&port->gsi->daemon->loop, socket_of(port));
	list_del(&port->in_gsi);
	if (port->sender != socket_of(port))
		close(port->sender);
	ports_leave_for_daemon(port->gsi->daemon, port->group);
	loop_defer_free(&port->gsi->daemon->loop, &port->deferred);
}

void gsi_send(struct gsi_port *port, const uint8_t remote[CTL_GID_BYTES],
	      const struct ibcm_message *m)
{
	int opcode = packet_find_opcode(PACKET_UD, OPERATION_SEND, true, true, 0);
	struct packet p = {
		.opcode = (uint8_t)opcode,
		.pkey = PACKET_PKEY,
		.dest_qpn = GSI_QPN,
		.src_qpn = GSI_QPN,
		.qkey = GSI_QKEY,
		.psn = port->psn,
	};
	struct icrc_path path = { .source_port = port->sender_number,
				  .destination_port = CTL_UDP_PORT };
	uint8_t bytes[PACKET_HEADER_BYTES + MAD_BYTES + ICRC_BYTES];
	struct iovec piece;
	union gid_sockaddr to;
	socklen_t to_len = gid_to_sockaddr(remote, gsi_ifindex(port), CTL_UDP_PORT, &to);
	unsigned header_bytes = packet_encode(&p, bytes);
	uint32_t icrc;

	port->psn = psn_add(port->psn, 1);
	mad_encode(m, bytes + header_bytes);
	memcpy(path.source, gsi_gid(port), sizeof(path.source));
	memcpy(path.destination, remote, sizeof(path.destination));
	piece = (struct iovec){ bytes + header_bytes, MAD_BYTES };
	icrc = icrc_compute(NULL, &path, 0, bytes, header_bytes, &piece, 1, 0);
	for (unsigned i = 0; i < ICRC_BYTES; i++)
		bytes[header_bytes + MAD_BYTES + i] = (uint8_t)(icrc >> 8 * i);
	if (sendto(port->sender, bytes, header_bytes + MAD_BYTES + ICRC_BYTES,
		   MSG_DONTWAIT | MSG_NOSIGNAL, &to.any, to_len) < 0)
		port->gsi->counters.unsent++;
	else
		port->gsi->counters.sent++;
}
