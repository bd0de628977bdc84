/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Window - the congestion window (cwnd): how many packets of a QP may be in flight.
 *
 * In:  acknowledgements, losses, congestion marks. Out: a number of packets.
 *
 * Slow start, additive increase, multiplicative decrease. It starts and ends low enough that the
 * receive buffer of an unprivileged socket (208 KiB, in which the kernel counts a packet as more
 * than its bytes) holds a full window, so that one connection alone does not lose packets there.
 * Where sockets hold more it may grow further: a receiver that takes a window, then acknowledges
 * it, should not find its socket empty until the next packets come. But a loss costs what is on the
 * way behind it, so it grows no further than that needs where a round trip is some 100 us.
 *
 * Pure; its QP's lock guards it.
 */
#ifndef ROCE_WINDOW_H
#define ROCE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define WINDOW_MIN	    2 /* packets; a probe goes down to 1 */
#define WINDOW_START_BYTES  (64 * 1024)
#define WINDOW_SMALL_BYTES  (256 * 1024) /* its highest, for a buffer that is small or not known */
#define WINDOW_MAX_BYTES    (512 * 1024) /* its highest, if that is no more than ... */
#define WINDOW_BUFFERED(b)  ((b) / 4)	 /* ... this much of the buffer */
#define WINDOW_PACKET_EXTRA 512		 /* what a packet costs besides its payload, in bytes */
#define WINDOW_GROWTH	    2 /* packets for each window that was acknowledged, after slow start */
/*
 * What is left of the window after a loss, and after a congestion mark. With this growth a random
 * loss of 1 in n packets leaves some 4 * sqrt(n) of them: 40 at 1 %.
 */
#define WINDOW_AFTER_LOSS(size) ((size)*7 / 8)
#define WINDOW_AFTER_MARK(size) ((size) / 2)

struct window {
	uint32_t size; /* packets, 1 .. max */
	uint32_t max;
	uint32_t threshold; /* below it: slow start */
	uint32_t counted;   /* acknowledged since the last additive increase */
	bool reduced;	    /* until reduced_psn is acknowledged: once is enough for a window */
	uint32_t reduced_psn;
	uint32_t before_probe, threshold_before_probe;
};

/* `buffer_bytes`: what the other end's socket holds, or 0. */
void window_start(struct window *window, uint32_t mtu, uint32_t buffer_bytes);

/* `packets` were acknowledged, up to `una`; the window was the limit if `limited`. */
void window_on_ack(struct window *window, uint32_t packets, uint32_t una, bool limited);

/* A packet was lost, or marked, when `next` was the next PSN: the window shrinks once for that. */
void window_on_loss(struct window *window, uint32_t next);
void window_on_mark(struct window *window, uint32_t next);

/* Retransmission timeout: the window shrinks to one packet. */
void window_on_probe(struct window *window);

/*
 * The timeout was spurious, as the acknowledgement was only late: the window is what it was before.
 */
void window_undo(struct window *window);

/* base/check.h */
void window_check(const struct window *window);

#endif
