/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/users.h"

#include <stdlib.h>
#include <sys/resource.h>

void users_init(struct users *users)
{
	for (unsigned i = 0; i < USERS_BUCKETS; i++)
		list_init(&users->buckets[i]);
}

static struct user *find(const struct users *users, uid_t uid)
{
	const struct list *bucket = &users->buckets[uid % USERS_BUCKETS];
	struct list *m;

	list_for_each(m, bucket) {
		struct user *user = container_of(m, struct user, in_bucket);

		if (user->uid == uid)
			return user;
	}
	return NULL;
}

struct user *users_add(struct users *users, uid_t uid)
{
	struct user *user = find(users, uid);

	if (!user) {
		user = malloc(sizeof(*user));
		if (!user)
			return NULL;
		*user = (struct user){ .uid = uid };
		list_add_tail(&users->buckets[uid % USERS_BUCKETS], &user->in_bucket);
	}
	user->connections++;
	return user;
}

void users_drop(struct user *user)
{
	if (--user->connections)
		return;
	list_del(&user->in_bucket);
	free(user);
}

bool users_has_share(const struct users *users, uid_t uid, int fd)
{
	const struct user *user = find(users, uid);
	struct rlimit limit;

	/* The kernel gives the lowest number that is free: as many descriptors are in use at least.
	 */
	return user && !getrlimit(RLIMIT_NOFILE, &limit) &&
	       user->connections + (rlim_t)fd >= limit.rlim_cur;
}
