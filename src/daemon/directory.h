/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Directory - the directory of the daemon's sockets and of tokens, which may vanish.
 *
 * In:  names that are to be bound.
 * Out: the directory, made anew where one can be: a user's runtime directory goes with the last
 *      session of the user, while services and batch jobs stay, and others clean /tmp.
 *
 * Sockets that were in the directory live on without names. The processes that hold their tokens
 * keep their slots (slots_adopt).
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_DIRECTORY_H
#define DAEMON_DIRECTORY_H

#include <stdint.h>

#include "daemon/daemon.h"

/* Sets d->space, and makes its directory. 0; -EADDRINUSE: another daemon has it; -errno. */
int directory_make(struct daemon *d);

/*
 * Binds a token to the name that name_of gives the number. If the directory has vanished, makes it,
 * or another one, and tries again. 0; -EADDRINUSE: the name is held; -errno.
 */
int directory_bind(struct daemon *d, int fd,
		   void (*name_of)(const struct sockname_space *space, uint32_t number,
				   struct sockname *out),
		   uint32_t number);

#endif
