/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptor reference - counts the references to a descriptor, like those of queued messages.
 *
 * Owner: the daemon's one thread. Closed with the last reference.
 */
#ifndef EVENT_FDREF_H
#define EVENT_FDREF_H

#include <stdbool.h>
#include <sys/types.h>

struct fdref {
	int fd;
	unsigned count;
	bool is_of_client; /* the close pool closes it */
	uid_t uid;	   /* of that client */
};

/* Takes over fd. NULL: out of memory; fd is closed. */
struct fdref *fdref_create(int fd);

/* The same for a descriptor that a client of this user gave. */
struct fdref *fdref_create_of_client(uid_t uid, int fd);

struct fdref *fdref_get(struct fdref *f);

/* f may be NULL. */
void fdref_put(struct fdref *f);

#endif
