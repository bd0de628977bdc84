/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/atomic.h"

#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/memory.h"

static uint64_t execute(bool compare_swap, uint64_t *word, uint64_t first, uint64_t second)
{
	if (!compare_swap)
		return __atomic_fetch_add(word, first, __ATOMIC_SEQ_CST);
	/* on failure this stores the present value in `first`, so `first` is the original value */
	__atomic_compare_exchange_n(word, &first, second, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return first;
}

/*
 * The address of the word; NULL and a cause, or CAUSE_NONE for the null MR. The caller has set the
 * hazard of the key.
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
		return NULL;
	else if (host % 8)
		*cause = CAUSE_ATOMIC_UNALIGNED;
	else if (!memory_is_writable(host))
		*cause = CAUSE_MEMORY_FAULT_REMOTE;
	return *cause == CAUSE_NONE ? (uint64_t *)(uintptr_t)host : NULL;
}

enum cause atomic_execute(struct qp *qp, bool compare_swap, uint32_t rkey, uint64_t address,
			  uint64_t first, uint64_t second, uint64_t *before)
{
	struct arena_hazard *hazard = hazard_set(memory_slot(), rkey);
	enum cause cause;
	uint64_t *word = find_word(qp, rkey, address, IBV_ACCESS_REMOTE_ATOMIC, &cause);

	if (cause == CAUSE_NONE)
		*before = word ? execute(compare_swap, word, first, second) : 0;
	hazard_clear(hazard);
	return cause;
}

enum cause atomic_write(struct qp *qp, uint32_t rkey, uint64_t address, uint64_t value)
{
	struct arena_hazard *hazard = hazard_set(memory_slot(), rkey);
	enum cause cause;
	uint64_t *word = find_word(qp, rkey, address, IBV_ACCESS_REMOTE_WRITE, &cause);

	if (word)
		__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	hazard_clear(hazard);
	return cause;
}
