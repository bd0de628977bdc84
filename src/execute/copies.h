/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies - what a responder's last READs brought when they were executed, so that responses that
 * were lost can be sent again as they were (docs/design/transport.md).
 *
 * In:  the payload of each READ, packet by packet, with the PSNs of its responses.
 * Out: the same bytes, for a request that names a true part of one READ.
 *
 * Original executions alone, and all of them from copies_start on: a READ that is executed anew is
 * newer than what its requester may have of later ones. So the caller drops all copies from its PSN
 * on (copies_drop), and adds none of it.
 *
 * A ring of bytes; the oldest packets go first. A table is guarded by the lock of its QP, which
 * callers hold. Permission is not checked here: the caller checks the key whenever it uses a copy.
 * No call allocates from the heap (base/block_pool.h).
 */
#ifndef EXECUTE_COPIES_H
#define EXECUTE_COPIES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/psn.h"

#define COPIES_BYTES	   (1024 * 1024) /* of a QP */
#define COPIES_PSNS	   1024		 /* of a QP, behind its newest; a power of 2 */
#define COPIES_PROCESS_MAX 64		 /* QPs that have copies at a time */

/* Consecutive packets of one READ. */
struct copied_read {
	psn_t psn, end;
	uint32_t rkey;
	uint32_t bytes; /* each packet has an MTU, but for the last of the READ */
	uint64_t va;
};

struct copies {
	uint32_t mtu;
	uint32_t head, tail; /* oldest and next of `reads` */
	/* the oldest byte, and the next one; a byte is at its number modulo COPIES_BYTES */
	uint64_t from, until;
	struct copied_read reads[COPIES_PSNS]; /* PSNs rise */
	/* aligned: memcpy to elsewhere in a cache line takes longer */
	_Alignas(64) uint8_t bytes[COPIES_BYTES];
};

/* From now on there are copies, unless there is no room (NULL). */
void copies_start(struct copies **copies, uint32_t mtu);

/* No copies. */
void copies_fini(struct copies **copies);

/* Adds packets with PSNs after all others; those at `part.psn` and after it are dropped. */
void copies_add(struct copies *copies, const struct copied_read *part, bool first,
		const uint8_t *payload);

/* Drops those from `psn` on. NULL is allowed. */
void copies_drop(struct copies *copies, psn_t psn);

/* Whether all of this part of one READ is there. NULL: no. `end` is that of `bytes`. */
bool copies_have(const struct copies *copies, const struct copied_read *part);

/* Copies it to `to`; false: it is not there. */
bool copies_get(const struct copies *copies, const struct copied_read *part, uint8_t *to);

void copies_reset_after_fork(void);

/* base/check.h */
void copies_check(const struct copies *copies, uint32_t qpn);

#endif
