/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path - whether a QP uses shared memory or UDP.
 *
 * A connected QP chooses when it goes to RTR: `shm_path` if its destination is an address of this
 * host, else `roce_path`. A UD QP stays on `shm_path`, which hands datagrams for other hosts to
 * wire_path_send_datagrams. It gets those of other hosts from the transport. VERBATIM_PATH=wire
 * sends everything over UDP, also between processes of this host. Both ends have to set it.
 *
 * Any thread, without locks.
 */
#ifndef ADAPTER_PATH_H
#define ADAPTER_PATH_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "object/qp.h"

/* Once per adapter: reads VERBATIM_PATH, and has QPs choose their path from now on. */
void path_init(void);

/* VERBATIM_PATH=wire. */
bool path_is_forced(void);

/*
 * The path to this GID is shared memory: 1 or 0. -errno with a cause: the kernel cannot be asked
 * whether it is an address of this host. Then nothing may be settled for good: a QP that took the
 * wrong path would get no answer, as its peer may have taken the right one.
 */
int path_is_local(const union ibv_gid *gid);

/* The same for what is repeated, or no more than delayed: true if the kernel cannot be asked. */
static inline bool path_may_be_local(const union ibv_gid *gid)
{
	return path_is_local(gid) != 0;
}

#endif
