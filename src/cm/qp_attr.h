/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP attributes - how the QP of an identifier has to move, from what is known of its connection.
 *
 * Any thread; asks the device, does not block.
 */
#ifndef CM_QP_ATTR_H
#define CM_QP_ATTR_H

#include <infiniband/verbs.h>

#include "cm/id.h"

#define QP_ATTR_HOP_LIMIT 64 /* of every path that is found */

/* attr->qp_state says which move. 0 or -errno: -EINVAL the connection is not that far. */
int qp_attr_init(struct id *id, struct ibv_qp_attr *attr, int *mask);

/* The way from the identifier's address to another. 0 or -errno. */
int qp_attr_address(struct id *id, const struct ctl_cm_address *remote, struct ibv_ah_attr *out);

/* The exponent of the QP's time-out that this end asks for. */
uint8_t qp_attr_ack_timeout(const struct id *id);

#endif
