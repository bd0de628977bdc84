/*
 * Pace - how fast a UC or UD QP sends to other hosts.
 *
 * Nobody acknowledges, so there is no window, and a receive buffer that overflows loses messages. So
 * such a QP sends at most PACE_BURST_BYTES at once, and as many again each PACE_INTERVAL_NS: a receiver
 * that is held up for some hundred microseconds loses nothing, even with the small socket buffers that
 * ordinary users get.
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
