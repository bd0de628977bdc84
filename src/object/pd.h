/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PD - protection domains, parent domains and thread domains.
 *
 * A PD has a number that is unique in the process. Memory keys and QPs carry it, so that a peer can
 * compare (arena_key.pd, arena_qp.pd). A parent domain has the number of its PD. Any thread.
 */
#ifndef OBJECT_PD_H
#define OBJECT_PD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "object/live_object.h"

struct pd {
	struct ibv_pd ib;
	uint32_t handle; /* for pd_find; 0: a parent domain or an import */
	uint32_t number; /* from 1 on */
	/*
	 * The program, until it deallocates or unimports it; MRs, MWs, QPs, SRQs, AHs, CQs, parent
	 * domains.
	 */
	_Atomic uint32_t users;
	struct pd *parent; /* of a parent domain its PD, of an import the original */
	bool imported;	   /* `parent` is NULL if the original is in another process */
	struct td *td;	   /* of a parent domain: its thread domain, or NULL */
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

void pd_finish(struct pd *pd); /* for pd_put */

/* The last user of an import that the program has given up (ibv_unimport_pd) frees it. */
static inline void pd_put(struct pd *pd)
{
	if (atomic_fetch_sub(&pd->users, 1) == 1)
		pd_finish(pd);
}

/*
 * Create a PD, or a parent domain of a PD or parent domain; `td` may be NULL. 0, -ENOMEM or -EINVAL
 * (limit), with a cause reported.
 */
int pd_create(struct ibv_context *context, struct pd **out);
int pd_create_parent(struct pd *parent, struct td *td, struct pd **out);

/*
 * The PD with this handle, of the contexts with this number, including imports; for pd_put. NULL:
 * there is none.
 */
struct pd *pd_find(uint64_t context_number, uint32_t handle);

/* Creates another struct for the same PD, in another context. `home` is busy while it exists. */
int pd_import(struct pd *home, struct ibv_context *context, struct pd **out);

/* 0, or -EBUSY with a cause reported. */
int pd_destroy(struct pd *pd);

void pd_reset_after_fork(void);

int td_create(struct ibv_context *context, struct td **out); /* 0, -ENOMEM */
int td_destroy(struct td *td);				     /* 0, -EBUSY */

#endif
