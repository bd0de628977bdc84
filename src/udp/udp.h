/*
 * UDP - the wire over a plain UDP socket: bursts out and in, ICRC on and off.
 *
 * In:  packets of the transport; datagrams of anybody.
 * Out: the same as datagrams with DF and a correct ICRC, with UDP_SEGMENT where the kernel has it;
 *      packets with a correct ICRC to the receiver, in order, with UDP_GRO undone.
 *
 * A port is a socket that verbatimd bound to one local address, or one of a multicast group. It
 * receives; what leaves goes through senders (base/source_port.h), each for the packets to one process
 * of each other host. udp_send may be called by any thread at any time; udp_receive by one thread at a
 * time (the port's receive lock is only tried: who finds it taken leaves the work to the other).
 *
 * VERBATIM_TEST_LOSS=RATE[,SEED] drops that share (0..1) of the packets that are sent: for tests.
 */
#ifndef UDP_UDP_H
#define UDP_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "udp/wire.h"

/* Counted since the port was opened; relaxed, for `verbatim show` and benchmarks. */
struct udp_counters {
	uint64_t sent_packets, sent_calls;
	uint64_t received_packets, received_calls;
	uint64_t damaged; /* ICRC wrong or shorter than a packet */
	uint64_t dropped_by_test;
};

/*
 * A port on a bound socket, which it takes over. `gid` is the address it is bound to; `ifindex` the
 * interface. Sets UDP_GRO, buffer size, the receipt of TOS and flow label. 0 or -errno.
 */
int udp_open(int fd, const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, struct wire_port **port);

/*
 * From now on arrivals have their hop limit, too, which is 0 before: only the GRH of a datagram has it,
 * and the kernel takes its time for each field that it tells.
 */
void udp_tell_hops(struct wire_port *port);
void udp_close(struct wire_port *port);

int udp_fd(const struct wire_port *port);
/* What the socket holds of what was received, as the kernel counts it; bytes. */
uint32_t udp_buffer_bytes(const struct wire_port *port);
const uint8_t *udp_gid(const struct wire_port *port);
void udp_counters(const struct wire_port *port, struct udp_counters *out);

/*
 * The sender of packets from this address to the process that has the QP, on whatever host: the upper
 * bits of the QPN name the process. Opened when it is first asked for; valid as long as the port. Where
 * that is impossible (too many, no descriptor, no port free) the receiving socket sends, without UDP
 * checksums and GSO batches (source_port_share), which is slower, and a cause is reported once. Never NULL.
 *
 * Any thread, no locks; the first call for a process makes some system calls.
 */
struct wire_sender *udp_sender(struct wire_port *port, uint32_t remote_qpn);

/* From now on multicast packets that leave come to members on this host, too. Before any sender is opened. */
void udp_loop_multicast(struct wire_port *port);

/* struct roce_env's send, by flow->sender. count <= WIRE_BURST. */
enum wire_result udp_send(const struct wire_flow *flow, const struct wire_packet *packets,
			  unsigned count, unsigned *sent);

/* Bursts leave as GSO batches (UDP_SEGMENT), as far as is known; or else packet by packet. */
bool udp_sends_gso(const struct wire_flow *flow);

/*
 * Takes what is there, at most some 64 packets, and calls `receive` for each, without locks but the
 * port's own. Returns how many datagrams came, and there may be more; -EBUSY: another thread is at
 * it; 0: none.
 */
int udp_receive(struct wire_port *port, uint64_t now_ns,
		void (*receive)(const struct wire_arrival *arrival));

/* A socket for a multicast group on an interface, joined, that tells hop limits. 0 or -errno. */
int udp_open_group(const uint8_t group[WIRE_GID_BYTES], uint32_t ifindex, struct wire_port **port);

#endif
