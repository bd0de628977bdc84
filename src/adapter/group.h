/*
 * Group - multicast groups: which QPs of this process are attached, which processes have members.
 *
 * Any thread. Its lock is innermost and not held over calls to verbatimd or visitors. Attaching and
 * detaching block for an exchange with verbatimd.
 */
#ifndef ADAPTER_GROUP_H
#define ADAPTER_GROUP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "ctl/client.h"

void group_init(struct ctl_client *ctl);

/*
 * 0 or a positive errno: EINVAL not attached, ENOMEM, or of verbatimd. Attaching twice is harmless;
 * *is_new tells whether it was the first time.
 */
int group_attach(uint32_t qpn, const union ibv_gid *gid, bool *is_new);
int group_detach(uint32_t qpn, const union ibv_gid *gid);

/*
 * Slots of processes with members, at most `max`. *asked: what is known of them is of old, or
 * nothing; the progress thread asks verbatimd, and shm_retry_on_peers tells when it has answered.
 * Does not block.
 */
#define GROUP_ASK_NS 50000000ull /* for an answer, before it is asked once more */
int group_members(const union ibv_gid *gid, uint32_t *slots, int max, bool *asked);

/*
 * The progress thread's: asks verbatimd what group_members wants to know, and does not wait for the
 * answers. True: it is to be called again soon, as peers_ask. And an answer.
 */
bool group_ask(void);
void group_on_members(uint32_t question, const uint64_t members[CTL_BITMAP_WORDS]);

/* Calls visit for each attached QP of this process, without locks held. */
void group_visit(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg), void *arg);

/* verbatimd told that some membership changed. */
void group_on_change(void);

/*
 * There is a new verbatimd, which knows of none, and was asked nothing. Does not wait: group_ask
 * tells it.
 */
void group_attach_again(void);

void group_reset_after_fork(void);

#endif
