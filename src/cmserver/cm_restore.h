/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM restore - restores what a process had with an earlier daemon from its store.
 *
 * In:  the records of cmserver/cm_store.h, which the process may have changed; its channels.
 * Out: the same identifiers, listeners, connections and events, with the same numbers.
 *
 * If an identifier cannot be restored, its program gets DEVICE_REMOVAL; if that was a child that it
 * has not accepted, rdma_accept fails. A record that makes no sense is dropped.
 *
 * Records have no MAC, since a forged one gives its process nothing that it could not have anyway:
 *  - Identifiers, ports, listeners and events are created by the functions that serve requests,
 *    with their checks and limits. They belong to the user that the kernel names (SO_PEERCRED), not
 *    the record.
 *  - A connection on this host reaches only ends of the same user.
 *  - A process can send anything to another host: it has a socket of the address's port
 *    (CAVEATS.md). A connection with another host that is known only from a record is unverified,
 *    and keeps no other user from the remote QP (cm_connection.h).
 *  - A record names its number, and one that is in use is refused. A process that knew another's
 *    number and returned first would get it. But numbers are random, and only the other end knows
 *    them.
 *
 * A MAC would not replace the checks: an old record that a process puts back has a good one.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_RESTORE_H
#define CMSERVER_CM_RESTORE_H

#include <stdint.h>

struct cm_client;

/*
 * To be called once, when the channels are back. answered: seq of the last request that the process
 * has the reply to.
 */
void cm_restore(struct cm_client *cc, uint32_t answered);

#endif
