#include "object/mw.h"

#include <errno.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/uncancelled.h"
#include "object/key.h"
#include "object/mr.h"

#define REMOTE_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
/* Local write means nothing for a window; adapters take it, and programs give it. */
#define WINDOW_ACCESS                                                                              \
	(REMOTE_WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE)
#define LOW_BYTE 0xffu

/* Guards all binds. Held while a key dies, so that two binds of a window do not meet. */
static struct lock lock = LOCK_INITIALIZER;
static struct list windows GUARDED_BY(lock) = { &windows, &windows };
static struct mw *by_index[ARENA_KEYS] GUARDED_BY(lock);

void mw_reset_after_fork(void) NO_LOCK_CHECK
{
	struct list *pos, *after;

	lock_init(&lock);
	list_for_each_safe(pos, after, &windows) {
		by_index[list_entry(pos, struct mw, link)->index] = NULL;
		list_del(pos);
	}
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

static void unbind(struct mw *mw) REQUIRES(lock)
{
	if (!mw->mr)
		return;
	key_revoke(mw->index);
	atomic_fetch_sub(&mw->mr->windows, 1);
	mw->mr = NULL;
	mw->qpn = 0;
}

void mw_destroy(struct mw *mw)
{
	if (mw->epoch == key_epoch()) {
		lock_acquire(&lock);
		unbind(mw);
		list_del(&mw->link);
		by_index[mw->index] = NULL;
		lock_release(&lock);
		key_free(mw->index);
	}
	pd_put(pd_of(mw->ib.pd));
	free(mw);
}

/* What the bind asks for, against what the region allows (IBA 10.6.6.2.1 and following). */
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

static enum cause check(const struct mw *mw, uint32_t pd, uint32_t rkey,
			const struct ibv_mw_bind_info *info) REQUIRES(lock)
{
	if (pd_of(mw->ib.pd)->number != pd)
		return CAUSE_MW_PD;
	if (mw->epoch != key_epoch())
		return CAUSE_OTHER_PROCESS;
	if ((rkey ^ mw->ib.rkey) & ~LOW_BYTE)
		return CAUSE_ARGUMENT_INVALID;
	if (mw->ib.type == IBV_MW_TYPE_2 && mw->mr)
		return CAUSE_MW_BOUND;
	if (mw->ib.type == IBV_MW_TYPE_1 && info->length == 0)
		return CAUSE_NONE;
	if (!info->mr || !mr_home(mr_of(info->mr)))
		return CAUSE_MW_RANGE;
	return check_region(mr_home(mr_of(info->mr)), pd, info);
}

static void bind(struct mw *mw, uint32_t qpn, uint32_t rkey, const struct ibv_mw_bind_info *info)
	REQUIRES(lock)
{
	struct arena_key *entry = key_entry(mw->index);
	struct mr *mr = mr_home(mr_of(info->mr));

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
	key_publish(mw->index, rkey);
}

enum cause mw_bind(struct mw *mw, uint32_t pd, uint32_t qpn, uint32_t rkey,
		   const struct ibv_mw_bind_info *info)
{
	UNCANCELLED; /* pages may be moved */
	enum cause cause;

	lock_acquire(&lock);
	cause = check(mw, pd, rkey, info);
	if (cause == CAUSE_NONE) {
		unbind(mw);
		if (mw->ib.type == IBV_MW_TYPE_2 || info->length > 0)
			bind(mw, qpn, rkey, info);
	}
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
		cause = CAUSE_NONE;
	}
	lock_release(&lock);
	return cause;
}

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
