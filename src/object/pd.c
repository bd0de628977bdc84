/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/pd.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cause.h"
#include "base/lock.h"
#include "object/context.h"
#include "object/handles.h"
#include "object/limits.h"

static _Atomic uint32_t pd_count;
static _Atomic uint32_t last_number;
static struct handles handles; /* of PDs that are no parent domains */
/* A PD that was found has a user more before it can be freed. */
static struct lock find_lock = LOCK_INITIALIZER;

static int create(struct pd **out)
{
	struct pd *pd;

	if (atomic_fetch_add(&pd_count, 1) >= LIMIT_PD) {
		atomic_fetch_sub(&pd_count, 1);
		cause_report(CAUSE_LIMIT_EXCEEDED, 0, "%d protection domains", LIMIT_PD);
		return -EINVAL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		atomic_fetch_sub(&pd_count, 1);
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "protection domain");
		return -ENOMEM;
	}
	pd->users = 1;
	*out = pd;
	return 0;
}

int pd_create(struct ibv_context *context, struct pd **out)
{
	int ret = create(out);

	if (ret < 0)
		return ret;
	do
		(*out)->number = atomic_fetch_add(&last_number, 1) + 1;
	while ((*out)->number == 0);
	(*out)->ib.context = context;
	(*out)->handle = (*out)->ib.handle = handles_add(&handles, *out, HANDLES);
	return 0;
}

int pd_create_parent(struct pd *parent, struct td *td, struct pd **out)
{
	int ret = create(out);

	if (ret < 0)
		return ret;
	(*out)->number = parent->number;
	(*out)->ib = parent->ib;
	(*out)->parent = parent;
	(*out)->td = td;
	pd_get(parent);
	if (td)
		atomic_fetch_add(&td->users, 1);
	return 0;
}

/* False: it is being freed. */
static bool pd_try_get(struct pd *pd)
{
	uint32_t users = atomic_load(&pd->users);

	while (users && !atomic_compare_exchange_weak(&pd->users, &users, users + 1))
		;
	return users;
}

static bool is_of(const struct pd *pd, uint64_t context_number, uint32_t handle)
{
	struct context *context = pd ? context_of(pd->ib.context) : NULL;

	return pd && pd->ib.handle == handle && context->number == context_number &&
	       (pd->imported || !context->elsewhere);
}

/* An imported PD has its own place in the table, and the other process's handle. */
static struct pd *find(uint64_t context_number, uint32_t handle) REQUIRES(find_lock)
{
	struct pd *pd = handles_find(&handles, handle);

	for (uint32_t i = 1; i < HANDLES && !is_of(pd, context_number, handle); i++)
		pd = handles_find(&handles, i);
	return is_of(pd, context_number, handle) ? pd : NULL;
}

struct pd *pd_find(uint64_t context_number, uint32_t handle)
{
	struct pd *pd;

	lock_acquire(&find_lock);
	pd = find(context_number, handle);
	if (pd && !pd_try_get(pd))
		pd = NULL;
	lock_release(&find_lock);
	return pd;
}

int pd_import(struct pd *home, struct ibv_context *context, struct pd **out)
{
	int ret = pd_create_parent(home, NULL, out);

	if (ret == 0)
		(*out)->ib.context = context;
	return ret;
}

static void release(struct pd *pd)
{
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	if (pd->parent)
		pd_put(pd->parent);
	if (pd->handle) {
		lock_acquire(&find_lock);
		handles_remove(&handles, pd->handle);
		lock_release(&find_lock);
	}
	free(pd);
	atomic_fetch_sub(&pd_count, 1);
}

void pd_finish(struct pd *pd)
{
	struct context *context = context_of(pd->ib.context);

	release(pd);
	atomic_fetch_sub(&context->objects, 1);
}

int pd_destroy(struct pd *pd)
{
	uint32_t users = 1;

	if (!atomic_compare_exchange_strong(&pd->users, &users, 0)) {
		cause_report(CAUSE_BUSY_PD, 0, "PD %u has %u", pd->number, users - 1);
		return -EBUSY;
	}
	release(pd);
	return 0;
}

void pd_reset_after_fork(void)
{
	lock_init(&find_lock);
}

int td_create(struct ibv_context *context, struct td **out)
{
	struct td *td = calloc(1, sizeof(*td));

	if (!td) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "thread domain");
		return -ENOMEM;
	}
	td->ib.context = context;
	*out = td;
	return 0;
}

int td_destroy(struct td *td)
{
	if (atomic_load(&td->users)) {
		cause_report(CAUSE_BUSY_TD, 0, NULL);
		return -EBUSY;
	}
	free(td);
	return 0;
}
