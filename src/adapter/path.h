/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path - whether a QP uses shared memory, UDP or TCP.
 *
 * A connected QP chooses when it goes to RTR: `shm_path` if its destination is an address of this
 * host, else `roce_path`. A UD QP stays on `shm_path`, which hands datagrams for other hosts to
 * wire_path_send_datagrams. It gets those of other hosts from the transport. VERBATIM_PATH=wire
 * sends everything over UDP, also between processes of this host. Both ends have to set it.
 *
 * The connection of an RNIC's QP has a stream, or shared memory with the TCP socket beside it
 * (tcp/control.h), if its ends find that they are on one host: by the places that they tell each
 * other (iwarp/same_host.h).
 *
 * Any thread, without locks, unless it says so.
 */
#ifndef ADAPTER_PATH_H
#define ADAPTER_PATH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "iwarp/handover.h"
#include "iwarp/same_host.h"
#include "object/qp.h"

struct arena_header;
struct link;

/*
 * Once per adapter: reads VERBATIM_PATH, and has QPs choose their path from now on. `find_link`: as
 * of struct shm_env, if processes of other network namespaces have slots, too
 * (VERBATIM_SOCKET_DIR); else NULL.
 */
void path_init(struct link *(*find_link)(uint32_t slot, bool *asked),
	       const struct arena_header *own);

/* They do, and VERBATIM_PATH does not forbid it. */
bool path_shares(void);

/*
 * Whether shared memory leads to the QP of another network namespace: a process that shares the
 * directory has the QPN and, among its own, the destination address; and `own`, this end's, is one
 * that the other end finds here. So both ends come to the same answer. Does not block: verbatimd
 * has answered for the QPN's slot.
 */
bool path_is_shared(const union ibv_gid *own, const union ibv_gid *gid, uint32_t qpn);

/* Whether shared memory reaches the connected QP's peer. True if the kernel cannot be asked. */
bool path_peer_may_be_local(const struct qp *qp);

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

/*
 * Once per adapter, after ports_init: has RNICs' QPs use shared memory. `cookie`: of the arena. 0
 * or -errno.
 */
int path_init_rnic(uint64_t cookie);

/*
 * Whether the path to this address may be shared memory; then *place is this end's. Any thread, no
 * locks.
 */
bool path_is_here(uint32_t qpn, const union ibv_gid *peer, struct same_host_place *place);

/*
 * The QP, which is as streams_attach wants it, goes to RTS, and sends nothing until it is attached.
 */
void path_hold(struct qp *qp) REQUIRES(qp->lock);
bool path_is_held(const struct qp *qp) REQUIRES(qp->lock);

/*
 * For verbatim_iwarp_share: gives the QP its path and its socket, and moves it to RTS. The
 * initiator sends nothing until the peer is ready. 0 or -errno, and the socket is still the
 * caller's; -EINVAL: the QP is not as streams_attach wants it.
 */
int path_share(struct qp *qp, int fd, const struct verbatim_iwarp_shared *shared,
	       void (*ended)(void *arg), void *arg) REQUIRES(qp->lock);

#endif
