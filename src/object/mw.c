/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/mw.h"

#include <errno.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/uncancelled.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/key_revoke.h"
#include "object/mr.h"
#include "object/sq.h"

#define REMOTE_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
/* A window has no local access, but adapters accept LOCAL_WRITE, and programs pass it. */
#define WINDOW_ACCESS                                                                              \
	(REMOTE_WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE)
#define LOW_BYTE 0xffu
#define LOOKS_REPORTED 200 /* attempts before a wait is reported, after a second or so */

/* Guards all binds. No thread holds it while it waits for copies. */
static struct lock lock = LOCK_INITIALIZER;
static struct list windows GUARDED_BY(lock) = { &windows, &windows };
static struct mw *by_index[ARENA_KEYS] GUARDED_BY(lock);

void mw_reset_after_fork(void)
{
	struct list *pos, *after;

	lock_acquire_in_child(&lock);
	list_for_each_safe(pos, after, &windows) {
		by_index[list_entry(pos, struct mw, link)->index] = NULL;
		list_del(pos);
	}
	lock_release(&lock);
}

int mw_create(struct pd *pd, enum ibv_mw_type type, struct mw **out)
{
	struct mw *mw = calloc(1, sizeof(*mw));
	int ret;

	if (!mw) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "memory window");
		return -ENOMEM;
	}
	ret = key_alloc(&mw->index, &mw->ib.rkey);
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
	mw->ib.handle = mw->index;
	mw->ib.type = type;
	pd_get(pd);
	lock_acquire(&lock);
	list_add_tail(&windows, &mw->link);
	by_index[mw->index] = mw;
	lock_release(&lock);
	*out = mw;
	return 0;
}

/* Revokes the key of a bound window. The bind ends when is_over. */
static void unbind(struct mw *mw) REQUIRES(lock)
{
	key_zero(mw->index);
	mw->former = mw->mr;
	atomic_fetch_add(&mw->former->unsettled, 1);
	atomic_fetch_sub(&mw->former->windows, 1);
	mw->mr = NULL;
	mw->qpn = 0;
}

static bool is_over(struct mw *mw) REQUIRES(lock)
{
	if (!mw->former)
		return true;
	if (key_hazard_owner(mw->index))
		return false;
	atomic_fetch_sub(&mw->former->unsettled, 1);
	mw->former = NULL;
	return true;
}

/* Reports the copy by a revoked key that has not ended. Returns -EBUSY. */
static int report_unfinished(uint32_t index, uint32_t qpn)
{
	uint32_t key = key_entry(index)->dying;

	cause_report(CAUSE_COPY_UNFINISHED, qpn, "process %u, by key 0x%08x of a window", hazard_owner(key),
		     key);
	return -EBUSY;
}

/* Removes a window whose bind has ended from the tables. False: its bind has not ended. */
static bool withdraw(struct mw *mw)
{
	bool over;

	lock_acquire(&lock);
	if (mw->mr)
		unbind(mw);
	over = is_over(mw);
	if (over) {
		list_del(&mw->link);
		by_index[mw->index] = NULL;
	}
	lock_release(&lock);
	return over;
}

int mw_destroy(struct mw *mw)
{
	struct hazard_wait wait = { 0 };

	if (mw->epoch == key_epoch()) {
		while (!withdraw(mw))
			if (!hazard_wait(&wait))
				return report_unfinished(mw->index, 0);
		key_free(mw->index);
	}
	pd_put(pd_of(mw->ib.pd));
	free(mw);
	return 0;
}

/*
 * The index of the key of a window of the region by which a thread still copies; 0: there is none.
 */
static uint32_t find_unsettled(const struct mr *mr)
{
	struct list *pos;
	uint32_t index = 0;

	lock_acquire(&lock);
	list_for_each(pos, &windows) {
		struct mw *mw = list_entry(pos, struct mw, link);

		if (mw->former == mr && !is_over(mw)) {
			index = mw->index;
			break;
		}
	}
	lock_release(&lock);
	return index;
}

bool mw_end_region(struct mr *mr)
{
	bool bound;

	lock_acquire(&lock);
	bound = atomic_load(&mr->windows) != 0;
	if (!bound)
		key_zero(mr->index);
	lock_release(&lock);
	return !bound;
}

