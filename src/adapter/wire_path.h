/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wire path - the way to another host: its port, its addresses and the fields of its headers.
 *
 * In:  address handles and attributes of QPs.
 * Out: a flow (udp/wire.h) for the transport; datagrams, to the transport.
 *
 * Any thread. Only wire_path_open blocks, while verbatimd opens a port.
 */
#ifndef ADAPTER_WIRE_PATH_H
#define ADAPTER_WIRE_PATH_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/cause.h"
#include "object/context.h"
#include "object/qp.h"
#include "udp/wire.h"

/*
 * Opens the port that wire_path_resolve needs for this address. No QP's lock may be held. A failure
 * is reported, and wire_path_resolve fails likewise.
 */
void wire_path_open(struct context *context, const struct ibv_ah_attr *attr);

/* struct roce_env's resolve. */
int wire_path_resolve(struct context *context, const struct ibv_ah_attr *attr, uint32_t remote_qpn,
		      struct wire_flow *flow);

/* struct roce_env's answer. */
void wire_path_answer(const struct wire_flow *arrival, uint32_t remote_qpn, struct wire_flow *flow);

/* struct shm_env's datagrams_to_wire. */
int wire_path_send_datagrams(struct qp *qp, unsigned most, unsigned *sent, enum cause *cause);

#endif
