/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/atomic.h"

#include "base/fence.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/memory.h"

static uint64_t apply(enum operation operation, uint64_t *word, struct operands operands)
{
	switch (operation) {
	case OPERATION_COMPARE_SWAP:
		/* on failure this stores the present value in `compare`: the original value, too */
		__atomic_compare_exchange_n(word, &operands.compare, operands.swap_add, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		return operands.compare;
	case OPERATION_FETCH_ADD:
		return __atomic_fetch_add(word, operands.swap_add, __ATOMIC_SEQ_CST);
	case OPERATION_ATOMIC_WRITE:
		return __atomic_exchange_n(word, operands.swap_add, __ATOMIC_SEQ_CST);
	default: /* changes no word */
		return __atomic_load_n(word, __ATOMIC_SEQ_CST);
	}
}

/*
 * Barrier WORD: between all requests of a QP before it and all after it, whoever executes them. An
 * ATOMIC_WRITE comes after all earlier WRITEs, and a READ after the word has changed.
 */
uint64_t atomic_apply(enum operation operation, uint64_t *word, struct operands operands)
{
	uint64_t before;

	fence_before_atomic();
	before = apply(operation, word, operands);
	fence_after_atomic();
	return before;
}

/*
 * The address of the word, or NULL and a cause. The caller has set the hazard of the key. Memory of
 * another process, which an imported region names, has no address here.
 */
static uint64_t *find_word(const struct qp *qp, uint32_t rkey, uint64_t address, uint32_t right,
			   enum cause *cause)
{
	enum key_verdict verdict;
	uint64_t host;
	uint32_t flags;

	*cause = CAUSE_NONE;
	verdict = key_check(key_table(), rkey, qp->remote_pd, qp->ib.qp_num, address,
			    sizeof(uint64_t), right, &host, &flags);
	if (verdict != KEY_OK)
		*cause = key_cause_remote(verdict);
	else if (flags & KEY_NULL)
		*cause = CAUSE_RKEY_ACCESS;
	else if (host % 8)
		*cause = CAUSE_ATOMIC_UNALIGNED;
	else if (!memory_is_writable(host))
		*cause = CAUSE_MEMORY_FAULT_REMOTE;
	return *cause == CAUSE_NONE ? (uint64_t *)(uintptr_t)host : NULL;
}

enum cause atomic_execute(struct qp *qp, enum operation operation, uint32_t rkey, uint64_t address,
			  const struct operands *operands, uint64_t *before)
{
	struct arena_hazard *hazard = hazard_set(memory_slot(), rkey);
	enum cause cause;
	uint64_t *word = find_word(qp, rkey, address, atomic_right(operation), &cause);

	if (cause == CAUSE_NONE)
		*before = atomic_apply(operation, word, *operands);
	hazard_clear(hazard);
	return cause;
}
