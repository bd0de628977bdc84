#include "verbs/mw.h"

#include "verbs/refuse.h"

struct ibv_mw *verbs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	refuse(EOPNOTSUPP, CAUSE_UNSUPPORTED, "ibv_alloc_mw");
	return NULL;
}

int verbs_dealloc_mw(struct ibv_mw *mw)
{
	return refuse(EOPNOTSUPP, CAUSE_UNSUPPORTED, "ibv_dealloc_mw");
}
