#include "object/atomic.h"

#include "object/memory.h"
#include "object/key.h"
#include "object/touch.h"

static uint64_t execute(bool compare_swap, uint64_t *word, uint64_t first, uint64_t second)
{
	if (!compare_swap)
		return __atomic_fetch_add(word, first, __ATOMIC_SEQ_CST);
	/* on failure `first` becomes what is there: the value before in both cases */
	__atomic_compare_exchange_n(word, &first, second, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return first;
}

enum cause atomic_execute(struct qp *qp, bool compare_swap, uint32_t rkey, uint64_t address,
			  uint64_t first, uint64_t second, uint64_t *before)
{
	struct arena_touch *touch = touch_begin(memory_slot(), rkey);
	enum cause cause = CAUSE_NONE;
	enum key_verdict verdict;
	uint64_t host;
	uint32_t flags;

	verdict = key_check(mr_keys(), rkey, qp->pd->number, qp->ib.qp_num, address, sizeof(*before),
			    IBV_ACCESS_REMOTE_ATOMIC, &host, &flags);
	if (verdict != KEY_OK)
		cause = key_cause_remote(verdict);
	else if (flags & KEY_NULL)
		*before = 0;
	else if (host % 8)
		cause = CAUSE_ATOMIC_UNALIGNED;
	else if (!memory_is_writable(host))
		cause = CAUSE_MEMORY_FAULT_REMOTE;
	else
		*before = execute(compare_swap, (uint64_t *)(uintptr_t)host, first, second);
	touch_end(touch);
	return cause;
}
