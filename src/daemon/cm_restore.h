/*
 * CM restore - what a process had with an earlier daemon, from its store.
 *
 * In:  the records of daemon/cm_save.h, which the process may have changed; its channels.
 * Out: the same identifiers, listeners, connections and events, by the same numbers.
 *
 * What cannot be restored is told to the program by DEVICE_REMOVAL; what makes no sense is dropped.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_CM_RESTORE_H
#define DAEMON_CM_RESTORE_H

#include <stdint.h>

struct cm_client;

/* Once, after its channels are back. answered: the seq of the last request of which it has the answer. */
void cm_restore(struct cm_client *cc, uint32_t answered);

#endif
