/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM space - the port spaces of connection management: which identifier has which port of which
 * address.
 *
 * In:  addresses to bind; destinations of requests.
 * Out: a port of the address, or EADDRINUSE; the listener of a request.
 *
 * RDMA's ports are not those of TCP or UDP: each port space has its own 65535. All users of a
 * daemon share them. An address without a port gets one from the system's range
 * (net.ipv4.ip_local_port_range).
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_SPACE_H
#define CMSERVER_CM_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "ctl/protocol.h"

#define CM_SPACE_BUCKETS 4096

/* Embedded in an identifier. Zeroed but for in_bucket: unbound. */
struct cm_binding {
	struct list in_bucket;
	bool bound;
	bool listening;
	uint16_t space; /* enum ctl_cm_space */
	uint32_t flags; /* CTL_CM_REUSEADDR, CTL_CM_AFONLY */
	struct ctl_cm_address local;
};

struct cm_space {
	struct list buckets[CM_SPACE_BUCKETS];
	uint16_t lowest, highest; /* of the range */
	uint16_t last;
};

void cm_space_init(struct cm_space *s);

/*
 * b->space, flags and local are set; gives a port if there is none. 0, -EADDRINUSE, -EADDRNOTAVAIL.
 */
int cm_space_bind(struct cm_space *s, struct cm_binding *b);
void cm_space_release(struct cm_binding *b);

/* A listener does not share its port, not even with CTL_CM_REUSEADDR. 0 or -EADDRINUSE. */
int cm_space_listen(struct cm_space *s, struct cm_binding *b);

/* The best listener of those that `suits` accepts; NULL: there is none. */
struct cm_binding *cm_space_find(const struct cm_space *s, uint16_t space,
				 const struct ctl_cm_address *local,
				 bool (*suits)(const struct cm_binding *b, const void *arg),
				 const void *arg);

bool cm_address_is_any(const struct ctl_cm_address *a);

#endif
