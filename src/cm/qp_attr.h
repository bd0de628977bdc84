/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP attributes - the attributes for the moves of an identifier's QP, from its connection.
 *
 * Any thread; asks the device, does not block.
 */
#ifndef CM_QP_ATTR_H
#define CM_QP_ATTR_H

#include <infiniband/verbs.h>

#include "cm/id.h"

#define QP_ATTR_HOP_LIMIT 64 /* of every path that is found */

/* attr->qp_state is the next state. 0 or -errno: -EINVAL the connection is not that far. */
int qp_attr_init(struct id *id, struct ibv_qp_attr *attr, int *mask);

/* The address vector from the identifier's address to `remote`. 0 or -errno. */
int qp_attr_address(struct id *id, const struct ctl_cm_address *remote, struct ibv_ah_attr *out);

/*
 * Makes the identifier's path record, or makes it anew; it has a device. After a request the MTU is
 * that of the request. 0 or -errno.
 */
int qp_attr_make_path(struct id *id);

/* The exponent of the QP's time-out that this end asks for. */
uint8_t qp_attr_ack_timeout(const struct id *id);

#endif
