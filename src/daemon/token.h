/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Token - proof that a process is the one to which an earlier daemon gave a slot or a session.
 *
 * In:  a socket that a process presents, and the name that the token has.
 * Out: whether the socket is that token.
 *
 * Every process can read the names; only the process that was given a token has it.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_TOKEN_H
#define DAEMON_TOKEN_H

#include <stdbool.h>
#include <sys/types.h>

#include "ctl/sockname.h"

/* A datagram socket that does not block, unbound. -1 and errno. */
int token_make_socket(void);

/* The name of a socket that may be a token. False: it is none. */
bool token_get_name(int fd, struct sockname *out);

/*
 * Whether a process holds the token of this name. fd: of token_make_socket, for as many calls as
 * there are. A holder may have connected its token elsewhere: that does not give it up.
 */
bool token_is_held(int fd, const struct sockname *name);

/* uid: the user of the process. 0; -EPERM: it is not the token; -errno. */
int token_prove(uid_t uid, int token_fd, const struct sockname *name);

#endif
