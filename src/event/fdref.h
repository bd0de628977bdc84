/*
 * Descriptor reference - one open descriptor that several queued messages may name.
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
	bool is_foreign; /* a client's: it is for the close pool */
	uid_t uid;	 /* whose, then */
};

/* Takes over fd, also when it fails: NULL if out of memory, and fd is closed. */
struct fdref *fdref_create(int fd);

/* The same for one that a client of this user gave. */
struct fdref *fdref_create_foreign(uid_t uid, int fd);

struct fdref *fdref_get(struct fdref *f);

/* f may be NULL. */
void fdref_put(struct fdref *f);

#endif
