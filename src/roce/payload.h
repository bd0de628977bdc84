/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload - the part of a message that travels in one packet.
 *
 * In:  a send request, a range of its message.
 * Out: pieces of the program's memory in the burst's next packet, or a copy in the burst.
 *
 * The wire reads the pieces with plain loads. So memory that may not be there (on-demand regions)
 * is copied by the kernel first, as is what has too many pieces or pieces of several regions.
 */
#ifndef ROCE_PAYLOAD_H
#define ROCE_PAYLOAD_H

#include "object/qp.h"
#include "roce/burst.h"

enum payload_result {
	PAYLOAD_PLACED,
	PAYLOAD_NO_ROOM, /* send the burst, then again; never with an empty one */
	PAYLOAD_BAD,	 /* *cause tells: LOC_PROT_ERR */
};

enum payload_result payload_place(struct burst *burst, const struct qp *qp, struct wqe *wqe,
				  uint32_t offset, uint32_t bytes, enum cause *cause);

/*
 * How many of these bytes lie behind the payload of the burst's last packet, which is what comes
 * before `offset` in the message, and may be sent in place as that was. 0 tells nothing: see
 * payload_place.
 */
uint32_t payload_behind(const struct burst *burst, const struct qp *qp, const struct wqe *wqe,
			uint32_t offset, uint32_t bytes);

#endif
