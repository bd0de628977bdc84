/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/group.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "adapter/wakeup.h"
#include "base/cause.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/gid.h"
#include "netdev/device.h"
#include "object/limits.h"
#include "shm/retry.h"

#define CACHE_SIZE 64

struct attachment {
	union ibv_gid gid;
	uint32_t qpn;	       /* 0: free */
	struct device *device; /* lives as long as the QP, which is not destroyed while attached */
	uint32_t ifindex;      /* where it was joined */
	bool again;	       /* the progress thread has to tell the new verbatimd */
};

struct cached {
	union ibv_gid gid;
	uint64_t generation; /* `generation` at the question that `members` answers; 0: unknown */
	uint64_t members[CTL_BITMAP_WORDS];
	bool wanted; /* the progress thread has to ask */
	/* how long an answer is waited for, CLOCK_MONOTONIC_COARSE; 0: none is */
	uint64_t asked_until_ns;
	uint32_t question;	   /* of ctl_mcast_ask; 0: none */
	uint64_t asked_generation; /* `generation` at that question */
};

static struct ctl_client *ctl;
static struct lock group_lock = LOCK_INITIALIZER;
static struct attachment attachments[LIMIT_TOTAL_MCAST_QP_ATTACH] GUARDED_BY(group_lock);
static struct cached cache[CACHE_SIZE] GUARDED_BY(group_lock);
static _Atomic uint64_t generation = 1;
static _Atomic bool any_wanted;

void group_init(struct ctl_client *client)
{
	ctl = client;
}

static bool same(const union ibv_gid *a, const union ibv_gid *b)
{
	return !memcmp(a->raw, b->raw, sizeof(a->raw));
}

static struct attachment *find(uint32_t qpn, const union ibv_gid *gid) REQUIRES(group_lock)
{
	for (int i = 0; i < LIMIT_TOTAL_MCAST_QP_ATTACH; i++)
		if (attachments[i].qpn == qpn && (!qpn || same(&attachments[i].gid, gid)))
			return &attachments[i];
	return NULL;
}

/* Its group has no entry before this one. */
static bool is_first_of_group(const struct attachment *attachment) REQUIRES(group_lock)
{
	for (const struct attachment *a = attachments; a < attachment; a++)
		if (a->qpn && same(&a->gid, &attachment->gid))
			return false;
	return true;
}

static uint32_t count_groups(void) REQUIRES(group_lock)
{
	uint32_t count = 0;

	for (int i = 0; i < LIMIT_TOTAL_MCAST_QP_ATTACH; i++)
		count += attachments[i].qpn && is_first_of_group(&attachments[i]);
	return count;
}

static uint32_t count_members(const union ibv_gid *gid) REQUIRES(group_lock)
{
	uint32_t count = 0;

	for (int i = 0; i < LIMIT_TOTAL_MCAST_QP_ATTACH; i++)
		count += attachments[i].qpn && same(&attachments[i].gid, gid);
	return count;
}

/* A free entry; NULL: a limit of the device is reached (CONTRACT 2), which was reported. */
static struct attachment *find_place(uint32_t qpn, const union ibv_gid *gid) REQUIRES(group_lock)
{
	struct attachment *free = find(0, gid);
	uint32_t members = count_members(gid);
	const char *limit = NULL;

	if (!free)
		limit = "max_total_mcast_qp_attach";
	else if (members == LIMIT_MCAST_QP_ATTACH)
		limit = "max_mcast_qp_attach";
	else if (!members && count_groups() == LIMIT_MCAST_GRP)
		limit = "max_mcast_grp";
	if (!limit)
		return free;
	cause_report(CAUSE_LIMIT_EXCEEDED, qpn, "%s", limit);
	return NULL;
}

static union ibv_gid canonical(const union ibv_gid *gid)
{
	union ibv_gid to;

	gid_canonical(to.raw, gid->raw);
	return to;
}

