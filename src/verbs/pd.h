/*
 * Verbs of protection domains: the entries of the op table, beside what pd.c exports.
 */
#ifndef VERBS_PD_H
#define VERBS_PD_H

#include <infiniband/verbs.h>

struct ibv_pd *verbs_alloc_parent_domain(struct ibv_context *context,
					 struct ibv_parent_domain_init_attr *attr);
struct ibv_td *verbs_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr);
int verbs_dealloc_td(struct ibv_td *td);

#endif
