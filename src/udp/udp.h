/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP - RoCEv2 packets over plain UDP sockets: bursts out (GSO) and in (GRO), ICRC on and off.
 *
 * In:  packets of the transport; datagrams of any host.
 * Out: the transport's packets as datagrams with DF and a correct ICRC, cut by UDP_SEGMENT (GSO)
 *      where the kernel has it; datagrams with a correct ICRC as packets, in order, one by one
 *      again after UDP_GRO.
 *
 * A port is a socket that verbatimd bound to one local address, or one of a multicast group. It
 * only receives. Packets leave through senders (base/source_port.h), each of which sends to one
 * process of each other host. Any thread may call udp_send at any time. One thread at a time
 * receives: a thread that finds the port's receive lock taken returns, and leaves the work to the
 * other.
 *
 * VERBATIM_TEST_LOSS drops a share of the packets that are sent, for tests (loss.h).
 * See docs/design/port.md: source ports, GSO batches.
 */
#ifndef UDP_UDP_H
#define UDP_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "udp/wire.h"

struct arena_traffic;

/*
 * A port on a bound socket, which it takes over. `gid` is the address it is bound to; `ifindex` the
 * interface. Sets UDP_GRO, buffer size, the receipt of TOS and flow label. 0 or -errno.
 */
int udp_open(int fd, const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, struct wire_port **port);

/*
 * From now on arrivals have their hop limit, which is 0 before. Only the GRH of a UD packet needs
 * it, and each control message (IP_RECVTTL) costs the kernel time.
 */
void udp_enable_hop_limits(struct wire_port *port);
void udp_close(struct wire_port *port);

/*
 * From now on packets are counted in this entry, which no other port has meanwhile. Before any is
 * sent or received.
 */
void udp_count_in(struct wire_port *port, struct arena_traffic *traffic);

int udp_fd(const struct wire_port *port);
/* The size of the receive buffer (SO_RCVBUF), as the kernel counts it; bytes. */
uint32_t udp_buffer_bytes(const struct wire_port *port);
const uint8_t *udp_gid(const struct wire_port *port);

/*
 * The sender of packets from this address to the process that has the QP, on any host: the upper
 * bits of the QPN name the process. Opened at the first call; valid as long as the port. Where that
 * is impossible (too many, no descriptor, no port free) the receiving socket sends, without UDP
 * checksums and GSO batches (source_port_share), which is slower, and a cause is reported once.
 * Never NULL.
 *
 * Any thread, no locks; the first call for a process makes some system calls.
 */
struct wire_sender *udp_sender(struct wire_port *port, uint32_t remote_qpn);

/*
 * From now on multicast packets that leave come to members on this host, too. Before any sender is
 * opened.
 */
void udp_loop_multicast(struct wire_port *port);

/* Multicast packets leave by another interface, which has the port's address now. */
void udp_move(struct wire_port *port, uint32_t ifindex);

/* struct roce_env's send, by flow->sender. count <= WIRE_BURST. */
enum wire_result udp_send(const struct wire_flow *flow, const struct wire_packet *packets,
			  unsigned count, unsigned *sent);

/*
 * Bursts leave as GSO batches (UDP_SEGMENT); false: the kernel or the device cannot, so packet by
 * packet.
 */
bool udp_sends_gso(const struct wire_flow *flow);

/*
 * Receives at most some 64 packets, and calls `receive` for each, without locks but the port's own.
 * Returns how many datagrams came; there may be more. 0: none. -EBUSY: another thread is receiving.
 */
int udp_receive(struct wire_port *port, uint64_t now_ns,
		void (*receive)(const struct wire_arrival *arrival));

/* A socket that has joined a multicast group on an interface, with hop limits. 0 or -errno. */
int udp_open_group(const uint8_t group[WIRE_GID_BYTES], uint32_t ifindex, struct wire_port **port);

#endif
