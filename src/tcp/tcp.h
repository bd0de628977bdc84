/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP - a connected TCP socket as the byte stream of an iWARP connection.
 *
 * In:  pieces of memory to send, or to receive into; the kernel copies straight from and to them.
 * Out: bytes of the stream.
 *
 * No state: the descriptor is the caller's. Nothing waits. Any thread; the caller keeps two threads
 * from reading, or writing, one socket at the same time.
 */
#ifndef TCP_TCP_H
#define TCP_TCP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Results of tcp_send and tcp_receive besides a number of bytes. */
#define TCP_WOULD_BLOCK 0  /* send: no room; receive: no bytes now */
#define TCP_LOST	-1 /* reset, or a time-out */
#define TCP_END		-2 /* receive: the peer has closed its direction, and all is read */

/* Which socket a descriptor is: its number alone may be another file's by now. */
struct tcp_identity {
	dev_t device;
	ino_t inode;
};

/* A peer that is gone is noticed after this, with unacknowledged data or without, ms. */
#define TCP_PEER_GONE_MS 30000

/*
 * Sets what an iWARP connection needs: no waiting, no Nagle delay (a request leaves at once), and
 * an end to peers that do not answer (keepalive, TCP_USER_TIMEOUT). 0 or -errno.
 */
int tcp_prepare(int fd);

/* Bytes of a segment of this connection. */
uint32_t tcp_segment_bytes(int fd);

/* The address of the other end, IPv4-mapped or IPv6; zero: it is gone. */
void tcp_peer(int fd, uint8_t address[16]);

/* Many pieces in one call. `more`: another send follows at once, so a short segment waits for it.
 */
ssize_t tcp_send(int fd, const struct iovec *pieces, int count, bool more);

/*
 * Fills the pieces in their order. A piece that is not writable memory is TCP_LOST, with a cause.
 */
ssize_t tcp_receive(int fd, const struct iovec *pieces, int count);

/*
 * Bytes of the connection so far: those that the peer's TCP has acknowledged, and those that have
 * come, read or not. 0: the kernel does not tell.
 */
uint64_t tcp_bytes_moved(int fd);

/* The peer's FIN has come, or its reset, though bytes from before may not have been read yet. */
bool tcp_peer_has_closed(int fd);

/* Sends a FIN after all that was sent; the peer's bytes can still be read. */
void tcp_half_close(int fd);

/*
 * The kernel encrypts (kTLS). It may hold a record that TCP had no room for yet: a FIN would go
 * before that, so all that TCP has must be acknowledged, at two looks that are some time apart. No
 * record may be left open, either (`more`). A connection that is gone has nothing left.
 */
bool tcp_is_tls(int fd);
bool tcp_is_acknowledged(int fd);

/*
 * Reads and drops what is there. True: the peer has closed, or is gone, so that close(2) resets
 * nothing that was sent.
 */
bool tcp_drain(int fd);

/* While the socket is open. */
void tcp_identify(int fd, struct tcp_identity *out);

/*
 * For a fork's handler of the child: closes its copy of the socket, unless `fd` is closed, or
 * another file. Then the connection ends with the parent.
 */
void tcp_close_copy(int fd, const struct tcp_identity *identity);

#endif
