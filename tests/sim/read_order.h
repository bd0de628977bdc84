/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Read order - the oracle of the order in which the READs of a QP are executed.
 *
 * In:  the responses, as they are delivered; READs of versions (struct end), as they complete.
 * Out: sim_fail, if a later word is of an older version.
 *
 * Go-back-N has a weakness by design: who repeats a READ takes a late response of
 * the first time behind one of the second. That is let pass where it was seen to happen, and
 * nowhere else: the packets that brought the two words were delivered in the order of their PSNs,
 * but sent in the other, and the one sent last does not claim to be a copy of what was sent before
 * (packet.original). A requester that keeps nothing takes packets as they are delivered, so any
 * fall it shows has these two; one that keeps them must not show another.
 */
#ifndef TESTS_SIM_READ_ORDER_H
#define TESTS_SIM_READ_ORDER_H

#include "packet/packet.h"
#include "plan.h"

/* Before anything is sent. */
void read_order_start(void);

/* A response to a READ is delivered to `end`. `sent`: net_number of the packet. */
void read_order_on_response(const struct end *end, const struct packet *packet, uint64_t sent);

/* A READ of versions has succeeded. */
void read_order_check(const struct plan *plan, struct end *end, const struct op *op);

#endif
