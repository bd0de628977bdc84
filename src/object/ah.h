/*
 * AH - an address: where a datagram goes.
 */
#ifndef OBJECT_AH_H
#define OBJECT_AH_H

#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "object/pd.h"

struct ah {
	struct ibv_ah ib;
	struct ibv_ah_attr attr;
	union ibv_gid sgid; /* GID at attr.grh.sgid_index when the AH was made */
	bool local;	    /* attr.grh.dgid is an address of this host (or multicast) */
	/* One for the program until ibv_destroy_ah, one for each send request that still needs it. */
	_Atomic uint32_t references;
};

static inline struct ah *ah_of(struct ibv_ah *ib)
{
	return (struct ah *)ib;
}

static inline void ah_get(struct ah *ah)
{
	atomic_fetch_add(&ah->references, 1);
}

void ah_put(struct ah *ah); /* frees it with the last reference */

#endif
