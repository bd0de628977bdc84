/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path - the way of a QP's work: shared memory or the wire, and the addresses on the wire.
 *
 * A connected QP chooses when it goes to RTR: `shm_path` if its destination is an address of this
 * host, else `roce_path`. A UD QP stays on `shm_path`, which hands datagrams for other hosts
 * to path_send_datagram. The transport delivers what comes for it from the wire.
 * VERBATIM_PATH=wire sends everything over UDP, also between processes of this host; both ends need
 * it.
 *
 * Owner: any thread. Only path_open blocks, while verbatimd opens a port.
 */
#ifndef ADAPTER_PATH_H
#define ADAPTER_PATH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cause.h"
#include "object/context.h"
#include "object/qp.h"
#include "udp/wire.h"

/* Once per adapter: reads VERBATIM_PATH, and makes QPs choose. */
void path_init(void);

/* All goes over UDP. */
bool path_is_forced(void);

/* What goes to this GID stays in shared memory. */
bool path_is_local(const union ibv_gid *gid);

/*
 * Opens the port that path_resolve needs for this address. Without a QP's lock; what fails is
 * reported, and path_resolve says so again.
 */
void path_open(struct context *context, const struct ibv_ah_attr *attr);

/* struct roce_env's resolve. */
int path_resolve(struct context *context, const struct ibv_ah_attr *attr, uint32_t remote_qpn,
		 struct wire_flow *flow);

/* struct shm_env's datagram_to_wire. */
int path_send_datagram(struct qp *qp, struct wqe *wqe, enum cause *cause);

#endif