int group_attach(const struct group_member *member, bool *is_new)
{
	const union ibv_gid group = canonical(&member->gid), *gid = &group;
	uint32_t qpn = member->qpn;
	struct attachment *attachment;
	int error;

	*is_new = false;
	lock_acquire(&group_lock);
	if (find(qpn, gid)) {
		lock_release(&group_lock);
		return 0;
	}
	attachment = find_place(qpn, gid);
	if (attachment)
		*attachment = (struct attachment){ .gid = *gid,
						   .qpn = qpn,
						   .device = member->device,
						   .ifindex = member->ifindex };
	lock_release(&group_lock);
	if (!attachment)
		return ENOMEM;
	error = ctl_mcast_attach(ctl, gid->raw);
	*is_new = !error;
	if (!error)
		return 0;
	lock_acquire(&group_lock);
	attachment = find(qpn, gid); /* the entry may belong to another attachment by now */
	if (attachment)
		attachment->qpn = 0;
	lock_release(&group_lock);
	return -error;
}

int group_detach(uint32_t qpn, const union ibv_gid *spelled, uint32_t *ifindex)
{
	const union ibv_gid group = canonical(spelled), *gid = &group;
	struct attachment *attachment;
	bool untold = false;

	lock_acquire(&group_lock);
	attachment = find(qpn, gid);
	if (attachment) {
		untold = attachment->again;
		*ifindex = attachment->ifindex;
		*attachment = (struct attachment){ 0 };
	}
	lock_release(&group_lock);
	if (!attachment)
		return EINVAL;
	if (!untold)
		ctl_mcast_detach(ctl, gid->raw);
	return 0;
}

bool group_next_joined(unsigned *at, struct group_member *out)
{
	bool found = false;

	lock_acquire(&group_lock);
	for (; *at < LIMIT_TOTAL_MCAST_QP_ATTACH && !found; (*at)++) {
		const struct attachment *a = &attachments[*at];

		found = a->qpn && a->ifindex;
		if (!found)
			continue;
		*out = (struct group_member){ a->qpn, a->gid, a->device, a->ifindex };
		device_get(a->device);
	}
	lock_release(&group_lock);
	return found;
}

bool group_move(const struct group_member *member, uint32_t ifindex)
{
	const union ibv_gid group = canonical(&member->gid);
	struct attachment *attachment;
	bool is_there;

	lock_acquire(&group_lock);
	attachment = find(member->qpn, &group);
	is_there = attachment && attachment->ifindex == member->ifindex;
	if (is_there)
		attachment->ifindex = ifindex;
	lock_release(&group_lock);
	return is_there;
}

static int list_slots(const uint64_t members[CTL_BITMAP_WORDS], uint32_t *slots, int max)
{
	int count = 0;

	for (uint32_t slot = 1; slot <= CTL_SLOT_MAX && count < max; slot++)
		if (members[slot / 64] >> slot % 64 & 1)
			slots[count++] = slot;
	return count;
}

/* The entry of the group, old or new; NULL: all entries have questions about other groups. */
static struct cached *find_cached(const union ibv_gid *gid, uint64_t now) REQUIRES(group_lock)
{
	unsigned first = gid->raw[15] ^ gid->raw[14];
	struct cached *free = NULL;

	for (unsigned i = 0; i < CACHE_SIZE; i++) {
		struct cached *entry = &cache[(first + i) % CACHE_SIZE];
		bool empty = !entry->generation && !entry->asked_until_ns;

		if (!empty && same(&entry->gid, gid))
			return entry;
		if (empty) {
			free = entry;
			break; /* entries after a free one are not in use */
		}
		if (!free && now >= entry->asked_until_ns)
			free = entry;
	}
	if (free)
		*free = (struct cached){ .gid = *gid };
	return free;
}

int group_members(const union ibv_gid *spelled, uint32_t *slots, int max, bool *asked)
{
	const union ibv_gid group = canonical(spelled), *gid = &group;
	uint64_t members[CTL_BITMAP_WORDS] = { 0 };
	uint64_t now = clock_coarse_ns();
	struct cached *entry;
	bool wake = false;

	lock_acquire(&group_lock);
	entry = find_cached(gid, now);
	*asked = !entry || entry->generation != generation;
	if (entry)
		memcpy(members, entry->members, sizeof(members));
	if (entry && *asked && now >= entry->asked_until_ns) {
		entry->asked_until_ns = now + GROUP_ASK_NS;
		entry->wanted = wake = true;
		any_wanted = true;
	}
	lock_release(&group_lock);
	if (wake)
		wakeup_send();
	return list_slots(members, slots, max);
}

