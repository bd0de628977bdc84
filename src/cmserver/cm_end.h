/*
 * CM end - what an end of a connection says of itself: the words of its program as fields of
 * messages, and the other way round.
 *
 * Pure. What comes from programs and from other hosts is cut down to what fields have room for.
 */
#ifndef CMSERVER_CM_END_H
#define CMSERVER_CM_END_H

#include <stdint.h>

#include "ctl/protocol.h"
#include "ibcm/message.h"

/*
 * A REQ or SIDR_REQ, but for numbers and time-outs. space, qp_type: of the identifier that asks. 0;
 * -EINVAL: more private data than there is room for.
 */
int cm_end_fill_request(struct ibcm_message *m, uint16_t space, enum ctl_cm_qp_type qp_type,
			const struct ctl_cm_request *request);

/* A REP, REJ or SIDR_REP. The same. */
int cm_end_fill_answer(struct ibcm_message *m, enum ibcm_type type,
		       const uint8_t local_gid[CTL_GID_BYTES],
		       const struct ctl_cm_request *request);

/* What the other end says; skip: bytes of the private data that are not its program's. */
void cm_end_read(const struct ibcm_message *m, unsigned skip, struct ctl_cm_end *end);

/* Of the QP that a REQ or SIDR_REQ asks for. 0: of none that there is. */
enum ctl_cm_qp_type cm_end_wanted_type(const struct ibcm_message *m);

#endif
