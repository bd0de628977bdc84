/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cause.h"
#include "base/compat.h"
#include "base/page.h"
#include "memory/hazard.h"
#include "memory/imported.h"
#include "memory/key_revoke.h"
#include "memory/migrate.h"
#include "memory/pin.h"
#include "object/dm.h"

#define REMOTE_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define WRITES	      (IBV_ACCESS_LOCAL_WRITE | REMOTE_WRITES | IBV_ACCESS_MW_BIND)
#define KNOWN_ACCESS                                                                               \
	(WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |          \
	 IBV_ACCESS_HUGETLB | COMPAT_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_OPTIONAL_RANGE)
#define DM_ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | REMOTE_WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED | \
	 COMPAT_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_OPTIONAL_RANGE)

#define DMABUF_ACCESS                                                                              \
	(IBV_ACCESS_LOCAL_WRITE | REMOTE_WRITES | IBV_ACCESS_REMOTE_READ |                         \
	 IBV_ACCESS_OPTIONAL_RANGE)

static struct mr *_Atomic regions[ARENA_KEYS]; /* by index of the key */

struct lock mr_bind_lock = LOCK_INITIALIZER;

static bool is_implicit(const struct mr_spec *spec)
{
	return !spec->addr && spec->length == SIZE_MAX;
}

static int check_access(const struct mr_spec *spec)
{
	uint32_t known = spec->dm ? DM_ACCESS : spec->dmabuf ? DMABUF_ACCESS : KNOWN_ACCESS;

	if (spec->access & ~known) {
		cause_report(CAUSE_ACCESS_UNSUPPORTED, 0, "0x%x", spec->access & ~known);
		return -EINVAL;
	}
	if ((spec->access & REMOTE_WRITES) && !(spec->access & IBV_ACCESS_LOCAL_WRITE)) {
		cause_report(CAUSE_ACCESS_WITHOUT_LOCAL_WRITE, 0, "0x%x", spec->access);
		return -EINVAL;
	}
	if (spec->dm && !(spec->access & IBV_ACCESS_ZERO_BASED)) {
		cause_report(CAUSE_ACCESS_UNSUPPORTED, 0,
			     "device memory needs IBV_ACCESS_ZERO_BASED");
		return -EINVAL;
	}
	return 0;
}

static int check_range(const struct mr_spec *spec)
{
	uint64_t end;

	if (is_implicit(spec)) {
		if (spec->access & IBV_ACCESS_ON_DEMAND)
			return 0;
		cause_report(CAUSE_ACCESS_UNSUPPORTED, 0,
			     "the whole address space needs IBV_ACCESS_ON_DEMAND");
		return -EINVAL;
	}
	if (__builtin_add_overflow((uintptr_t)spec->addr, spec->length, &end) ||
	    __builtin_add_overflow(spec->iova, spec->length, &end)) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0,
			     "addr %p with length %zu passes the end of the address space",
			     spec->addr, spec->length);
		return -EINVAL;
	}
	if (spec->dm)
		return 0;
	if (((uintptr_t)spec->addr ^ spec->iova) & (page_bytes() - 1)) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0,
			     "iova 0x%llx has another offset in the page than addr %p",
			     (unsigned long long)spec->iova, spec->addr);
		return -EINVAL;
	}
	if (spec->access & IBV_ACCESS_ON_DEMAND)
		return 0;
	if (pin_range(spec->addr, spec->length, spec->access & WRITES) < 0) {
		cause_report(CAUSE_ADDRESS_NOT_MAPPED, 0, "addr %p, length %zu, access 0x%x",
			     spec->addr, spec->length, spec->access);
		return -EFAULT;
	}
	return 0;
}

static int check(const struct mr_spec *spec)
{
	int ret;

	if (spec->null)
		return 0;
	ret = check_access(spec);
	return ret < 0 ? ret : check_range(spec);
}

static void fill(struct mr *mr, const struct mr_spec *spec)
{
	struct arena_key *entry = mr->entry;

	mr->access = spec->access;
	mr->iova = spec->access & IBV_ACCESS_ZERO_BASED ? 0 : spec->iova;
	mr->ib.context = spec->pd->ib.context;
	mr->ib.pd = &spec->pd->ib;
	mr->ib.addr = spec->dm ? NULL : spec->dmabuf ? (void *)(uintptr_t)spec->offset : spec->addr;
	mr->ib.length = spec->length;

	entry->access = spec->access;
	entry->start = mr->iova;
	entry->length = spec->length;
	entry->addr = (uintptr_t)spec->addr;
	entry->pd = spec->pd->number;
	entry->flags = 0;
	if (spec->access & IBV_ACCESS_ON_DEMAND)
		entry->flags |= KEY_ON_DEMAND;
	if (spec->null)
		entry->flags |= spec->imported ? KEY_NULL | KEY_IMPORTED : KEY_NULL;
	entry->qpn = 0;
	entry->heap = 0;
}

