/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/execute.h"

#include "base/compat.h"
#include "execute/atomic.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/memory.h"
#include "object/mw.h"

static enum verdict access_verdict(enum cause cause)
{
	return cause == CAUSE_NONE ? VERDICT_OK : VERDICT_ACCESS;
}

void execute_establish(struct qp *qp)
{
	if (qp->comm_established || qp_state(qp) != IBV_QPS_RTR)
		return;
	qp->comm_established = true;
	qp_raise(qp, IBV_EVENT_COMM_EST);
}

enum verdict execute_check_right(const struct qp *qp, uint32_t right, enum cause *cause)
{
	if ((qp->attr.qp_access_flags & right) == right)
		return VERDICT_OK;
	*cause = CAUSE_QP_ACCESS;
	return VERDICT_ACCESS;
}

enum verdict execute_invalidate(struct qp *qp, uint32_t rkey, uint32_t *revoked, enum cause *cause)
{
	*cause = mw_invalidate_once(rkey, qp->remote_pd, qp->ib.qp_num, revoked);
	if (*cause == CAUSE_COPY_UNFINISHED)
		return VERDICT_REVOKING;
	return *cause == CAUSE_NONE ? VERDICT_OK : VERDICT_INVALIDATE;
}

enum verdict execute_write(struct qp *qp, const struct remote_range *range,
			   const struct iovec *pieces, int count, uint32_t bytes, enum cause *cause)
{
	if (count == 1)
		*cause = memory_write_remote(qp_peer(qp), range->rkey, range->address,
					     range->length, pieces->iov_base, bytes);
	else
		*cause = memory_write_remote_pieces(qp_peer(qp), range->rkey, range->address,
						    range->length, pieces, count, bytes);
	return access_verdict(*cause);
}

enum verdict execute_check_read(const struct qp *qp, const struct remote_range *range, uint32_t pd,
				enum cause *cause)
{
	struct arena_hazard *hazard;
	enum key_verdict verdict;
	uint64_t host;
	uint32_t flags;

	if (!range->length)
		return VERDICT_OK;
	/* so that the entry stays as it is while it is read (ibv_rereg_mr) */
	hazard = hazard_set(memory_slot(), range->rkey);
	verdict = key_check(key_table(), range->rkey, pd, qp->ib.qp_num, range->address,
			    range->length, IBV_ACCESS_REMOTE_READ, &host, &flags);
	hazard_clear(hazard);
	if (verdict == KEY_OK)
		return VERDICT_OK;
	*cause = key_cause_remote(verdict);
	return VERDICT_ACCESS;
}

static enum verdict check_aligned(const struct remote_range *range, enum cause *cause)
{
	if (range->address % sizeof(uint64_t) == 0)
		return VERDICT_OK;
	*cause = CAUSE_ATOMIC_UNALIGNED;
	return VERDICT_INVALID;
}

static enum verdict on_word(struct qp *qp, enum operation operation,
			    const struct remote_range *range, const struct operands *operands,
			    uint64_t *before, enum cause *cause)
{
	enum verdict verdict = execute_check_right(qp, atomic_right(operation), cause);

	if (verdict == VERDICT_OK && range->length != sizeof(*before))
		verdict = VERDICT_INVALID;
	if (verdict == VERDICT_OK)
		verdict = check_aligned(range, cause);
	if (verdict != VERDICT_OK)
		return verdict;
	*cause = atomic_execute(qp, operation, range->rkey, range->address, operands, before);
	return access_verdict(*cause);
}

/* The access rights that the QP and the region have to grant. */
static uint32_t flush_rights(uint64_t types)
{
	return (types & COMPAT_FLUSH_GLOBAL ? COMPAT_ACCESS_FLUSH_GLOBAL : 0) |
	       (types & COMPAT_FLUSH_PERSISTENT ? COMPAT_ACCESS_FLUSH_PERSISTENT : 0);
}

/*
 * Makes earlier writes visible to all. A QP that does not grant FLUSH refuses it as an invalid
 * request, not as an access error (IBA 9.7.4.1.10).
 */
static enum verdict on_flush(struct qp *qp, const struct remote_range *range,
			     const struct operands *operands, enum cause *cause)
{
	uint64_t types = operands->swap_add, level = operands->compare;

	if (!types || types & ~(uint64_t)(COMPAT_FLUSH_GLOBAL | COMPAT_FLUSH_PERSISTENT) ||
	    level > COMPAT_FLUSH_MR ||
	    execute_check_right(qp, flush_rights(types), cause) != VERDICT_OK)
		return VERDICT_INVALID;
	*cause = memory_flush_remote(qp_peer(qp), range->rkey, range->address, range->length,
				     flush_rights(types), level == COMPAT_FLUSH_MR);
	return access_verdict(*cause);
}

enum verdict execute_single(struct qp *qp, enum operation operation,
			    const struct remote_range *range, const struct operands *operands,
			    uint64_t *before, enum cause *cause)
{
	*before = 0;
	if (operation_is_of_a_word(operation))
		return on_word(qp, operation, range, operands, before, cause);
	if (operation == OPERATION_FLUSH)
		return on_flush(qp, range, operands, cause);
	return VERDICT_INVALID;
}