int mw_settle(struct mr *mr)
{
	struct hazard_wait wait = { 0 };
	uint32_t index;

	while (atomic_load(&mr->unsettled) && (index = find_unsettled(mr)) != 0)
		if (!hazard_wait(&wait))
			return report_unfinished(index, 0);
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
static struct mr *find_region(uint32_t key) REQUIRES(lock)
{
	uint32_t index = KEY_INDEX(key);

	return key && key_table() && atomic_load(&key_entry(index)->key) == key ? mr_find(index) : NULL;
}

static struct mw *find_window(uint32_t key) REQUIRES(lock)
{
	struct mw *mw = by_index[KEY_INDEX(key)];

	return mw && mw->key == key ? mw : NULL;
}

static enum cause check(const struct mw *mw, uint32_t pd, const struct mr *mr,
			const struct ibv_mw_bind_info *info) REQUIRES(lock)
{
	if (pd_of(mw->ib.pd)->number != pd)
		return CAUSE_MW_PD;
	if (mw->epoch != key_epoch())
		return CAUSE_OTHER_PROCESS;
	if (mw->ib.type == IBV_MW_TYPE_2 && mw->mr)
		return CAUSE_MW_BOUND;
	if (info->length == 0)
		return mw->ib.type == IBV_MW_TYPE_1 ? CAUSE_NONE : CAUSE_MW_EMPTY;
	return mr ? check_region(mr, pd, info) : CAUSE_MW_GONE;
}

static void publish(struct mw *mw, uint32_t qpn, uint32_t rkey, struct mr *mr,
		    const struct ibv_mw_bind_info *info) REQUIRES(lock)
{
	struct arena_key *entry = key_entry(mw->index);

	entry->access = info->mw_access_flags;
	entry->start = info->mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : info->addr;
	entry->length = info->length;
	entry->addr = mr->entry->addr + (info->addr - mr->iova);
	entry->pd = pd_of(mw->ib.pd)->number;
	entry->flags = KEY_MW | (mr->entry->flags & KEY_ON_DEMAND);
	entry->qpn = mw->ib.type == IBV_MW_TYPE_2 ? qpn : 0;
	entry->heap = 0;
	mw->mr = mr;
	mw->qpn = entry->qpn;
	atomic_fetch_add(&mr->windows, 1);
	key_publish(mw->index, (mw->key & ~LOW_BYTE) | (rkey & LOW_BYTE));
}

/* `mw` may be NULL: the window was destroyed. */
static enum cause bind(struct mw *mw, uint32_t pd, uint32_t qpn, uint32_t rkey, uint32_t region,
		       const struct ibv_mw_bind_info *info) REQUIRES(lock)
{
	struct mr *mr = find_region(region);
	enum cause cause = mw ? check(mw, pd, mr, info) : CAUSE_MW_GONE;

	if (cause != CAUSE_NONE)
		return cause;
	if (mw->mr)
		unbind(mw);
	if (!is_over(mw))
		return CAUSE_COPY_UNFINISHED;
	if (info->length > 0)
		publish(mw, qpn, rkey, mr, info);
	return CAUSE_NONE;
}

static enum cause execute_bind(const struct wqe *wqe, uint32_t pd, uint32_t qpn)
{
	UNCANCELLED;
	enum cause cause;

	lock_acquire(&lock);
	cause = bind(find_window(wqe->window), pd, qpn, wqe->rkey, wqe->region, &wqe->bind);
	lock_release(&lock);
	return cause;
}

enum cause mw_invalidate(uint32_t key, uint32_t pd, uint32_t qpn)
{
	UNCANCELLED;
	enum cause cause = CAUSE_INVALIDATE_REFUSED;
	struct mw *mw;

	lock_acquire(&lock);
	mw = by_index[KEY_INDEX(key)];
	if (mw && mw->mr && qpn && mw->qpn == qpn && pd_of(mw->ib.pd)->number == pd &&
	    atomic_load(&key_entry(mw->index)->key) == key) {
		unbind(mw);
		cause = is_over(mw) ? CAUSE_NONE : CAUSE_COPY_UNFINISHED;
	}
	lock_release(&lock);
	return cause;
}

/* If the window's dying key is another one, it is a later one, and this key's bind has ended. */
bool mw_is_over(uint32_t key)
{
	UNCANCELLED;
	struct mw *mw;
	bool over;

	lock_acquire(&lock);
	mw = by_index[KEY_INDEX(key)];
	over = !mw || key_entry(mw->index)->dying != key || is_over(mw);
	lock_release(&lock);
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

void mw_prepare(struct wqe *wqe, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	wqe->rkey = rkey;
	wqe->window = mw ? mw_of(mw)->key : 0;
	wqe->region = info->mr ? info->mr->lkey : 0;
	wqe->bind = *info;
	wqe->bind.mr = NULL;
}

enum cause mw_bind(struct mw *mw, uint32_t pd, uint32_t qpn, uint32_t rkey,
		   const struct ibv_mw_bind_info *info)
{
	struct wqe wqe;

	mw_prepare(&wqe, &mw->ib, rkey, info);
	return execute_bind(&wqe, pd, qpn);
}

enum cause mw_execute(struct wqe *wqe, uint32_t pd, uint32_t qpn, uint32_t looks)
{
	enum cause cause;

	if (wqe->opcode == IBV_WR_BIND_MW)
		cause = execute_bind(wqe, pd, qpn);
	else if (wqe->revoked)
		cause = mw_is_over(wqe->revoked) ? CAUSE_NONE : CAUSE_COPY_UNFINISHED;
	else
		cause = mw_invalidate(wqe->imm, pd, qpn);
	if (cause != CAUSE_COPY_UNFINISHED)
		return cause;
	if (wqe->opcode == IBV_WR_LOCAL_INV)
		wqe->revoked = wqe->imm;
	if (looks == LOOKS_REPORTED)
		report_unfinished(KEY_INDEX(wqe->opcode == IBV_WR_BIND_MW ? wqe->window : wqe->revoked), qpn);
	return cause;
}

/* Does not wait for copies; mw_destroy and mr_destroy do. */
void mw_unbind_qp(uint32_t qpn)
{
	struct list *pos;

	lock_acquire(&lock);
	list_for_each(pos, &windows) {
		struct mw *mw = list_entry(pos, struct mw, link);

		if (mw->mr && mw->qpn == qpn)
			unbind(mw);
	}
	lock_release(&lock);
}
