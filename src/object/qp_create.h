/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP create - creates and destroys QPs, and further handles of XRC_RECV QPs.
 *
 * In:  attributes, and the objects that the QP uses.
 * Out: QPs in RESET, in the table (qp_table.h). Any thread that holds no QP's lock.
 */
#ifndef OBJECT_QP_CREATE_H
#define OBJECT_QP_CREATE_H

#include "object/qp.h"

struct xrcd;

/*
 * Creates a QP in RESET. Reads the fields of ibv_qp_init_attr in `attr`, and writes the granted cap
 * back. 0, -EINVAL (limits, objects of another context), -EOPNOTSUPP, -ENOMEM; with a cause.
 */
int qp_create(struct context *context, struct pd *pd, struct ibv_qp_init_attr_ex *attr,
	      const struct qp_path *path, struct qp **qp);

/*
 * ibv_open_qp: creates another handle for an XRC_RECV QP of the domain. 0, -EINVAL (there is none),
 * -ENOMEM. Only the handle's struct ibv_qp and `real` are set. qp_destroy of the last handle
 * destroys the QP.
 */
int qp_open(struct context *context, struct xrcd *xrcd, uint32_t qpn, void *qp_context,
	    struct qp **handle);

/*
 * 0, or -EBUSY while the QP is attached to multicast groups or has flows. Removes its completions
 * that were not polled. Waits until fetched events are acknowledged.
 */
int qp_destroy(struct qp *qp);

void qp_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

#endif
