/* SPDX-License-Identifier: BSD-2-Clause */
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
#include <stdbool.h>

#include "object/live_object.h"

struct pd {
	struct ibv_pd ib;
	uint32_t handle;	 /* by which pd_find finds it; 0: parent domains and imports */
	uint32_t number;	 /* 1.., of the protection domain proper */
	_Atomic uint32_t users; /* MR, MW, QP, SRQ, AH, parent domains; EBUSY while not 0 */
	struct pd *parent;	 /* of a parent domain: the PD it was made from; else NULL */
	_Atomic bool abandoned;	 /* unimported with objects left: it goes with the last of them */
	bool imported;		 /* parent, if in this process, is what it stands for */
	struct td *td;		 /* of a parent domain: its thread domain, or NULL */
	struct live_object live;
};

struct td {
	struct ibv_td ib;
	_Atomic uint32_t users; /* parent domains; EBUSY while not 0 */
	struct live_object live;
};

static inline struct td *td_of(struct ibv_td *ib)
{
	return (struct td *)ib;
}

static inline struct pd *pd_of(struct ibv_pd *ib)
{
	return (struct pd *)ib;
}

static inline void pd_get(struct pd *pd)
{
	atomic_fetch_add(&pd->users, 1);
}

/* ibv_unimport_pd: the import goes, now or with the last of its objects. */
void pd_abandon(struct pd *pd);
void pd_finish(struct pd *pd); /* for pd_put */

static inline void pd_put(struct pd *pd)
{
	bool abandoned = atomic_load(&pd->abandoned);

	if (atomic_fetch_sub(&pd->users, 1) == 1 && abandoned)
		pd_finish(pd);
}

/*
 * A PD; a parent domain on a PD proper or another parent domain, with or without a thread domain.
 * 0, -ENOMEM or -EINVAL (limit), with a cause reported.
 */
int pd_create(struct ibv_context *context, struct pd **out);
int pd_create_parent(struct pd *parent, struct td *td, struct pd **out);

/*
 * The PD that `handle` names among the PDs of the contexts with this number: made by this process, or
 * imported from another before. NULL: none.
 */
struct pd *pd_find(uint64_t context_number, uint32_t handle);

/* Another struct for the same PD, in another context; `home` stays busy while there is one. */
int pd_import(struct pd *home, struct ibv_context *context, struct pd **out);

/* 0, or -EBUSY with a cause reported. */
int pd_destroy(struct pd *pd);

int td_create(struct ibv_context *context, struct td **out); /* 0, -ENOMEM */
int td_destroy(struct td *td);				      /* 0, -EBUSY */

#endif
