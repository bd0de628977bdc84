/*
 * Verbs of memory windows: the entries of the op table. Binding is a request of a QP (queues.h).
 */
#ifndef VERBS_MW_H
#define VERBS_MW_H

#include <infiniband/verbs.h>

struct ibv_mw *verbs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int verbs_dealloc_mw(struct ibv_mw *mw);

#endif
