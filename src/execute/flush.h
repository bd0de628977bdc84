/*
 * Flush - what a FLUSH asks for, and the rights that it takes (IBA annex A19).
 *
 * In:  the fields of a FETH, of a packet or a record. Pure; memory_flush_remote carries it out.
 */
#ifndef EXECUTE_FLUSH_H
#define EXECUTE_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/newer.h"
#include "object/qp.h"

/* At least one placement type that there is, and a selectivity level that there is. */
static inline bool flush_is_valid(uint32_t types, uint32_t level)
{
	return types && !(types & ~(uint32_t)(NEWER_FLUSH_GLOBAL | NEWER_FLUSH_PERSISTENT)) &&
	       level <= NEWER_FLUSH_MR;
}

/* What the QP and the region have to allow. */
static inline uint32_t flush_rights(uint32_t types)
{
	return (types & NEWER_FLUSH_GLOBAL ? NEWER_ACCESS_FLUSH_GLOBAL : 0) |
	       (types & NEWER_FLUSH_PERSISTENT ? NEWER_ACCESS_FLUSH_PERSISTENT : 0);
}

static inline bool flush_is_allowed(const struct qp *qp, uint32_t types)
{
	uint32_t rights = flush_rights(types);

	return (qp->attr.qp_access_flags & rights) == rights;
}

#endif
