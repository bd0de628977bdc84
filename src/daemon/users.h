/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Users - counts the connections of each user, of any kind.
 *
 * In:  connections that begin and end.
 * Out: whether a user has its share of the daemon's descriptors.
 *
 * With verbatimd --system a user gets another connection only while more descriptors are free than
 * it has connections, as with slots (daemon/slots.h): one that says nothing, or only observes,
 * costs a descriptor, too.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_USERS_H
#define DAEMON_USERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/list.h"

#define USERS_BUCKETS 64

struct user {
	struct list in_bucket;
	uid_t uid;
	unsigned connections; /* at least 1 */
};

struct users {
	struct list buckets[USERS_BUCKETS];
};

void users_init(struct users *users);

/* Counts a connection. NULL: out of memory. */
struct user *users_add(struct users *users, uid_t uid);
void users_drop(struct user *user);

/* fd: the descriptor of the connection that is to be the user's next one. */
bool users_has_share(const struct users *users, uid_t uid, int fd);

#endif
