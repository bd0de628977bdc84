/*
 * PD - protection domain; also what a parent domain and a thread domain stand on.
 *
 * A PD has a number that is unique in the process; memory keys and QPs carry it, so that a peer
 * can compare (arena_key.pd, arena_qp.pd). A parent domain uses the number of its PD.
 */
#ifndef OBJECT_PD_H
#define OBJECT_PD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>

struct pd {
	struct ibv_pd ib;
	uint32_t number;	 /* 1.., of the protection domain proper */
	_Atomic uint32_t users; /* MR, MW, QP, SRQ, AH, parent domains; EBUSY while not 0 */
	struct pd *parent;	 /* of a parent domain: the PD it was made from; else NULL */
};

static inline struct pd *pd_of(struct ibv_pd *ib)
{
	return (struct pd *)ib;
}

static inline void pd_get(struct pd *pd)
{
	atomic_fetch_add(&pd->users, 1);
}

static inline void pd_put(struct pd *pd)
{
	atomic_fetch_sub(&pd->users, 1);
}

#endif
