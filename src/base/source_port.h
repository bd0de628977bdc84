/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Source port - a UDP socket that only sends, from a port that no other socket of its address has.
 *
 * In:  an address of this host.
 * Out: a socket bound to it and to a port in 49152..65535 (IBA annex A17.3.2), chosen at random, so
 *      that switches and network cards spread the flows of a host over their paths and queues.
 *
 * The receiver's kernel merges packets with the same addresses and ports (GRO) and hands all of
 * them to the process that the first packet is for. So a socket carries the packets of one process
 * to one other process, and is never shared with SO_REUSEPORT. docs/design/port.md explains it in
 * full.
 *
 * The socket is never connected, and sets DF, so that its IPv4 identifications are known
 * (packet/icrc.h). It receives nothing, and ICMP errors of its packets fail none of its calls.
 *
 * Any thread, no locks, never blocks.
 */
#ifndef BASE_SOURCE_PORT_H
#define BASE_SOURCE_PORT_H

#include <stdint.h>
#include <sys/socket.h>

#define SOURCE_PORT_MIN 49152
#define SOURCE_PORT_MAX 65535

/*
 * `address` is IPv4 or IPv6; its port is ignored. Ports in net.ipv4.ip_local_reserved_ports are not
 * taken. The descriptor (close-on-exec, not blocking), or -errno: -EADDRINUSE none of the ports
 * that were tried is free, -EADDRNOTAVAIL, -EMFILE, ...
 */
int source_port_open(const struct sockaddr *address, socklen_t length, uint16_t *port);

/*
 * Lets the socket send to several processes: its packets have no UDP checksum from now on (IBA
 * annex A17.3.2 allows that; the ICRC covers them), and GRO merges no such packets. So it may send
 * no GSO batches (UDP_SEGMENT) any more. 0 or -errno.
 */
int source_port_share(int fd);

/* From now on the socket receives nothing. 0 or -errno. */
int source_port_drop_received(int fd);

/* Lets the socket receive IPv6 packets without UDP checksum, as adapters and rxe send them. */
void source_port_accept_unchecked(int fd);

#endif
