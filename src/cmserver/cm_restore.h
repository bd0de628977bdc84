/*
 * CM restore - what a process had with an earlier daemon, from its store.
 *
 * In:  the records of cmserver/cm_save.h, which the process may have changed; its channels.
 * Out: the same identifiers, listeners, connections and events, by the same numbers.
 *
 * What cannot be restored is told to the program by DEVICE_REMOVAL; what makes no sense is dropped.
 *
 * Records have no MAC, since a forged one gives nothing that its process could not have:
 *  - Identifiers, ports, listeners and events are made by the functions that serve requests, with their checks and
 *    limits, and belong to who brings the record. Whose that is says the kernel (SO_PEERCRED), not the record.
 *  - A connection on this host talks to ends of the same user alone.
 *  - To another host a process can say anything anyway: it has a socket of the address's port (CAVEATS.md). That it is
 *    connected with a QP there is hearsay, and keeps no other user from that QP (cm_connection.h).
 *  - Numbers are chosen by the record, but one that is in use is refused. Who knew another's number and returned first
 *    would have it: they are random, and told to the other end of the connection alone.
 * A MAC would not replace the checks: an old record, put back, has a good one.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_RESTORE_H
#define CMSERVER_CM_RESTORE_H

#include <stdint.h>

struct cm_client;

/* Once, after its channels are back. answered: the seq of the last request of which it has the answer. */
void cm_restore(struct cm_client *cc, uint32_t answered);

#endif
