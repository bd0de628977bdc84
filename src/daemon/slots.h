/*
 * Slots - gives each process a number that no living process has.
 *
 * In:  processes that come, come back, and die.
 * Out: slots 1..CTL_SLOT_MAX, lowest free first; of verbatimd --system some may be skipped
 *      (ports_suit).
 *
 * Each slot has a token: a datagram socket bound to the slot's name (ctl/sockname.h), which the process
 * holds and the daemon does not. The kernel so remembers which slots are in use even when a daemon
 * was killed and the next knows nothing: the name cannot be bound again until the last holder is
 * gone.
 *
 * Of verbatimd --system a user has a share: it gets another slot only while more are free than it has. So one
 * user alone has half of them, a second one half of the rest, and whoever comes next finds room. What counts is
 * the token: a process that ended and left its token to another one still has its slot.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_SLOTS_H
#define DAEMON_SLOTS_H

#include "daemon/client.h"

/*
 * Sets c->slot. *token_fd is the caller's to send and close. 0; -ENOSPC; -EDQUOT: its user has its share;
 * -errno.
 */
int slots_take(struct client *c, int *token_fd);

/*
 * Sets c->slot to the one it had from an earlier daemon. 0; -EADDRINUSE: another client has it;
 * -EPERM: the token is not that slot's; -errno.
 */
int slots_adopt(struct client *c, unsigned slot, int token_fd);

/*
 * Whether processes live that have a slot from an earlier daemon and have not come back. Looks at
 * all names: for failures only.
 */
bool slots_any_away(struct daemon *d);

/* Whether some process has the slot's token. */
bool slots_is_held(struct daemon *d, unsigned slot);

/* c may have no slot. */
void slots_on_death(struct client *c);

#endif
