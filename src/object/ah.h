/* SPDX-License-Identifier: BSD-2-Clause */
/* AH - address handles: the destinations of datagrams. Any thread. */
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
	uint32_t pd_number; /* outlives ib.pd, which may be freed before the last request */
	union ibv_gid sgid; /* GID at attr.grh.sgid_index at creation */
	bool without_grh;   /* the receiver shall see no GRH (base/lid.h) */
	bool local;	    /* attr.grh.dgid is an address of this host, or multicast */
	/* One of the program until ibv_destroy_ah, and one of each send request in the queue. */
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

/* Creates an AH, which uses the PD. 0, -ENOMEM or -EINVAL (limit), with a cause reported. */
int ah_create(struct pd *pd, const struct ibv_ah_attr *attr, const union ibv_gid *sgid, bool local,
	      struct ah **out);

/* Releases the PD and the program's reference. Requests in the queue keep the AH alive. */
void ah_destroy(struct ah *ah);

void ah_put(struct ah *ah); /* frees it with the last reference */

#endif
