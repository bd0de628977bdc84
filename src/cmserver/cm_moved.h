/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM moved - raises events when the address of an identifier is gone, or on another interface.
 *
 * In:  the kernel's notices of addresses, by way of cmserver/cm_interfaces.h.
 * Out: ADDR_CHANGE for identifiers that are bound to the address, or DEVICE_REMOVAL if the
 *      interface is gone; once, until the address is back.
 *
 * Loopback addresses are exempt. An identifier on the wildcard has no address until it connects. A
 * child is exempt until it is accepted.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_MOVED_H
#define CMSERVER_CM_MOVED_H

struct cm;

/* Addresses have changed, or may have. */
void cm_moved_look(struct cm *cm);

#endif
