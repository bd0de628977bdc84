/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pace - how fast a UC or UD QP sends to other hosts.
 *
 * A token bucket. These services have no acknowledgements and so no window: a sender that is too
 * fast overflows the receiver's socket buffer. A QP sends at most PACE_BURST_BYTES at once, and as
 * many again in each PACE_INTERVAL_NS. A receiver that is not scheduled for some hundred
 * microseconds loses nothing, even with the small socket buffers of ordinary users.
 *
 * Pure; its QP's lock guards it.
 */
#ifndef BASE_PACE_H
#define BASE_PACE_H

#include <stdint.h>

#define PACE_BURST_BYTES (64 * 1024)
#define PACE_INTERVAL_NS 100000ull

struct pace {
	uint64_t since_ns; /* when `bytes` was right; 0: never used */
	uint32_t bytes;	   /* that may be sent at once */
};

/* How many packets of `packet_bytes` may leave now. */
uint32_t pace_allows(struct pace *pace, uint32_t packet_bytes, uint64_t now_ns);

void pace_use(struct pace *pace, uint32_t bytes);

#endif
