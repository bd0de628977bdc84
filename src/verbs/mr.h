/*
 * Verbs of memory regions: the entries of the op table, beside what mr.c exports.
 */
#ifndef VERBS_MR_H
#define VERBS_MR_H

#include <infiniband/verbs.h>

struct ibv_mr *verbs_alloc_null_mr(struct ibv_pd *pd);
int verbs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		    struct ibv_sge *sg_list, uint32_t num_sges);

#endif
