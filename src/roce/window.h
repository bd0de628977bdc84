/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Window - the congestion window (cwnd): how many packets of a QP may be in flight.
 *
 * In:  acknowledgements, losses, congestion marks, round trips.
 * Out: a number of packets.
 *
 * Slow start, additive increase, multiplicative decrease. Its first and its highest value are low
 * enough that the receive buffer of an unprivileged socket (208 KiB, in which the kernel counts a
 * packet as more than its bytes) holds a full window, so that one connection alone loses no packets
 * there. With larger buffers it may grow further: a receiver that takes a window, then acknowledges
 * it, should not find its socket empty until the next packets come. But a loss costs all packets in
 * flight after it, so the window grows no further than the path needs: WINDOW_MAX_BYTES for round
 * trips of up to WINDOW_TRIP_NS, and as many times more as the shortest one measured is longer, up
 * to a part of the receive buffer.
 *
 * Pure; its QP's lock guards it.
 */
#ifndef ROCE_WINDOW_H
#define ROCE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/psn.h"
#include "udp/wire.h"

#define WINDOW_MIN	   2 /* packets; a probe goes down to 1 */
#define WINDOW_START_BYTES (64 * 1024)
#define WINDOW_SMALL_BYTES (256 * 1024) /* maximum, for a buffer that is small or not known */
#define WINDOW_MAX_BYTES   (512 * 1024) /* maximum, if WINDOW_BUFFERED is not less, ... */
#define WINDOW_TRIP_NS	   100000ull	/* ... of a round trip up to this one */
#define WINDOW_MOST_BYTES  (8 << 20)	/* maximum, of any */
#define WINDOW_BUFFERED(b) ((b) / 4)	/* the part of the buffer for one window */
#define WINDOW_GROWTH	   4 /* packets for each window that was acknowledged, after slow start */
/*
 * The window after a loss, and after a congestion mark. With this growth a random loss of 1 in n
 * packets leaves a window of some 6 * sqrt(n) packets: 60 at 1 %.
 *
 * Where the loss of a packet costs that packet and no others (roce/repair.h), it takes one off the
 * window. So the window stops growing where each window has WINDOW_GROWTH such losses: at 400
 * packets for 1 %. Losses because of congestion come in bursts, which count as above at most; where
 * flows share them out one by one, each flow has more of them than it grows by, and shrinks.
 */
#define WINDOW_AFTER_LOSS(size) ((size)*7 / 8)
#define WINDOW_AFTER_MARK(size) ((size) / 2)

struct window {
	uint32_t size;	    /* packets, 1 .. max */
	uint32_t max;	    /* max_short .. most, by the round trip */
	uint32_t max_short; /* of a short one */
	uint32_t most;	    /* by the buffer */
	uint32_t threshold; /* below it: slow start */
	uint32_t counted;   /* acknowledged since the last additive increase */
	bool reduced;	    /* until reduced_psn is acknowledged: only once a window */
	psn_t reduced_psn;
	uint32_t before_probe, threshold_before_probe;
};

/* `buffer_bytes`: the other end's receive buffer, or 0. */
void window_start(struct window *window, uint32_t mtu, uint32_t buffer_bytes);

/* The shortest round trip so far, in ns: the maximum follows it. */
void window_on_round_trip(struct window *window, uint64_t shortest_ns);

/* `packets` were acknowledged, up to `una`; the window was the limit if `limited`. */
void window_on_ack(struct window *window, uint32_t packets, psn_t una, bool limited);

/* A packet was lost, marked or late; `next` is the next PSN. Shrinks the window once for that. */
void window_on_loss(struct window *window, psn_t next);
void window_on_mark(struct window *window, psn_t next);

/*
 * So many packets in a row were lost, and are sent again alone: the window loses as many, unless
 * that is more than by window_on_loss.
 */
void window_on_gap(struct window *window, uint32_t packets, psn_t next);

/* Retransmission timeout: the window shrinks to one packet. */
void window_on_probe(struct window *window);

/* The timeout was spurious, as the acknowledgement was only late: restores the window. */
void window_undo(struct window *window);

/* base/check.h */
void window_check(const struct window *window);

#endif
