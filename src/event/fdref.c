/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/fdref.h"

#include <stdlib.h>
#include <unistd.h>

#include "event/close_pool.h"

struct fdref *fdref_create(int fd)
{
	struct fdref *f = malloc(sizeof(*f));

	if (!f) {
		close(fd);
		return NULL;
	}
	*f = (struct fdref){ .fd = fd, .count = 1 };
	return f;
}

struct fdref *fdref_create_of_client(uid_t uid, int fd)
{
	struct fdref *f = malloc(sizeof(*f));

	if (!f) {
		close_pool_close(uid, fd);
		return NULL;
	}
	*f = (struct fdref){ .fd = fd, .count = 1, .is_of_client = true, .uid = uid };
	return f;
}

struct fdref *fdref_get(struct fdref *f)
{
	f->count++;
	return f;
}

void fdref_put(struct fdref *f)
{
	if (!f || --f->count)
		return;
	if (f->is_of_client)
		close_pool_close(f->uid, f->fd);
	else
		close(f->fd);
	free(f);
}
