/*
 * Descriptor reference - one open descriptor that several queued messages may name.
 *
 * Owner: the daemon's one thread. Closed with the last reference.
 */
#ifndef DAEMON_FDREF_H
#define DAEMON_FDREF_H

struct fdref {
	int fd;
	unsigned count;
};

/* Takes over fd, also when it fails: NULL if out of memory, and fd is closed. */
struct fdref *fdref_create(int fd);

struct fdref *fdref_get(struct fdref *f);

/* f may be NULL. */
void fdref_put(struct fdref *f);

#endif
