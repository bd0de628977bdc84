/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port open - the port of an address of this host: found, or opened by verbatimd.
 *
 * In:  GIDs of this host that QPs use; verbatimd's answers.
 * Out: open ports, in the table (adapter/port_table.h).
 *
 * A port is opened when the first connection with another host, the first datagram to one, or the
 * first UD QP that may receive (RTR) uses its address. It stays open as long as the process. A UD
 * QP may be addressed by any GID of its device, so it opens the ports of all of them; but not those
 * of the loopback device, which cannot be reached from elsewhere.
 *
 * A failure is reported once and remembered for a second.
 *
 * Any thread. Locks: port_table_lock, inside qp->lock, and not held over calls to verbatimd.
 */
#ifndef ADAPTER_PORT_OPEN_H
#define ADAPTER_PORT_OPEN_H

#include <stdint.h>

#include "ctl/client.h"
#include "object/context.h"
#include "udp/wire.h"

void port_open_init(struct ctl_client *ctl);

/*
 * The port of an address of this host. `device` is the name for messages. Blocks for verbatimd, so
 * no QP's lock may be held. 0, or an errno with a cause: EADDRNOTAVAIL the address is gone,
 * EADDRINUSE another program has the port, or what the system or verbatimd answered.
 */
int port_open(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
	      struct wire_port **port);

/*
 * The same without blocking. EINPROGRESS: the progress thread asks verbatimd, and calls
 * shm_retry_on_peers when it has answered.
 */
int port_open_nowait(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, const char *device,
		     struct wire_port **port);

/*
 * Opens the ports of all addresses of the device, for a UD QP. From now on all ports receive hop
 * limits, for the GRHs. Failures are only reported. If verbatimd does not answer, the remaining
 * ports are opened later.
 */
void port_open_all(struct context *context);

/*
 * Progress thread: sends the questions, without waiting. Returns when to call again,
 * CLOCK_MONOTONIC ns.
 */
#define PORT_OPEN_NEVER UINT64_MAX
uint64_t port_open_ask(uint64_t now_ns);
uint64_t port_open_due_ns(void); /* the same, as it is now */
/* Progress thread: takes over verbatimd's answer. */
void port_open_on_answer(const struct ctl_port_answer *answer);
/* Progress thread: there is a new verbatimd, to which all questions are repeated. */
void port_open_ask_again(void);

void port_open_reset_after_fork(void);

#endif
