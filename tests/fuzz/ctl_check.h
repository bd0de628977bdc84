/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control check - what must hold of the daemon under fuzz_ctl, whatever its clients do.
 *
 * In:  the daemon, between two turns.
 * Out: abort() where something does not hold.
 */
#ifndef CTL_CHECK_H
#define CTL_CHECK_H

#include <stdbool.h>

struct daemon;
struct host_address;
struct peer;

#define require(holds) check_require((holds), #holds, __FILE__, __LINE__)

void check_require(bool holds, const char *text, const char *file, int line);

/* Lets it work until there is nothing to do, which must come. */
void check_rest(struct daemon *d);

/* Its books agree with each other; those of all connections take a while to look through. */
void check_books(struct daemon *d);
void check_connections(const struct daemon *d);

/* A peer that meddles with none of its channels is told of its events. */
void check_event_fds(struct daemon *d, const struct peer *p);

/* One listens at the address, the other connects, and both end it. */
void check_connection(struct daemon *d, struct peer *passive, struct peer *active,
		      const struct host_address *at);

#endif