int mr_create(const struct mr_spec *spec, struct mr **out)
{
	uint32_t index, key;
	struct mr *mr;
	int ret;

	ret = check(spec);
	if (ret < 0)
		return ret;
	mr = calloc(1, sizeof(*mr));
	if (!mr) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "memory region");
		return -ENOMEM;
	}
	ret = key_alloc(&index, &key);
	if (ret < 0) {
		if (ret == -ENODEV)
			cause_report(CAUSE_OTHER_PROCESS, 0, "memory region");
		else
			cause_report(CAUSE_KEYS_EXHAUSTED, 0, "%d regions and windows",
				     ARENA_KEYS - 1);
		free(mr);
		return ret == -ENODEV ? -EINVAL : ret;
	}
	list_init(&mr->unsettled);
	mr->entry = key_entry(index);
	mr->index = index;
	mr->epoch = key_epoch();
	mr->dm = spec->dm;
	mr->imported = spec->imported != NULL;
	mr->dmabuf = spec->dmabuf ? *spec->dmabuf : (struct dmabuf){ .fd = -1 };
	fill(mr, spec);
	mr->ib.handle = index;
	mr->ib.lkey = mr->ib.rkey = key;
	pd_get(spec->pd);
	if (mr->dm)
		atomic_fetch_add(&mr->dm->regions, 1);
	if (spec->imported)
		imported_ops->keep(index, spec->imported);
	key_publish(index, key);
	atomic_store(&regions[index], mr);
	if (spec->access & (REMOTE_WRITES | IBV_ACCESS_REMOTE_READ))
		migrate_offer(key, mr->entry->length);
	*out = mr;
	return 0;
}

/*
 * ------------------------------------------------------------------------------------------
 * Windows that are bound to a region.
 */

void mr_bind_begin(struct mr_bind *bind, struct mr *mr)
{
	bind->mr = mr;
	atomic_fetch_add(&mr->windows, 1);
}

void mr_bind_end(struct mr_bind *bind)
{
	key_zero(bind->index);
	bind->former = bind->mr;
	bind->mr = NULL;
	list_add_tail(&bind->former->unsettled, &bind->link);
	atomic_fetch_sub(&bind->former->windows, 1);
}

bool mr_bind_is_over(struct mr_bind *bind)
{
	if (!bind->former)
		return true;
	if (key_hazard_owner(bind->index))
		return false;
	list_del(&bind->link);
	bind->former = NULL;
	return true;
}

int mr_bind_report_unfinished(uint32_t index, uint32_t qpn)
{
	uint32_t key = key_entry(index)->dying;

	cause_report(CAUSE_COPY_UNFINISHED, qpn, "process %u, by key 0x%08x of a window",
		     hazard_owner(key), key);
	return -EBUSY;
}

/*
 * The index of the key of a window of the region by which a thread still copies; 0: there is none.
 */
static uint32_t find_unsettled(struct mr *mr)
{
	struct list *pos, *after;
	uint32_t index = 0;

	lock_acquire(&mr_bind_lock);
	list_for_each_safe(pos, after, &mr->unsettled) {
		struct mr_bind *bind = list_entry(pos, struct mr_bind, link);

		if (!mr_bind_is_over(bind)) {
			index = bind->index;
			break;
		}
	}
	lock_release(&mr_bind_lock);
	return index;
}

/*
 * Waits until no thread copies by the keys of windows that were bound to the region. 0, or -EBUSY.
 */
static int settle_windows(struct mr *mr)
{
	struct hazard_wait wait = { 0 };
	uint32_t index;

	while ((index = find_unsettled(mr)) != 0)
		if (!hazard_wait(&wait))
			return mr_bind_report_unfinished(index, 0);
	return 0;
}

/*
 * ------------------------------------------------------------------------------------------
 * Regions that change, and end.
 */

/* Revokes the region's key. -EBUSY: windows are bound, and nothing has changed. */
static int end_key(struct mr *mr)
{
	uint32_t windows;

	lock_acquire(&mr_bind_lock);
	windows = atomic_load(&mr->windows);
	if (!windows)
		key_zero(mr->index);
	lock_release(&mr_bind_lock);
	if (!windows)
		return 0;
	cause_report(CAUSE_BUSY_MR, 0, "key 0x%08x has %u", mr->ib.lkey, windows);
	return -EBUSY;
}

/*
 * Waits until no thread copies by the keys of the region and its windows. The region's own key goes
 * last: without it its pages may migrate, which the windows' keys refer to, too.
 */
static int wait_for_copies(struct mr *mr)
{
	int ret = settle_windows(mr);

	return ret < 0 ? ret : key_revoke(mr->index);
}

