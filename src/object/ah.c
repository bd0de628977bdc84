/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/ah.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cause.h"
#include "object/limits.h"

static _Atomic uint32_t ah_count;

int ah_create(struct pd *pd, const struct ibv_ah_attr *attr, const union ibv_gid *sgid, bool local,
	      struct ah **out)
{
	struct ah *ah;

	if (atomic_fetch_add(&ah_count, 1) >= LIMIT_AH) {
		atomic_fetch_sub(&ah_count, 1);
		cause_report(CAUSE_LIMIT_EXCEEDED, 0, "%d address handles", LIMIT_AH);
		return -EINVAL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah) {
		atomic_fetch_sub(&ah_count, 1);
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "address handle");
		return -ENOMEM;
	}
	ah->ib.context = pd->ib.context;
	ah->ib.pd = &pd->ib;
	ah->pd_number = pd->number;
	ah->attr = *attr;
	ah->sgid = *sgid;
	ah->local = local;
	atomic_store(&ah->references, 1);
	pd_get(pd);
	*out = ah;
	return 0;
}

void ah_destroy(struct ah *ah)
{
	pd_put(pd_of(ah->ib.pd));
	atomic_fetch_sub(&ah_count, 1);
	ah_put(ah);
}

void ah_put(struct ah *ah)
{
	if (atomic_fetch_sub(&ah->references, 1) == 1)
		free(ah);
}
