#include "local/atomic.h"

#include "local/local_qp.h"
#include "local/memory.h"
#include "object/key.h"
#include "object/pin.h"
#include "object/touch.h"

static uint64_t execute(enum record_kind kind, uint64_t *word, uint64_t first, uint64_t second)
{
	if (kind == RECORD_FETCH_ADD)
		return __atomic_fetch_add(word, first, __ATOMIC_SEQ_CST);
	/* on failure `first` becomes what is there: the value before in both cases */
	__atomic_compare_exchange_n(word, &first, second, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return first;
}

/*
 * Ordinary regions were found writable at registration; on-demand memory may be anything by now,
 * and a locked instruction on a page that is read-only is a signal.
 */
static bool is_there(uint64_t host, uint32_t flags)
{
	uint64_t probe;

	if (flags & KEY_ON_DEMAND)
		return pin_range((void *)(uintptr_t)host, sizeof(probe), true) == 0;
	return memory_copy_from(&probe, host, sizeof(probe)) == 0;
}

enum cause atomic_execute(struct qp *qp, enum record_kind kind, uint32_t rkey, uint64_t address,
			  uint64_t first, uint64_t second, uint64_t *before)
{
	struct arena_touch *touch = touch_begin(local_env.slot, rkey);
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
	else if (!is_there(host, flags))
		cause = CAUSE_MEMORY_FAULT_REMOTE;
	else
		*before = execute(kind, (uint64_t *)(uintptr_t)host, first, second);
	touch_end(touch);
	return cause;
}
