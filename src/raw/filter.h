/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Filter - the flows of a RAW_PACKET QP as a socket filter (classic BPF), so that the kernel drops
 * frames that the QP does not take.
 *
 * In:  the list of flows; properties of the interface.
 * Out: a program for SO_ATTACH_FILTER.
 *
 * Pure. The filter may pass too many frames, never too few: flow_takes checks each frame again
 * (object/flow.h).
 */
#ifndef RAW_FILTER_H
#define RAW_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "object/flow.h"

#define FILTER_MIN 16
#define FILTER_MAX BPF_MAXINSNS

/* Of the network interface. */
struct filter_interface {
	uint8_t mac[FLOW_MAC_BYTES];
	bool is_loopback; /* the kernel loops frames back by itself */
};

/*
 * Writes the program for `flows` (struct flow, by `link`) to `code`: at most `max` instructions,
 * FILTER_MIN to FILTER_MAX. Returns how many. If they are too few for the flows, the filter passes
 * every frame that any of them might take.
 */
unsigned filter_build(const struct list *flows, const struct filter_interface *interface,
		      struct sock_filter *code, unsigned max);

/* An adapter would loop this outgoing frame back to its own QPs. */
bool filter_returns(const struct filter_interface *interface, const uint8_t *frame);

#endif
