/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Group - multicast groups: which QPs of this process are attached, which processes have members.
 *
 * In:  ibv_attach_mcast, ibv_detach_mcast; verbatimd's answers about members.
 * Out: the QPs of this process, and the other processes of this host, that get a group's datagrams.
 *
 * Any thread. Its lock is innermost, and not held over visitors, nor while a thread waits for
 * verbatimd. Attaching and detaching wait for it.
 */
#ifndef ADAPTER_GROUP_H
#define ADAPTER_GROUP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "ctl/client.h"

struct device;

void group_init(struct ctl_client *ctl);

struct group_member {
	uint32_t qpn;
	union ibv_gid gid;     /* of the group */
	struct device *device; /* of the QP */
	uint32_t ifindex;      /* where the caller has joined for it; 0: nowhere, or not yet */
};

/*
 * 0 or a positive errno: EINVAL not attached, ENOMEM a limit is reached, or of verbatimd. Attaching
 * twice is harmless; *is_new tells whether it was the first time. Then the caller joins, and notes
 * where by group_move. `ifindex`: where it has to leave.
 */
int group_attach(const struct group_member *member, bool *is_new);
int group_detach(uint32_t qpn, const union ibv_gid *gid, uint32_t *ifindex);

/*
 * For an interface that is made anew, which gets another index. The next member from place *at on
 * that is joined somewhere, with a reference to its device; false: there is none.
 */
bool group_next_joined(unsigned *at, struct group_member *out);
/* The member is joined at `ifindex` now. False: it was detached, or moved, meanwhile. */
bool group_move(const struct group_member *member, uint32_t ifindex);

/*
 * Slots of processes with members, at most `max`. *asked: the list may be outdated or empty. The
 * progress thread asks verbatimd, and calls shm_retry_on_peers when it has answered. Does not
 * block.
 */
#define GROUP_ASK_NS 50000000ull /* to wait for an answer, before asking again */
int group_members(const union ibv_gid *gid, uint32_t *slots, int max, bool *asked);

/*
 * Progress thread: asks verbatimd for the groups that group_members missed, and does not wait for
 * the answers. True: the caller has to call again soon, as with peers_ask.
 */
bool group_ask(void);
/* Progress thread: verbatimd's answer. */
void group_on_members(uint32_t question, const uint64_t members[CTL_BITMAP_WORDS]);

/* Calls visit for each attached QP of this process, without locks held. */
void group_visit(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg), void *arg);

/* Progress thread: some membership has changed. */
void group_on_change(void);

/*
 * Progress thread: there is a new verbatimd, which knows no attachments and no questions. Does not
 * wait: group_ask sends them.
 */
void group_attach_again(void);

void group_reset_after_fork(void);

#endif
