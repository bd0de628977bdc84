/*
 * SRQ - a receive queue that QPs share.
 */
#ifndef OBJECT_SRQ_H
#define OBJECT_SRQ_H

#include <infiniband/verbs.h>

#include "object/pd.h"
#include "object/rq.h"

struct srq {
	struct ibv_srq ib;
	struct rq rq;
	struct pd *pd;
	_Atomic uint32_t users; /* QPs; EBUSY */
	uint32_t number;	/* for XRC and get_srq_num */
	uint32_t async_reported; /* guarded by the context's async lock */
	enum ibv_srq_type type;
};

static inline struct srq *srq_of(struct ibv_srq *ib)
{
	return (struct srq *)ib;
}

#endif
