/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/mw.h"

#include <errno.h>
#include <stdlib.h>

#include "base/uncancelled.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/key_revoke.h"

#define REMOTE_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
/* A window has no local access, but adapters accept LOCAL_WRITE, and programs pass it. */
#define WINDOW_ACCESS                                                                              \
	(REMOTE_WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE)
#define LOW_BYTE 0xffu

static struct list windows GUARDED_BY(mr_bind_lock) = { &windows, &windows };
static struct mw *by_index[ARENA_KEYS] GUARDED_BY(mr_bind_lock);

void mw_reset_after_fork(void)
{
	struct list *pos, *after;

	lock_acquire_in_child(&mr_bind_lock);
	list_for_each_safe(pos, after, &windows) {
		by_index[list_entry(pos, struct mw, link)->bind.index] = NULL;
		list_del(pos);
	}
	lock_release(&mr_bind_lock);
}

int mw_create(struct pd *pd, enum ibv_mw_type type, struct mw **out)
{
	struct mw *mw = calloc(1, sizeof(*mw));
	int ret;

	if (!mw) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "memory window");
		return -ENOMEM;
	}
	ret = key_alloc(&mw->bind.index, &mw->ib.rkey);
	if (ret < 0) {
		cause_report(ret == -ENODEV ? CAUSE_OTHER_PROCESS : CAUSE_KEYS_EXHAUSTED, 0,
			     "memory window");
		free(mw);
		return ret == -ENODEV ? -EINVAL : ret;
	}
	mw->epoch = key_epoch();
	mw->key = mw->ib.rkey;
	mw->ib.context = pd->ib.context;
	mw->ib.pd = &pd->ib;
	mw->ib.handle = mw->bind.index;
	mw->ib.type = type;
	pd_get(pd);
	lock_acquire(&mr_bind_lock);
	list_add_tail(&windows, &mw->link);
	by_index[mw->bind.index] = mw;
	lock_release(&mr_bind_lock);
	*out = mw;
	return 0;
}

/* Revokes the key of a bound window. The bind ends when mr_bind_is_over. */
static void unbind(struct mw *mw) REQUIRES(mr_bind_lock)
{
	mr_bind_end(&mw->bind);
	mw->qpn = 0;
}

/* Removes a window whose bind has ended from the tables. False: its bind has not ended. */
static bool withdraw(struct mw *mw)
{
	bool over;

	lock_acquire(&mr_bind_lock);
	if (mw->bind.mr)
		unbind(mw);
	over = mr_bind_is_over(&mw->bind);
	if (over) {
		list_del(&mw->link);
		by_index[mw->bind.index] = NULL;
	}
	lock_release(&mr_bind_lock);
	return over;
}

int mw_destroy(struct mw *mw)
{
	struct hazard_wait wait = { 0 };

	if (mw->epoch == key_epoch()) {
		while (!withdraw(mw))
			if (!hazard_wait(&wait))
				return mr_bind_report_unfinished(mw->bind.index, 0);
		key_free(mw->bind.index);
	}
	pd_put(pd_of(mw->ib.pd));
	free(mw);
	return 0;
}

