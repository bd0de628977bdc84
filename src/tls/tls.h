/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS - encrypts the TCP connection of an iWARP connection before MPA's start-up: TLS 1.3 with a
 * key that both ends have, by the kernel (kTLS).
 *
 * In:  VERBATIM_IWARP_TLS, the path of a file of one line, NAME:HEXADECIMAL KEY, as psktool(1) of
 *      GnuTLS makes it; both are read once. A connected TCP socket that does not block.
 * Out: the same socket, whose bytes the kernel encrypts, decrypts and checks from then on.
 *
 * GnuTLS makes the handshake (its library is loaded when the first connection needs it); it then
 * gives the kernel the keys of both directions, so that sendmsg(2) and recvmsg(2) of the QP's bytes
 * go on as they are.
 *
 * Any thread; a handshake is one thread's at a time. Nothing waits for the peer.
 */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include <stdbool.h>
#include <stdint.h>

struct tls; /* a handshake under way */

/* VERBATIM_IWARP_TLS is set; an empty value is one that tls_check refuses. */
bool tls_is_on(void);

#define TLS_WHY_BYTES 512

/*
 * Whether a connection can be encrypted, before there is one. 0, or -errno with a sentence:
 * -EOPNOTSUPP: the kernel has no kTLS, or there is no GnuTLS; -EACCES, -ENOENT, -EINVAL...: the
 * file cannot be read, is another user's or open to others, or is none of this format. tls_begin is
 * for who has had a 0.
 */
int tls_check(char why[TLS_WHY_BYTES]);

/* The handshake of a client, or of a server. NULL: no memory; or a cause says why. */
struct tls *tls_begin(int fd, bool client);

/*
 * Goes on, as far as there are bytes and room. 0: the socket is encrypted; EPOLLIN or EPOLLOUT:
 * what it waits for; -EPROTO, with a cause: the ends have not the same key, or the peer speaks no
 * TLS. The handshake is over unless it waits, and freed by tls_end.
 */
int tls_go_on(struct tls *tls);
void tls_end(struct tls *tls); /* NULL: nothing */

/* A handler of a fork. */
void tls_after_fork_in_child(void);

#endif
