/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pace - how fast a UC or UD QP sends to other hosts.
 *
 * A token bucket. These services have no acknowledgements and so no window: a sender that is too
 * fast overflows the receiver's socket buffer. A QP sends at most a part of that buffer at once
 * (pace_burst), and as much again in each PACE_INTERVAL_NS. A receiver that is not scheduled for a
 * hundred microseconds or two loses nothing, even with the small socket buffers of ordinary users.
 *
 * Pure; its QP's lock guards it.
 */
#ifndef BASE_PACE_H
#define BASE_PACE_H

#include <stdint.h>

#define PACE_BURST_BYTES     (64 * 1024) /* for a buffer that is small, or not known */
#define PACE_BURST_MAX_BYTES (256 * 1024)
#define PACE_BUFFERED(b)     ((b) / 8) /* the part of the receive buffer that one burst may fill */
#define PACE_INTERVAL_NS     50000ull

struct pace {
	uint64_t since_ns; /* when `bytes` was right; 0: never used */
	uint32_t bytes;	   /* that may be sent at once */
};

/* Bytes that may leave at once to a receiver with such a buffer (wire_flow.buffer_bytes). */
uint32_t pace_burst(uint32_t buffer_bytes);

/* How many bytes may leave now; `burst` of pace_burst. */
uint32_t pace_allows(struct pace *pace, uint32_t burst, uint64_t now_ns);

void pace_use(struct pace *pace, uint32_t bytes);

#endif
