/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload - the part of a message in one packet.
 *
 * In:  a send request, a range of its message.
 * Out: pieces of the program's memory in the burst's next packet, or a copy in the burst.
 *
 * udp_send reads the pieces with plain loads. So the kernel first copies memory that may be missing
 * (on-demand regions); payload with too many pieces, or pieces of several regions, is copied, too.
 */
#ifndef ROCE_PAYLOAD_H
#define ROCE_PAYLOAD_H

#include "object/qp.h"
#include "roce/burst.h"

enum payload_result {
	PAYLOAD_PLACED,
	PAYLOAD_NO_ROOM, /* send the burst, then try again; not with an empty burst */
	PAYLOAD_BAD,	 /* *cause is set: LOC_PROT_ERR */
};

enum payload_result payload_place(struct burst *burst, const struct qp *qp, struct wqe *wqe,
				  uint32_t offset, uint32_t bytes, enum cause *cause);

/*
 * How many of these bytes follow the payload of the burst's last packet in memory, and can be sent
 * in place like that. The last packet ends at `offset` of the message. 0: use payload_place.
 */
uint32_t payload_contiguous(const struct burst *burst, const struct qp *qp, const struct wqe *wqe,
			    uint32_t offset, uint32_t bytes);

#endif
