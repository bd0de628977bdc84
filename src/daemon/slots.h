/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slots - gives each process a number that no living process has.
 *
 * In:  processes that connect, return, and die.
 * Out: slots 1..CTL_SLOT_MAX, lowest free first; with verbatimd --system some may be skipped
 *      (ports_suit).
 *
 * Each slot has a token: a datagram socket bound to the slot's name (ctl/sockname.h), which the
 * process holds and the daemon does not. So the kernel remembers which slots are in use, even when
 * a daemon is killed and the next one knows nothing: a name cannot be bound again until its last
 * holder is gone.
 *
 * With verbatimd --system a user has a share of the slots: it gets another one only while more are
 * free than it has. So one user alone gets half of them, a second user half of the rest, and a new
 * user always gets one. The token counts: while any process holds it, the slot is in use.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_SLOTS_H
#define DAEMON_SLOTS_H

#include "daemon/client.h"

/*
 * Whether a process with this ctl_hello.directory may have a slot here. Processes that share a
 * directory have their slots from its daemon. If others had slots of this daemon's choice beside
 * them, one QPN could lead to two processes. 0; -EXDEV: a process that lives has another directory,
 * or one of the two has none; -EOPNOTSUPP: this is the system's daemon, and users have directories
 * of their own.
 */
int slots_admit(struct client *c, uint32_t directory);

/*
 * Sets c->slot. *token_fd is the caller's to send and close. 0; -ENOSPC; -EDQUOT: the user has its
 * share; -errno.
 */
int slots_take(struct client *c, int *token_fd);

/*
 * Sets c->slot to this one, which the daemon of a shared directory has given to the process. As
 * slots_take, and -EAGAIN: it is in use until the end of the process that had it before is seen.
 */
int slots_claim(struct client *c, unsigned slot, int *token_fd);

/*
 * Sets c->slot to the one it had from an earlier daemon, or on an earlier connection. 0; -EAGAIN:
 * that connection is still there, and disconnected now; -EADDRINUSE: another process has the slot;
 * -EPERM: the token is not that slot's; -errno.
 */
int slots_adopt(struct client *c, unsigned slot, int token_fd);

/* Does nothing if c has no slot. */
void slots_on_death(struct client *c);

/* base/check.h: between two turns of the loop. */
void slots_check(const struct daemon *d);

#endif
