/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GSI - QP 1 of this host: MADs of connection management, in UD packets.
 *
 * In:  messages for other hosts; packets for QP 1 at the addresses in use.
 * Out: packets of these messages, messages of these packets. Other packets are dropped and counted.
 *
 * It receives by socket 0 of an address's port group (daemon/port_group.h), where GRO merges
 * packets, and sends from a source port of its own (base/source_port.h). A packet that the socket
 * refuses counts as lost: the protocol repeats it.
 *
 * Owner: the daemon's one thread. Never blocks.
 */
#ifndef CMSERVER_GSI_H
#define CMSERVER_GSI_H

#include <stdint.h>

#include "base/list.h"
#include "ctl/protocol.h"
#include "event/loop.h"
#include "ibcm/message.h"

struct daemon;
struct gsi_port;

struct gsi_counters {
	uint64_t sent, unsent, received;
	uint64_t damaged;      /* wrong ICRC */
	uint64_t malformed;    /* no UD SEND, or none with a MAD */
	uint64_t out_of_place; /* not for QP 1 (merged by GRO), or wrong Q_Key */
	uint64_t unknown;      /* a MAD of an unknown kind */
};

#define GSI_AGAIN_MS 90
#define GSI_FAILURES 64 /* of the last ones; older ones are tried again */

/* An address whose port could not be opened. */
struct gsi_failure {
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
	int rc; /* 0: none */
	int64_t when_ns;
};

struct gsi {
	struct daemon *daemon;
	struct list ports;
	struct gsi_failure failures[GSI_FAILURES];
	unsigned next_failure;
	struct gsi_counters counters;
	/* remote: the GID of the sender. */
	void (*on_message)(struct gsi *gsi, struct gsi_port *port, const uint8_t *remote,
			   const struct ibcm_message *m);
};

void gsi_init(struct gsi *gsi, struct daemon *d,
	      void (*on_message)(struct gsi *gsi, struct gsi_port *port, const uint8_t *remote,
				 const struct ibcm_message *m));

/*
 * The port of a local address, opened if it is not. begun_by: uid + 1 of the user for whom it is
 * opened, or 0: for nobody alone. 0; -EADDRINUSE: another program has it; -EADDRNOTAVAIL: no
 * address of this host; -ENOSPC: the user has its share; -errno.
 */
int gsi_get(struct gsi *gsi, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, uint64_t begun_by,
	    struct gsi_port **out);
/*
 * The same for those who try from time to time. An attempt takes a millisecond or two: what failed
 * for the address in the last age_ms (-EAGAIN: GSI_AGAIN_MS) is not tried again, and gives the same
 * error; but for -ENOSPC, which is one user's, and is found at once.
 */
int gsi_get_again(struct gsi *gsi, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex,
		  uint64_t begun_by, int age_ms, struct gsi_port **out);
struct gsi_port *gsi_ref(struct gsi_port *port);

/* Closes the port with the last reference. NULL is allowed. */
void gsi_put(struct gsi_port *port);

const uint8_t *gsi_gid(const struct gsi_port *port);
uint32_t gsi_ifindex(const struct gsi_port *port);

void gsi_send(struct gsi_port *port, const uint8_t remote[CTL_GID_BYTES],
	      const struct ibcm_message *m);

#endif
