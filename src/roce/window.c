/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/window.h"

#include "base/check.h"

void window_start(struct window *window, uint32_t mtu, uint32_t buffer_bytes)
{
	uint32_t most = WINDOW_BUFFERED(buffer_bytes), packet = mtu + WIRE_PACKET_EXTRA;

	if (most > WINDOW_MOST_BYTES)
		most = WINDOW_MOST_BYTES;
	if (most < WINDOW_SMALL_BYTES)
		most = WINDOW_SMALL_BYTES;
	*window = (struct window){
		.size = WINDOW_START_BYTES / packet,
		.max_short = (most < WINDOW_MAX_BYTES ? most : WINDOW_MAX_BYTES) / packet,
		.most = most / packet,
	};
	window->max = window->threshold = window->max_short;
}

static uint32_t at_most(uint32_t value, uint32_t limit)
{
	return value < limit ? value : limit;
}

void window_on_round_trip(struct window *window, uint64_t shortest_ns)
{
	uint64_t needed = window->max_short * shortest_ns / WINDOW_TRIP_NS;
	uint32_t max = needed < window->most ? (uint32_t)needed : window->most;

	if (max < window->max_short)
		max = window->max_short;
	/* slow start that no loss has ended goes on */
	window->threshold =
		window->threshold == window->max ? max : at_most(window->threshold, max);
	window->threshold_before_probe = at_most(window->threshold_before_probe, max);
	window->before_probe = at_most(window->before_probe, max);
	window->size = at_most(window->size, max);
	window->counted = at_most(window->counted, window->size - 1);
	window->max = max;
}

void window_on_ack(struct window *window, uint32_t packets, psn_t una, bool limited)
{
	if (window->reduced && !psn_before(una, window->reduced_psn))
		window->reduced = false;
	if (!limited || window->size >= window->max)
		return;
	if (window->size < window->threshold) {
		window->size += packets;
	} else {
		window->counted += packets;
		if (window->counted >= window->size) {
			window->counted = 0;
			window->size += WINDOW_GROWTH;
		}
	}
	if (window->size > window->max)
		window->size = window->max;
}

static void reduce(struct window *window, psn_t next, uint32_t size)
{
	if (window->reduced)
		return;
	window->reduced = true;
	window->reduced_psn = next;
	window->counted = 0;
	window->size = size > WINDOW_MIN ? size : WINDOW_MIN;
	window->threshold = window->size;
}

void window_on_loss(struct window *window, psn_t next)
{
	reduce(window, next, WINDOW_AFTER_LOSS(window->size));
}

void window_on_mark(struct window *window, psn_t next)
{
	reduce(window, next, WINDOW_AFTER_MARK(window->size));
}

void window_on_gap(struct window *window, uint32_t packets, psn_t next)
{
	if (packets > 1 && packets > window->size - WINDOW_AFTER_LOSS(window->size)) {
		window_on_loss(window, next);
		return;
	}
	if (window->size > WINDOW_MIN)
		window->size -= packets;
	window->threshold = at_most(window->threshold, window->size);
	window->counted = at_most(window->counted, window->size - 1);
}

void window_on_probe(struct window *window)
{
	uint32_t half = window->size / 2;

	if (window->size > 1) {
		window->before_probe = window->size;
		window->threshold_before_probe = window->threshold;
		window->threshold = half > WINDOW_MIN ? half : WINDOW_MIN;
	}
	window->size = 1;
	window->counted = 0;
}

void window_undo(struct window *window)
{
	if (window->before_probe <= window->size)
		return;
	window->size = window->before_probe;
	window->threshold = window->threshold_before_probe;
}

#ifdef VERBATIM_CHECK
/*
 * Invariants of a congestion window that was started:
 * - it is at least one packet, and at most its maximum, which is within those of the path;
 * - slow start ends within its bounds, too;
 * - the window that window_undo would restore is within them;
 * - `counted` is less than a window.
 */
void window_check(const struct window *window)
{
	INVARIANT(window->size >= 1 && window->size <= window->max, "size %u, 1 to %u",
		  window->size, window->max);
	INVARIANT(window->max_short <= window->max && window->max <= window->most,
		  "maximum %u, %u to %u", window->max, window->max_short, window->most);
	INVARIANT(window->threshold >= 1 && window->threshold <= window->max,
		  "threshold %u, 1 to %u", window->threshold, window->max);
	INVARIANT(window->before_probe <= window->max, "before the probe %u, at most %u",
		  window->before_probe, window->max);
	INVARIANT(window->counted < window->size, "counted %u, size %u", window->counted,
		  window->size);
}
#endif
