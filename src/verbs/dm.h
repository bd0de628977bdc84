/*
 * Verbs of device memory: the entries of the op table.
 */
#ifndef VERBS_DM_H
#define VERBS_DM_H

#include <infiniband/verbs.h>

struct ibv_dm *verbs_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
/* Sets the functions of a new one, or of an import. */
void dm_fill(struct ibv_dm *dm);

int verbs_free_dm(struct ibv_dm *dm);
struct ibv_mr *verbs_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
			       size_t length, unsigned int access);

#endif
