/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening - the two names that verbatimd listens on: in its directory, and abstract.
 *
 * In:  the names (ctl/sockname.h); sockets that a service manager listens on already.
 * Out: a client for each connection of a user that is served.
 *
 * Owner: the daemon's one thread.
 */
#ifndef VERBATIMD_LISTENING_H
#define VERBATIMD_LISTENING_H

struct daemon;

/*
 * If several daemons start at once, the one that gets the directory's lock, or the abstract name,
 * stays. 0; -EADDRINUSE: another daemon has the name; -errno.
 */
int listening_begin(struct daemon *d);

void listening_end(struct daemon *d);

#endif
