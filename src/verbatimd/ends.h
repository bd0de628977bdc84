/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends - what goes when a client goes: its session, ports, slot, links and memberships, in this
 * order.
 *
 * Owner: the daemon's one thread.
 */
#ifndef VERBATIMD_ENDS_H
#define VERBATIMD_ENDS_H

struct client;

/* Peers are told. */
void ends_on_death(struct client *c);

/* The daemon ends: peers are not told. */
void ends_on_dismissal(struct client *c);

#endif