bool mr_can_change(const struct mr *mr)
{
	if (mr->alias || mr->retired) {
		cause_report(CAUSE_WRONG_TYPE, 0, "an imported region cannot be changed");
		return false;
	}
	if (mr->dm || mr->dmabuf.fd >= 0 ||
	    (mr->epoch == key_epoch() && (mr->entry->flags & KEY_NULL))) {
		cause_report(CAUSE_WRONG_TYPE, 0,
			     "regions of device memory and dma-bufs, and null regions, cannot be "
			     "changed");
		return false;
	}
	return true;
}

int mr_change(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length, uint32_t access)
{
	struct pd *old_pd = pd_of(mr->ib.pd);
	struct mr_spec spec = {
		.pd = old_pd,
		.addr = mr->ib.addr,
		.length = mr->ib.length,
		.iova = mr->access & IBV_ACCESS_ZERO_BASED ? (uintptr_t)mr->ib.addr : mr->iova,
		.access = mr->access,
	};
	int ret;

	if (mr->epoch != key_epoch()) {
		cause_report(CAUSE_OTHER_PROCESS, 0, "key 0x%08x", mr->ib.lkey);
		return -EINVAL;
	}
	if (!mr_is_alive(mr)) {
		cause_report(CAUSE_COPY_UNFINISHED, 0, "key 0x%08x is being deregistered",
			     mr->ib.lkey);
		return -EBUSY;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		spec.pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		spec.access = access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		spec.addr = addr;
		spec.length = length;
		spec.iova = (uintptr_t)addr;
	}
	ret = check(&spec);
	if (ret < 0)
		return ret;

	ret = end_key(mr);
	if (ret < 0)
		return ret;
	ret = wait_for_copies(mr);
	if (ret < 0) {
		key_restore(mr->index);
		return ret;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		migrate_wait_out(mr->entry->addr, mr->entry->length);
	pd_get(spec.pd);
	fill(mr, &spec);
	pd_put(old_pd);
	key_publish(mr->index, mr->ib.rkey);
	return 0;
}

struct mr *mr_find(uint32_t handle)
{
	struct mr *mr = handle < ARENA_KEYS ? atomic_load(&regions[handle]) : NULL;

	return mr && mr->epoch == key_epoch() ? mr : NULL;
}

/* The struct that owns the key: `mr`, or the original of an import; NULL: that was destroyed. */
static struct mr *home_of(struct mr *mr)
{
	struct mr *home;

	if (!mr->alias)
		return mr;
	home = mr_find(mr->index);
	return home && home->ib.rkey == mr->ib.rkey ? home : NULL;
}

int mr_import(struct mr *home, struct pd *pd, struct mr **out)
{
	struct mr *mr;

	if (pd_of(home->ib.pd)->number != pd->number) {
		cause_report(CAUSE_OTHER_PD, 0, "key 0x%08x is of PD %u, not %u", home->ib.lkey,
			     pd_of(home->ib.pd)->number, pd->number);
		return -EINVAL;
	}
	mr = malloc(sizeof(*mr));
	if (!mr) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "memory region");
		return -ENOMEM;
	}
	*mr = *home;
	atomic_store(&mr->windows, 0);
	list_init(&mr->unsettled);
	mr->alias = true;
	mr->dmabuf.fd = -1;
	mr->ib.context = pd->ib.context;
	mr->ib.pd = &pd->ib;
	mr->ib.addr = NULL;
	pd_get(pd);
	*out = mr;
	return 0;
}

/* Destroys the key and releases what the region holds; the struct stays. */
static int retire(struct mr *mr)
{
	struct mr *self = mr;
	int ret;

	if (mr->epoch == key_epoch()) {
		ret = end_key(mr);
		if (!ret)
			ret = wait_for_copies(mr);
		if (ret < 0)
			return ret;
		atomic_store(&regions[mr->index], NULL);
		migrate_wait_out(mr->entry->addr, mr->entry->length);
		if (mr->imported)
			imported_ops->release(mr->index);
		key_free(mr->index);
	} else { /* of before a fork: another region may have the entry by now */
		atomic_compare_exchange_strong(&regions[mr->index], &self, NULL);
	}
	if (mr->dm)
		atomic_fetch_sub(&mr->dm->regions, 1);
	dmabuf_unmap(&mr->dmabuf);
	pd_put(pd_of(mr->ib.pd));
	mr->retired = true;
	return 0;
}

int mr_destroy(struct mr *mr)
{
	struct mr *home = home_of(mr);
	int ret = home && !home->retired ? retire(home) : 0;

	if (ret < 0)
		return ret;
	mr_unimport(mr);
	return 0;
}

bool mr_unimport(struct mr *mr)
{
	if (mr->imported && !mr->retired && retire(mr) < 0)
		return false; /* a thread still copies: the key is leaked */
	if (!mr->alias && !mr->retired) {
		cause_report(CAUSE_WRONG_TYPE, 0, "key 0x%08x was not imported", mr->ib.lkey);
		return false;
	}
	if (mr->alias)
		pd_put(pd_of(mr->ib.pd));
	free(mr);
	return true;
}
