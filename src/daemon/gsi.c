#include "daemon/gsi.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "daemon/address.h"
#include "daemon/daemon.h"
#include "daemon/ports.h"
#include "ibcm/mad.h"
#include "packet/icrc.h"
#include "packet/packet.h"

#define GSI_QPN	       1
#define GSI_QKEY       0x80010000u
#define HEADER_BYTES   (PACKET_BTH_BYTES + 8) /* with the DETH */
#define PACKET_BYTES   (HEADER_BYTES + MAD_BYTES + ICRC_BYTES)
#define PACKETS_A_TURN 64
#define BUFFER_BYTES   (4 << 20) /* for what a thousand connections say at once */

struct gsi_port {
	struct loop_corpse corpse; /* first */
	struct list in_gsi;
	struct gsi *gsi;
	struct port_group *group;
	struct loop_source on_packet;
	unsigned users;
	uint32_t psn;
	uint16_t identification; /* of the last packet that came: a guess for the next */
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

static void on_bytes(struct gsi_port *port, const union address *from, const uint8_t *bytes,
		     size_t length)
{
	struct gsi *gsi = port->gsi;
	struct icrc_path path = { .destination_port = CTL_UDP_PORT };
	uint8_t remote[CTL_GID_BYTES];
	struct ibcm_message m;
	struct packet p;

	address_to_gid(from, remote);
	memcpy(path.source, remote, sizeof(path.source));
	memcpy(path.destination, gsi_gid(port), sizeof(path.destination));
	path.source_port = address_port(from);
	if (!icrc_check(NULL, &path, bytes, length, &port->identification)) {
		gsi->counters.damaged++;
	} else if (packet_decode(bytes, length - ICRC_BYTES, &p) != PACKET_GOOD ||
		   packet_service(p.opcode) != PACKET_UD ||
		   packet_opcode(p.opcode)->kind != PACKET_SEND) {
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

static void on_packet(struct loop_source *source, uint32_t events)
{
	struct gsi_port *port = container_of(source, struct gsi_port, on_packet);

	if (!port->users)
		return;
	/* What a message leads to may give back the last use of the port. */
	gsi_ref(port);
	for (int i = 0; i < PACKETS_A_TURN; i++) {
		uint8_t bytes[PACKET_BYTES + 64];
		union address from;
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(socket_of(port), bytes, sizeof(bytes),
				     MSG_DONTWAIT | MSG_TRUNC, &from.any, &from_len);

		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			continue;
		if ((size_t)n > sizeof(bytes))
			port->gsi->counters.malformed++;
		else
			on_bytes(port, &from, bytes, (size_t)n);
	}
	gsi_put(port);
}

/* Less than that means that what comes beyond is lost, and said again seconds later. */
static void enlarge(int fd, int forced, int name)
{
	int bytes = BUFFER_BYTES;

	/* Without the right to exceed it, as far as the system's limit goes (net.core.rmem_max). */
	if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, name, &bytes, sizeof(bytes));
}

static void set_options(const struct gsi_port *port)
{
	int v4 = IP_PMTUDISC_DO, v6 = IPV6_PMTUDISC_DO;

	enlarge(socket_of(port), SO_RCVBUFFORCE, SO_RCVBUF);
	enlarge(socket_of(port), SO_SNDBUFFORCE, SO_SNDBUF);
	/* DF, so that the identification is 0, which the ICRC covers. */
	if (address_is_v4(gsi_gid(port)))
		setsockopt(socket_of(port), IPPROTO_IP, IP_MTU_DISCOVER, &v4, sizeof(v4));
	else
		setsockopt(socket_of(port), IPPROTO_IPV6, IPV6_MTU_DISCOVER, &v6, sizeof(v6));
}

int gsi_get(struct gsi *gsi, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex,
	    struct gsi_port **out)
{
	struct gsi_port *port;
	int rc;

	if (!address_is_link_local(gid))
		ifindex = 0;
	list_for_each_safe(m, &gsi->ports) {
		port = container_of(m, struct gsi_port, in_gsi);
		if (gsi_ifindex(port) == ifindex && !memcmp(gsi_gid(port), gid, CTL_GID_BYTES)) {
			*out = gsi_ref(port);
			return 0;
		}
	}
	port = calloc(1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	rc = ports_use_for_daemon(gsi->daemon, gid, ifindex, &port->group);
	if (rc) {
		free(port);
		return rc;
	}
	port->gsi = gsi;
	port->users = 1;
	port->on_packet.on_ready = on_packet;
	list_append(&gsi->ports, &port->in_gsi);
	set_options(port);
	rc = loop_watch(&gsi->daemon->loop, socket_of(port), EPOLLIN, &port->on_packet);
	if (rc) {
		gsi_put(port);
		return rc;
	}
	*out = port;
	return 0;
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
	list_remove(&port->in_gsi);
	ports_leave_for_daemon(port->gsi->daemon, port->group);
	loop_bury(&port->gsi->daemon->loop, &port->corpse);
}

void gsi_send(struct gsi_port *port, const uint8_t remote[CTL_GID_BYTES],
	      const struct ibcm_message *m)
{
	int opcode = packet_find_opcode(PACKET_UD, PACKET_SEND, true, true, 0);
	struct packet p = {
		.opcode = (uint8_t)opcode,
		.pkey = PACKET_PKEY,
		.dest_qpn = GSI_QPN,
		.src_qpn = GSI_QPN,
		.qkey = GSI_QKEY,
		.psn = port->psn++ & PACKET_PSN_MASK,
	};
	struct icrc_path path = { .source_port = CTL_UDP_PORT, .destination_port = CTL_UDP_PORT };
	uint8_t bytes[PACKET_HEADER_BYTES + MAD_BYTES + ICRC_BYTES];
	struct iovec piece;
	union address to;
	socklen_t to_len = address_make(remote, gsi_ifindex(port), &to);
	unsigned header_bytes = packet_encode(&p, bytes);
	uint32_t icrc;

	mad_encode(m, bytes + header_bytes);
	memcpy(path.source, gsi_gid(port), sizeof(path.source));
	memcpy(path.destination, remote, sizeof(path.destination));
	piece = (struct iovec){ bytes + header_bytes, MAD_BYTES };
	icrc = icrc_compute(NULL, &path, 0, bytes, header_bytes, &piece, 1, 0);
	for (unsigned i = 0; i < ICRC_BYTES; i++)
		bytes[header_bytes + MAD_BYTES + i] = (uint8_t)(icrc >> 8 * i);
	if (sendto(socket_of(port), bytes, header_bytes + MAD_BYTES + ICRC_BYTES,
		   MSG_DONTWAIT | MSG_NOSIGNAL, &to.any, to_len) < 0)
		port->gsi->counters.unsent++;
	else
		port->gsi->counters.sent++;
}
