/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Resources - the QPs and listeners of a device, of all processes that this user may see.
 *
 * In:  the arenas of the processes, whose content is not trusted, and verbatimd's list of listeners
 *      (ctl/observe.h).
 * Out: copies, in the order of slots; numbers are as they are there, in the range of their type.
 *
 * Any thread; no state. Blocks for 2 s at most for each daemon that does not answer. Functions
 * return 0, also if no daemon runs, or -errno.
 */
#ifndef PRELOAD_RESOURCES_H
#define PRELOAD_RESOURCES_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "netdev/interface.h"

struct resource_qp {
	pid_t pid;
	uint32_t qpn;
	uint8_t type, state; /* enum ibv_qp_type (its low byte), ibv_qp_state; may be no such */
	uint32_t dest_qpn, rq_psn, sq_psn;
	uint32_t pd; /* a number within the process */
};

struct resource_listener {
	pid_t pid;	/* 0: not known here */
	uint32_t space; /* enum rdma_port_space */
	bool any;	/* it listens on all devices */
	bool ipv6;
	union ibv_gid address;
	uint16_t port; /* network order */
};

/* Calls `each` for all QPs of the device with this name. */
int resources_qps(const char *device, void (*each)(const struct resource_qp *qp, void *arg),
		  void *arg);

/* How many QPs there are of the device, and in how many contexts it is open. */
int resources_count(const char *device, uint64_t *qps, uint64_t *contexts);

/* Calls `each` for what listens for connections of rdma_cm on an address of the interface or on
 * all. */
int resources_listeners(const struct interface *interface,
			void (*each)(const struct resource_listener *listener, void *arg),
			void *arg);

#endif