/* False: another thread uses the connection, so the question is still to be asked. */
static bool ask(struct cached *entry)
{
	uint64_t asked_generation = generation;
	uint32_t question = 0;
	union ibv_gid gid;
	bool wanted;
	int error;

	lock_acquire(&group_lock);
	wanted = entry->wanted;
	gid = entry->gid;
	lock_release(&group_lock);
	if (!wanted)
		return true;
	error = ctl_mcast_ask(ctl, gid.raw, &question);
	lock_acquire(&group_lock);
	if (same(&entry->gid, &gid)) {
		entry->wanted = error == -EAGAIN;
		entry->question = question;
		entry->asked_generation = asked_generation;
	}
	lock_release(&group_lock);
	return error != -EAGAIN;
}

/*
 * Under the lock, so that a later detachment follows on the connection. True: to be called again.
 * If verbatimd is lost again, the next one gets all attachments.
 */
static bool send_attachments(void)
{
	bool busy = false;

	lock_acquire(&group_lock);
	for (int i = 0; i < LIMIT_TOTAL_MCAST_QP_ATTACH && !busy; i++)
		if (attachments[i].again) {
			busy = ctl_mcast_attach_again(ctl, attachments[i].gid.raw) == -EAGAIN;
			attachments[i].again = busy;
		}
	lock_release(&group_lock);
	return busy;
}

bool group_ask(void)
{
	bool busy = false;

	if (!atomic_load_explicit(&any_wanted, memory_order_relaxed) ||
	    !atomic_exchange(&any_wanted, false))
		return false;
	busy = send_attachments();
	for (int i = 0; i < CACHE_SIZE; i++)
		busy |= !ask(&cache[i]);
	if (busy)
		any_wanted = true;
	return busy;
}

void group_on_members(uint32_t question, const uint64_t members[CTL_BITMAP_WORDS])
{
	lock_acquire(&group_lock);
	for (int i = 0; i < CACHE_SIZE; i++)
		if (cache[i].question == question) {
			memcpy(cache[i].members, members, sizeof(cache[i].members));
			cache[i].generation = cache[i].asked_generation;
			cache[i].asked_until_ns = 0;
			cache[i].question = 0;
		}
	lock_release(&group_lock);
	shm_retry_on_peers();
}

void group_visit(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg), void *arg)
{
	uint32_t qpns[LIMIT_MCAST_QP_ATTACH];
	int count = 0;

	lock_acquire(&group_lock);
	for (int i = 0; i < LIMIT_TOTAL_MCAST_QP_ATTACH && count < LIMIT_MCAST_QP_ATTACH; i++)
		if (attachments[i].qpn && same(&attachments[i].gid, gid))
			qpns[count++] = attachments[i].qpn;
	lock_release(&group_lock);
	for (int i = 0; i < count; i++)
		visit(qpns[i], arg);
}

void group_on_change(void)
{
	generation++;
}

void group_attach_again(void)
{
	group_on_change();
	lock_acquire(&group_lock);
	for (int i = 0; i < LIMIT_TOTAL_MCAST_QP_ATTACH; i++)
		attachments[i].again = attachments[i].qpn;
	for (int i = 0; i < CACHE_SIZE; i++) {
		cache[i].asked_until_ns = 0;
		cache[i].question = 0;
	}
	any_wanted = true;
	lock_release(&group_lock);
}

void group_reset_after_fork(void)
{
	lock_acquire_in_child(&group_lock);
	memset(attachments, 0, sizeof(attachments));
	memset(cache, 0, sizeof(cache));
	any_wanted = false;
	ctl = NULL;
	lock_release(&group_lock);
}
