/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM end - converts a program's parameters of its end of a connection to message fields, and back.
 *
 * Pure. Values from programs and from other hosts are limited to the range of their fields.
 */
#ifndef CMSERVER_CM_END_H
#define CMSERVER_CM_END_H

#include <stdint.h>

#include "ctl/protocol.h"
#include "ibcm/message.h"

/*
 * Fills a REQ or SIDR_REQ, except communication IDs and time-outs. space, qp_type: of the
 * identifier. 0; -EINVAL: more private data than there is room for.
 */
int cm_end_fill_request(struct ibcm_message *m, uint16_t space, enum ctl_cm_qp_type qp_type,
			const struct ctl_cm_request *request);

/* Fills a REP, REJ or SIDR_REP. The same. */
int cm_end_fill_answer(struct ibcm_message *m, enum ibcm_type type,
		       const uint8_t local_gid[CTL_GID_BYTES],
		       const struct ctl_cm_request *request);

/* Reads the other end's parameters. skip: bytes of the private data that are not the program's. */
void cm_end_read(const struct ibcm_message *m, unsigned skip, struct ctl_cm_end *end);

/* The kind of QP that a REQ or SIDR_REQ asks for. 0: there is no such kind. */
enum ctl_cm_qp_type cm_end_wanted_type(const struct ibcm_message *m);

#endif
