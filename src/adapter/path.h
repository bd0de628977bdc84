/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path - the way of a QP's work: shared memory or the wire.
 *
 * A connected QP chooses when it goes to RTR: `shm_path` if its destination is an address of this
 * host, else `roce_path`. A UD QP stays on `shm_path`, which hands datagrams for other hosts to
 * wire_path_send_datagram. The transport delivers what comes for it from the wire.
 * VERBATIM_PATH=wire sends everything over UDP, also between processes of this host; both ends need
 * it.
 *
 * Any thread, without locks.
 */
#ifndef ADAPTER_PATH_H
#define ADAPTER_PATH_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "object/qp.h"

/* Once per adapter: reads VERBATIM_PATH, and makes QPs choose. */
void path_init(void);

/* All goes over UDP. */
bool path_is_forced(void);

/* What goes to this GID stays in shared memory. */
bool path_is_local(const union ibv_gid *gid);

#endif
