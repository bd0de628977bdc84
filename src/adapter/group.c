#include "adapter/group.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/multicast.h"

#define ATTACHMENTS_MAX 1024
#define VISIT_MAX	256
#define CACHE_SIZE	16

struct attachment {
	union ibv_gid gid;
	uint32_t qpn; /* 0: free */
};

struct cached {
	union ibv_gid gid;
	uint64_t generation; /* of `generation` when it was asked; 0: empty */
	uint64_t members[CTL_BITMAP_WORDS];
};

static struct ctl_client *ctl;
static struct lock group_lock = LOCK_INITIALIZER;
static struct attachment attachments[ATTACHMENTS_MAX] GUARDED_BY(group_lock);
static struct cached cache[CACHE_SIZE] GUARDED_BY(group_lock);
static _Atomic uint64_t generation = 1;

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
	for (int i = 0; i < ATTACHMENTS_MAX; i++)
		if (attachments[i].qpn == qpn && (!qpn || same(&attachments[i].gid, gid)))
			return &attachments[i];
	return NULL;
}

static union ibv_gid canonical(const union ibv_gid *gid)
{
	union ibv_gid to;

	multicast_canonical(to.raw, gid->raw);
	return to;
}

int group_attach(uint32_t qpn, const union ibv_gid *spelled, bool *is_new)
{
	const union ibv_gid group = canonical(spelled), *gid = &group;
	struct attachment *attachment;
	int error;

	*is_new = false;
	lock_acquire(&group_lock);
	if (find(qpn, gid)) {
		lock_release(&group_lock);
		return 0;
	}
	attachment = find(0, gid);
	if (attachment)
		*attachment = (struct attachment){ *gid, qpn };
	lock_release(&group_lock);
	if (!attachment)
		return ENOMEM;
	error = ctl_mcast_attach(ctl, gid->raw);
	*is_new = !error;
	if (!error)
		return 0;
	lock_acquire(&group_lock);
	attachment = find(qpn, gid); /* the entry may have been given back, and be another's */
	if (attachment)
		attachment->qpn = 0;
	lock_release(&group_lock);
	return -error;
}

int group_detach(uint32_t qpn, const union ibv_gid *spelled)
{
	const union ibv_gid group = canonical(spelled), *gid = &group;
	struct attachment *attachment;

	lock_acquire(&group_lock);
	attachment = find(qpn, gid);
	if (attachment)
		attachment->qpn = 0;
	lock_release(&group_lock);
	if (!attachment)
		return EINVAL;
	ctl_mcast_detach(ctl, gid->raw);
	return 0;
}

static int list_slots(const uint64_t members[CTL_BITMAP_WORDS], uint32_t *slots, int max)
{
	int count = 0;

	for (uint32_t slot = 1; slot <= CTL_SLOT_MAX && count < max; slot++)
		if (members[slot / 64] >> slot % 64 & 1)
			slots[count++] = slot;
	return count;
}

int group_members(const union ibv_gid *spelled, uint32_t *slots, int max)
{
	const union ibv_gid group = canonical(spelled), *gid = &group;
	struct cached fresh = { .gid = *gid, .generation = generation };
	struct cached *entry = &cache[(gid->raw[15] ^ gid->raw[14]) % CACHE_SIZE];
	bool known;

	lock_acquire(&group_lock);
	known = entry->generation == fresh.generation && same(&entry->gid, gid);
	if (known)
		fresh = *entry;
	lock_release(&group_lock);
	if (!known) {
		if (ctl_mcast_members(ctl, gid->raw, fresh.members))
			return 0;
		lock_acquire(&group_lock);
		*entry = fresh;
		lock_release(&group_lock);
	}
	return list_slots(fresh.members, slots, max);
}

void group_visit(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg), void *arg)
{
	uint32_t qpns[VISIT_MAX];
	int count = 0;

	lock_acquire(&group_lock);
	for (int i = 0; i < ATTACHMENTS_MAX && count < VISIT_MAX; i++)
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
	for (int i = 0; i < ATTACHMENTS_MAX; i++) {
		struct attachment copy;

		lock_acquire(&group_lock);
		copy = attachments[i];
		lock_release(&group_lock);
		if (copy.qpn)
			ctl_mcast_attach(ctl, copy.gid.raw);
	}
}

void group_reset_after_fork(void) NO_LOCK_CHECK
{
	lock_init(&group_lock);
	memset(attachments, 0, sizeof(attachments));
	memset(cache, 0, sizeof(cache));
	ctl = NULL;
}
