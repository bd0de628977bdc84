/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/pd.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cause.h"
#include "object/context.h"
#include "object/handles.h"
#include "object/limits.h"

static _Atomic uint32_t pd_count;
static _Atomic uint32_t last_number;
static struct handles handles; /* of PDs that are no parent domains */

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

static bool is_of(const struct pd *pd, uint64_t context_number, uint32_t handle)
{
	struct context *context = pd ? context_of(pd->ib.context) : NULL;

	return pd && pd->ib.handle == handle && context->number == context_number &&
	       (pd->imported || !context->elsewhere);
}

struct pd *pd_find(uint64_t context_number, uint32_t handle)
{
	struct pd *pd = handles_find(&handles, handle);

	if (is_of(pd, context_number, handle))
		return pd;
	/* an imported PD has its own place in the table, and the other process's handle */
	for (uint32_t i = 1; i < HANDLES; i++) {
		pd = handles_find(&handles, i);
		if (is_of(pd, context_number, handle))
			return pd;
	}
	return NULL;
}

int pd_import(struct pd *home, struct ibv_context *context, struct pd **out)
{
	int ret = pd_create_parent(home, NULL, out);

	if (ret == 0)
		(*out)->ib.context = context;
	return ret;
}

void pd_abandon(struct pd *pd)
{
	pd_get(pd);
	atomic_store(&pd->abandoned, true);
	pd_put(pd);
}

void pd_finish(struct pd *pd)
{
	struct context *context = context_of(pd->ib.context);

	if (pd_destroy(pd) == 0)
		atomic_fetch_sub(&context->objects, 1);
}

int pd_destroy(struct pd *pd)
{
	uint32_t users = atomic_load(&pd->users);

	if (users) {
		cause_report(CAUSE_BUSY_PD, 0, "PD %u has %u", pd->number, users);
		return -EBUSY;
	}
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	if (pd->parent)
		pd_put(pd->parent);
	if (pd->handle)
		handles_remove(&handles, pd->handle);
	free(pd);
	atomic_fetch_sub(&pd_count, 1);
	return 0;
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
