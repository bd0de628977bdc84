/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends - frees what a client had when it goes: session, ports, slot, links and memberships, in this
 * order.
 *
 * Owner: the daemon's one thread.
 */
#ifndef VERBATIMD_ENDS_H
#define VERBATIMD_ENDS_H

struct client;

/* The client has died: its peers get notices. */
void ends_on_death(struct client *c);

/* The daemon ends: peers get no notices. */
void ends_on_dismissal(struct client *c);

#endif
