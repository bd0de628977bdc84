/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers - the links to other processes of this host: found by slot, made when verbatimd hands them
 * over, freed when the other process dies.
 *
 * In:  slots that requests go to; verbatimd's notices.
 * Out: links (shm/link.h), which are polled (adapter/hot_links.h).
 *
 * Any thread, unless it says "progress thread". Locks: links_lock is innermost but for hot_lock.
 */
#ifndef ADAPTER_PEERS_H
#define ADAPTER_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/client.h"
#include "shm/link.h"

/* Makes the link of this process to itself. `wake_fd` is duplicated. 0 or -errno. */
int peers_init(struct ctl_client *ctl, uint32_t slot, void *arena, int wake_fd);

/* The adapter did not start: nothing has used the link. */
void peers_fini(void);

/*
 * The link to the process in `slot`, with a reference; asks verbatimd if there is none yet (blocks
 * for that exchange, so no lock may be held). NULL: there is no such process, or it cannot be
 * reached.
 */
struct link *peers_find(uint32_t slot);

/*
 * The same without blocking. NULL and *asked: the progress thread asks verbatimd, and calls
 * shm_retry_on_peers when it has answered. The answer that there is no process counts for
 * PEERS_MISS_NS, however much is sent to that slot.
 */
#define PEERS_ASK_NS  50000000ull /* to wait for an answer, before asking again */
#define PEERS_MISS_NS 5000000ull
/* A link that cannot be made at present is asked for again and again, for so long. */
#define PEERS_REFUSED_NS 1000000000ull
struct link *peers_look_up(uint32_t slot, bool *asked);

/*
 * Who connects with this slot knows that there is a process: verbatimd is asked, whatever it said,
 * or is about to say.
 */
void peers_forget_miss(uint32_t slot);

/*
 * Progress thread: asks verbatimd for the slots that peers_look_up missed. Does not wait for the
 * answers. True: another thread uses the connection, so the caller has to call again soon.
 */
bool peers_ask(void);
/*
 * Progress thread: verbatimd has answered that there is no process in this slot (ENOENT), or why it
 * can make no link to it (EMFILE...); or it does not answer (ENOTCONN).
 */
void peers_on_none(uint32_t slot, int error);

/* Progress thread: verbatimd's notices. */
void peers_on_link(struct ctl_peer_info *info);
void peers_on_death(uint32_t slot, pid_t pid);
/* Progress thread: frees links that were replaced before the notice of their peer's death. */
void peers_free_deferred(void);
/*
 * Progress thread: there is a new verbatimd. It has to learn which processes are linked, and to
 * complete links that the last one announced to one end only (link_move). Questions to the last one
 * are forgotten. Does not wait: peers_ask asks, and the answers are notices. True: answers are to
 * come, or a peer that may not know of its link has not reconnected; so the caller has to call
 * again later. `all`: the first call for this verbatimd; else only those peers are asked for again.
 */
bool peers_introduce_again(bool all);

/*
 * Progress thread: ends the links of peers that have died without a notice from verbatimd, which is
 * stopped, or has ended, and of those whose ring is broken (shm/ring.h); a second's pause
 * (PEERS_LOOK_NS) lies between two looks. A peer that has called execve keeps its PID, so the
 * kernel does not tell its end: that takes verbatimd.
 */
#define PEERS_LOOK_NS 1000000000ull
void peers_look_for_deaths(uint64_t now);
/* When the next look is due, CLOCK_MONOTONIC; UINT64_MAX while there are no peers. */
uint64_t peers_look_due_ns(void);

/*
 * The PID of a process whose arena publishes `what` (memory/hazard.h): a peer's that may still be
 * copying, or our own; 0: none does.
 */
uint32_t peers_visit_arenas(bool (*check)(void *arena, uint64_t what), uint64_t what);

void peers_reset_after_fork(void);

#endif
