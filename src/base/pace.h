/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pace - how fast a UC or UD QP sends to other hosts.
 *
 * A token bucket. These services have no acknowledgements and so no window: a sender that is too
 * fast overflows the receiver's socket buffer. A QP sends at most a part of that buffer at once
 * (pace_burst), and as much again in each PACE_INTERVAL_NS. A receiver that is not scheduled for a
 * hundred microseconds or two loses nothing, even with the small socket buffers of ordinary users.
 *
 * A CNP says that a receiver, or a router, is slower (roce/congestion.h). It halves what an
 * interval earns (pace_on_mark); each interval that follows earns a little more again.
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
#define PACE_SHARES	     256 /* of a burst, that an interval earns */
#define PACE_SHARES_MIN	     4	 /* of these, after any number of marks */
#define PACE_REGROWTH	     2	 /* of these, for each interval after a mark */

struct pace {
	uint64_t since_ns; /* when `bytes` was right; 0: never used */
	uint32_t bytes;	   /* that may be sent at once */
	uint32_t withheld; /* of PACE_SHARES, at marked_ns */
	uint64_t marked_ns;
};

/* Bytes that may leave at once to a receiver with such a buffer (wire_flow.buffer_bytes). */
uint32_t pace_burst(uint32_t buffer_bytes);

/* How many bytes may leave now; `burst` of pace_burst. */
uint32_t pace_allows(struct pace *pace, uint32_t burst, uint64_t now_ns);

void pace_use(struct pace *pace, uint32_t bytes);

/* A CNP came. Of those of one interval, perhaps from several receivers, the first counts. */
void pace_on_mark(struct pace *pace, uint64_t now_ns);

#endif
