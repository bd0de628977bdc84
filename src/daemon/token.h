/*
 * Token - proof that a process is the one that an earlier daemon gave something to.
 *
 * In:  a socket that a process says it was given, and the name that such a socket has.
 * Out: whether it is that one.
 *
 * Names can be read by everybody, tokens are had by whom they were given to.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_TOKEN_H
#define DAEMON_TOKEN_H

#include <sys/types.h>

#include "ctl/sockname.h"

/* A datagram socket that does not block, unbound. -1 and errno. */
int token_make_socket(void);

/* uid: whose process it is. 0; -EPERM: it is not the token; -errno. */
int token_prove(uid_t uid, int token_fd, const struct sockname *name);

#endif
