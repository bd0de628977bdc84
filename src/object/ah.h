/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AH - an address: where a datagram goes.
 */
#ifndef OBJECT_AH_H
#define OBJECT_AH_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "object/live_object.h"
#include "object/pd.h"

struct ah {
	struct ibv_ah ib;
	struct ibv_ah_attr attr;
	uint32_t pd_number; /* ib.pd may be gone while a request still needs this */
	union ibv_gid sgid; /* GID at attr.grh.sgid_index when the AH was made */
	bool without_grh;   /* the receiver is to see no GRH (base/lid.h) */
	bool local;	    /* attr.grh.dgid is an address of this host (or multicast) */
	/* One for the program until ibv_destroy_ah, one for each send request that still needs it. */
	_Atomic uint32_t references;
	struct live_object live;
};

static inline struct ah *ah_of(struct ibv_ah *ib)
{
	return (struct ah *)ib;
}

static inline void ah_get(struct ah *ah)
{
	atomic_fetch_add(&ah->references, 1);
}

/* Takes a use of the PD. 0, -ENOMEM or -EINVAL (limit), with a cause reported. */
int ah_create(struct pd *pd, const struct ibv_ah_attr *attr, const union ibv_gid *sgid, bool local,
	      struct ah **out);

/* The program's end of it: gives the PD back. Requests on the way keep the rest alive. */
void ah_destroy(struct ah *ah);

void ah_put(struct ah *ah); /* frees it with the last reference */

#endif
