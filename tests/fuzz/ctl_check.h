/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control check - invariants of the daemon under fuzz_ctl, whatever its clients do.
 *
 * In:  the daemon, between two turns.
 * Out: abort() if an invariant is broken.
 */
#ifndef CTL_CHECK_H
#define CTL_CHECK_H

#include <stdbool.h>

struct daemon;
struct host_address;
struct peer;

#define require(holds) check_require((holds), #holds, __FILE__, __LINE__)

void check_require(bool holds, const char *text, const char *file, int line);

/* Lets the daemon work until it is idle, which must happen. */
void check_rest(struct daemon *d);

/* Its tables agree with each other. Checking all connections takes a while. */
void check_books(struct daemon *d);
void check_connections(const struct daemon *d);

/* The channel descriptors of a peer that meddles with none are readable while it has events. */
void check_event_fds(struct daemon *d, const struct peer *p);

/* One peer listens at the address, the other connects, and both disconnect. */
void check_connection(struct daemon *d, struct peer *passive, struct peer *active,
		      const struct host_address *at);

#endif