/* Checks the bind against the region's rights and range (IBA 10.6.6.2.1 and following). */
static enum cause check_region(const struct mr *mr, uint32_t pd,
			       const struct ibv_mw_bind_info *info)
{
	uint64_t offset = info->addr - mr->iova;

	if (pd_of(mr->ib.pd)->number != pd)
		return CAUSE_MW_PD;
	if (!(mr->access & IBV_ACCESS_MW_BIND) || (mr->access & IBV_ACCESS_ZERO_BASED) ||
	    (info->mw_access_flags & ~(unsigned int)WINDOW_ACCESS))
		return CAUSE_MW_ACCESS;
	if ((info->mw_access_flags & REMOTE_WRITES) && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return CAUSE_MW_ACCESS;
	if (info->addr < mr->iova || offset > mr->ib.length ||
	    info->length > mr->ib.length - offset)
		return CAUSE_MW_RANGE;
	return CAUSE_NONE;
}

/*
 * A region loses its key under the lock. So while the lock is held, a region with a live key
 * exists.
 */
static struct mr *find_region(uint32_t key) REQUIRES(mr_bind_lock)
{
	uint32_t index = KEY_INDEX(key);

	return key && key_table() && atomic_load(&key_entry(index)->key) == key ? mr_find(index)
										: NULL;
}

static struct mw *find_window(uint32_t key) REQUIRES(mr_bind_lock)
{
	struct mw *mw = by_index[KEY_INDEX(key)];

	return mw && mw->key == key ? mw : NULL;
}

static enum cause check(const struct mw *mw, uint32_t pd, const struct mr *mr,
			const struct ibv_mw_bind_info *info) REQUIRES(mr_bind_lock)
{
	if (pd_of(mw->ib.pd)->number != pd)
		return CAUSE_MW_PD;
	if (mw->epoch != key_epoch())
		return CAUSE_OTHER_PROCESS;
	if (mw->ib.type == IBV_MW_TYPE_2 && mw->bind.mr)
		return CAUSE_MW_BOUND;
	if (info->length == 0)
		return mw->ib.type == IBV_MW_TYPE_1 ? CAUSE_NONE : CAUSE_MW_EMPTY;
	return mr ? check_region(mr, pd, info) : CAUSE_MW_GONE;
}

static void publish(struct mw *mw, uint32_t qpn, uint32_t rkey, struct mr *mr,
		    const struct ibv_mw_bind_info *info) REQUIRES(mr_bind_lock)
{
	struct arena_key *entry = key_entry(mw->bind.index);

	entry->access = info->mw_access_flags;
	entry->start = info->mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : info->addr;
	entry->length = info->length;
	entry->addr = mr->entry->addr + (info->addr - mr->iova);
	entry->pd = pd_of(mw->ib.pd)->number;
	entry->flags = KEY_MW | (mr->entry->flags & KEY_ON_DEMAND);
	entry->qpn = mw->ib.type == IBV_MW_TYPE_2 ? qpn : 0;
	entry->heap = 0;
	mr_bind_begin(&mw->bind, mr);
	mw->qpn = entry->qpn;
	key_publish(mw->bind.index, (mw->key & ~LOW_BYTE) | (rkey & LOW_BYTE));
}

/* `mw` may be NULL: the window was destroyed. */
static enum cause bind(struct mw *mw, uint32_t pd, uint32_t qpn, uint32_t rkey, uint32_t region,
		       const struct ibv_mw_bind_info *info) REQUIRES(mr_bind_lock)
{
	struct mr *mr = find_region(region);
	enum cause cause = mw ? check(mw, pd, mr, info) : CAUSE_MW_GONE;

	if (cause != CAUSE_NONE)
		return cause;
	if (mw->bind.mr)
		unbind(mw);
	if (!mr_bind_is_over(&mw->bind))
		return CAUSE_COPY_UNFINISHED;
	if (info->length > 0)
		publish(mw, qpn, rkey, mr, info);
	return CAUSE_NONE;
}

enum cause mw_bind(uint32_t window, uint32_t region, uint32_t pd, uint32_t qpn, uint32_t rkey,
		   const struct ibv_mw_bind_info *info)
{
	UNCANCELLED;
	enum cause cause;

	lock_acquire(&mr_bind_lock);
	cause = bind(find_window(window), pd, qpn, rkey, region, info);
	lock_release(&mr_bind_lock);
	return cause;
}

enum cause mw_invalidate(uint32_t key, uint32_t pd, uint32_t qpn)
{
	UNCANCELLED;
	enum cause cause = CAUSE_INVALIDATE_REFUSED;
	struct mw *mw;

	lock_acquire(&mr_bind_lock);
	mw = by_index[KEY_INDEX(key)];
	if (mw && mw->bind.mr && qpn && mw->qpn == qpn && pd_of(mw->ib.pd)->number == pd &&
	    atomic_load(&key_entry(mw->bind.index)->key) == key) {
		unbind(mw);
		cause = mr_bind_is_over(&mw->bind) ? CAUSE_NONE : CAUSE_COPY_UNFINISHED;
	}
	lock_release(&mr_bind_lock);
	return cause;
}

/* If the window's dying key is another one, it is a later one, and this key's bind has ended. */
bool mw_is_over(uint32_t key)
{
	UNCANCELLED;
	struct mw *mw;
	bool over;

	lock_acquire(&mr_bind_lock);
	mw = by_index[KEY_INDEX(key)];
	over = !mw || key_entry(mw->bind.index)->dying != key || mr_bind_is_over(&mw->bind);
	lock_release(&mr_bind_lock);
	return over;
}

enum cause mw_invalidate_once(uint32_t key, uint32_t pd, uint32_t qpn, uint32_t *revoked)
{
	enum cause cause = mw_invalidate(key, pd, qpn);

	if (cause == CAUSE_INVALIDATE_REFUSED && *revoked && *revoked == key)
		cause = mw_is_over(key) ? CAUSE_NONE : CAUSE_COPY_UNFINISHED;
	*revoked = cause == CAUSE_COPY_UNFINISHED ? key : 0;
	return cause;
}

void mw_report_unfinished(uint32_t key, uint32_t qpn)
{
	mr_bind_report_unfinished(KEY_INDEX(key), qpn);
}

/* Does not wait for copies; mw_destroy and mr_destroy do. */
void mw_unbind_qp(uint32_t qpn)
{
	struct list *pos;

	lock_acquire(&mr_bind_lock);
	list_for_each(pos, &windows) {
		struct mw *mw = list_entry(pos, struct mw, link);

		if (mw->bind.mr && mw->qpn == qpn)
			unbind(mw);
	}
	lock_release(&mr_bind_lock);
}
