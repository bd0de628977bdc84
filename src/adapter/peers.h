/*
 * Peers - the links of this process: found by slot, made when verbatimd hands them over, freed
 * when the other process dies.
 *
 * Owner: any thread, but for peers_on_notice, which is the progress thread's. Locks: links_lock is
 * innermost and never held over a call out.
 */
#ifndef ADAPTER_PEERS_H
#define ADAPTER_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/client.h"
#include "shm/link.h"

/* Makes the link to ourselves. `wake_fd` is duplicated. 0 or -errno. */
int peers_init(struct ctl_client *ctl, uint32_t slot, void *arena, int wake_fd);

/*
 * The link to the process in `slot`, with a reference; asks verbatimd if there is none yet (blocks
 * for that exchange, so no lock may be held). NULL: there is no such process, or it cannot be
 * reached.
 */
struct link *peers_find(uint32_t slot);

/*
 * The same without blocking. NULL and *asked: the progress thread asks verbatimd, and
 * shm_retry_on_peers tells when it has answered. That there is no process is remembered for a
 * moment: a slot is asked for once in PEERS_MISS_NS, however much is sent there.
 */
#define PEERS_ASK_NS  50000000ull /* for an answer, before it is asked once more */
#define PEERS_MISS_NS 5000000ull
struct link *peers_look_up(uint32_t slot, bool *asked);

/*
 * The progress thread's: asks verbatimd what peers_look_up wants to know. Does not wait for the
 * answers. True: another thread waits for one of its own just then, so this is to be called again
 * soon.
 */
bool peers_ask(void);
/* The progress thread's: there is no process in this slot. */
void peers_on_none(uint32_t slot);

/* Works through all links once. True if a look later is worth while. */
bool peers_progress(void);

/* The progress thread's: what verbatimd told. */
void peers_on_link(struct ctl_peer_info *info);
void peers_on_death(uint32_t slot, pid_t pid);
/* Links that were replaced before their death was told. */
void peers_free_deferred(void);
/*
 * verbatimd was lost and found: it has to learn again who is linked with whom; and what the last
 * one had told one end alone of is settled (link_move). What the last one was asked is forgotten.
 * Does not wait: peers_ask asks, and the answers are notices. True: not all have come, or a peer
 * that may not know of its link has not come back yet, so this is to be called again later. all:
 * else only for those.
 */
bool peers_introduce_again(bool all);

/*
 * The PID of a process whose arena publishes `what` (memory/hazard.h): a peer's that may still be
 * copying, or our own; 0: none does.
 */
uint32_t peers_visit_arenas(bool (*check)(void *arena, uint64_t what), uint64_t what);

void peers_reset_after_fork(void);

#endif
