/*
 * Group - multicast groups: which QPs of this process are attached, which processes have members.
 *
 * Any thread. Its lock is innermost and not held over calls to verbatimd or visitors.
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

/* Slots of processes with members, at most `max`; asks verbatimd unless that is known. */
int group_members(const union ibv_gid *gid, uint32_t *slots, int max);

/* Calls visit for each attached QP of this process, without locks held. */
void group_visit(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg), void *arg);

/* verbatimd told that some membership changed. */
void group_on_change(void);

/* There is a new verbatimd, which knows of none. */
void group_attach_again(void);

void group_reset_after_fork(void);

#endif
