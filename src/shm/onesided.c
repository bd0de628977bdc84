/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/onesided.h"

#include <errno.h>
#include <string.h>

#include "execute/atomic.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/memory.h"
#include "shm/xcopy.h"

/* Bytes of one system call. */
#define SLICE_BYTES (256 * 1024)
/* Bytes that are gathered first, so that one look at each local key does. */
#define SMALL_BYTES 256

/* The target's QP is connected to ours, and grants the right. */
static bool target_agrees(struct qp *qp, struct link *link, uint32_t right, uint32_t *pd)
{
	struct arena_qp *target = peer_arena_qp(&link->arena, qp->attr.dest_qp_num);
	uint32_t word = atomic_load_explicit(&target->word, memory_order_acquire); /* QPENTRY */
	uint32_t state = ARENA_QP_STATE(word);

	*pd = target->pd;
	return word != 0 && ARENA_QP_TYPE(word) == qp->type &&
	       (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
	       target->dest_qpn == qp->ib.qp_num && target->rq_psn == qp->attr.sq_psn &&
	       (target->access & right);
}

/*
 * Whether copy_mapped checks all local keys of the slice before it stores anything. Others are
 * checked before, so that a failure then means that a key was revoked meanwhile.
 */
static bool is_checked_by_copy(const struct wqe *wqe, bool read, size_t bytes)
{
	if (wqe->flags & IBV_SEND_INLINE)
		return true;
	if (read ? wqe->num_sge != 1 : bytes > SMALL_BYTES)
		return false;
	/* A copy of an imported region may take long; a hazard on the R_Key must not last so long.
	 */
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		if (atomic_load_explicit(&key_entry(KEY_INDEX(wqe->sge[i].lkey))->flags,
					 memory_order_relaxed) &
		    KEY_NULL)
			return false;
	return true;
}

/* Target memory that is mapped here: plain loads and stores. */
static enum onesided copy_mapped(struct shm_qp *lq, struct wqe *wqe, char *target, size_t bytes,
				 enum cause *cause)
{
	bool read = opcode_operation(wqe->opcode) == OPERATION_READ;
	size_t tail = ((uintptr_t)target + bytes) & 7;
	uint32_t pd = lq->qp->pd->number;
	char small[SMALL_BYTES];
	uint64_t last;

	/* Barrier READ-1: a READ's loads come after the stores of the WRITEs before it. */
	if (read && lq->stored)
		atomic_thread_fence(memory_order_seq_cst);
	lq->stored = !read;
	if (read) {
		*cause = memory_scatter(wqe->sge, wqe->num_sge, pd, wqe->done, target, bytes);
		/* Barrier READ-2: and before all that follows it. */
		atomic_thread_fence(memory_order_acquire);
	} else if (wqe->flags & IBV_SEND_INLINE) {
		memory_copy_ordered(target, wqe->inline_data + wqe->done, bytes);
	} else if (bytes <= SMALL_BYTES) {
		*cause = memory_gather(wqe->sge, wqe->num_sge, pd, wqe->done, small, bytes);
		if (*cause == CAUSE_NONE)
			memory_copy_ordered(target, small, bytes);
	} else {
		if (!tail)
			tail = sizeof(last);
		*cause = memory_gather(wqe->sge, wqe->num_sge, pd, wqe->done, target, bytes - tail);
		if (*cause == CAUSE_NONE)
			*cause = memory_gather(wqe->sge, wqe->num_sge, pd, wqe->done + bytes - tail,
					       &last, tail);
		if (*cause == CAUSE_NONE) {
			/* Barrier LAST (CONTRACT 27): the last word last */
			atomic_thread_fence(memory_order_release);
			memory_copy_ordered(target + bytes - tail, &last, tail);
		}
	}
	return *cause == CAUSE_NONE ? ONESIDED_DONE : ONESIDED_LOCAL_ERROR;
}

static void explain_stay(struct link *link, const struct arena_key *entry, const char *why)
{
	if (!atomic_load_explicit(&link->stays_told, memory_order_relaxed) &&
	    entry->length >= HEAP_REGION_MIN && !atomic_exchange(&link->stays_told, true))
		cause_report(CAUSE_REGION_STAYS, 0, "0x%llx, %llu bytes, of process %d, %s",
			     (unsigned long long)entry->addr, (unsigned long long)entry->length,
			     (int)link->pid, why);
}

/*
 * A request outside of the heap: asks the owner to migrate the region when that pays. Holds no
 * tx_lock.
 */
static void want(struct shm_qp *lq, uint32_t key, uint32_t flags, size_t bytes)
{
	struct link *link = lq->link;
	struct arena_key *entry = peer_arena_key(&link->arena, KEY_INDEX(key));
	struct record *record;

	if (flags & KEY_STAYS)
		explain_stay(link, entry, "whose reports say why");
	if (link->xcopy == XCOPY_SELF || flags & KEY_STAYS || entry->heap ||
	    !heap_pays(&link->heap, key, entry->length, bytes))
		return;
	/* thousands of requests ago: its process keeps the request until its threads all stand */
	if (atomic_load_explicit(&link->asked_key, memory_order_relaxed) == key)
		explain_stay(
			link, entry,
			"which was asked for it: perhaps some thread of it has not called verbs");
	atomic_store_explicit(&link->asked_key, key, memory_order_relaxed);
	lock_acquire(&link->tx_lock);
	record = link->alive ? ring_reserve(&link->tx, 0, RING_FOR_NAKS) : NULL;
	if (record) {
		record->header = (struct record_header){ .rkey = key };
		ring_publish(&link->tx, record, record_word(RECORD_MIGRATE, 0, 0));
		heap_asked(&link->heap, key);
		lq->published = true;
	}
	lock_release(&link->tx_lock);
}

/*
 * The slice's target in our mapping of the heap, or NULL; reduces *bytes to those that are alike.
 */
static char *find_mapped(struct link *link, const struct arena_key *entry, uint64_t host,
			 size_t *bytes)
{
	uint64_t place;

	if (link->xcopy == XCOPY_SELF)
		return NULL; /* the kernel copies: the program may have unmapped it (CONTRACT 6) */
	place = heap_place(entry, host, bytes);
	return place ? heap_map(&link->heap, place, bytes) : NULL;
}

/*
 * Before the first slice of several: the SGEs of the later ones, too, so that a bad one leaves the
 * target as it is (CONTRACT 16), as with messages.
 */
static enum cause check_all(const struct qp *qp, const struct wqe *wqe, size_t slice,
			    uint32_t access)
{
	if (wqe->done || slice == wqe->length || wqe->flags & IBV_SEND_INLINE)
		return CAUSE_NONE;
	return memory_check(wqe->sge, wqe->num_sge, qp->pd->number, access);
}

/* What of the slice is in pieces, which the caller has protected. */
static enum onesided copy_by_kernel(struct shm_qp *lq, const struct wqe *wqe, uint64_t host,
				    const struct iovec *iov, int pieces, size_t bytes,
				    enum cause *cause)
{
	bool read = opcode_operation(wqe->opcode) == OPERATION_READ;

	switch (xcopy_move(lq->link, read ? XCOPY_READ : XCOPY_WRITE, iov, pieces, host, bytes)) {
	case 0:
		return ONESIDED_DONE;
	case -EFAULT:
		if (memory_probe(iov, pieces))
			return ONESIDED_BY_MESSAGE;
		*cause = CAUSE_MEMORY_FAULT_LOCAL;
		return ONESIDED_LOCAL_ERROR;
	default:
		return ONESIDED_BY_MESSAGE;
	}
}

/* The SGEs of one L_Key at a time, with a hazard on it: a thread that ends that key waits. */
static enum onesided copy_private(struct shm_qp *lq, struct wqe *wqe, uint64_t host, uint32_t flags,
				  uint32_t access, size_t *slice, enum cause *cause)
{
	struct qp *qp = lq->qp;
	struct iovec iov[SQ_SGE_MAX];
	struct arena_hazard *hazard;
	enum onesided result = ONESIDED_LOCAL_ERROR;
	int pieces;

	if (wqe->flags & IBV_SEND_INLINE) {
		want(lq, wqe->rkey, flags, *slice);
		iov[0] = (struct iovec){ wqe->inline_data + wqe->done, *slice };
		return copy_by_kernel(lq, wqe, host, iov, 1, *slice, cause);
	}
	pieces = memory_pieces(wqe->sge, wqe->num_sge, qp->pd->number, access, wqe->done, slice,
			       iov, SQ_SGE_MAX, &hazard, cause);
	if (!pieces)
		return *cause != CAUSE_NONE ? ONESIDED_LOCAL_ERROR : ONESIDED_BY_MESSAGE;
	*cause = check_all(qp, wqe, *slice, access);
	if (*cause == CAUSE_NONE) {
		want(lq, wqe->rkey, flags, *slice);
		result = copy_by_kernel(lq, wqe, host, iov, pieces, *slice, cause);
	}
	hazard_clear(hazard);
	return result;
}

static enum onesided copy_slice(struct shm_qp *lq, struct wqe *wqe, uint64_t host, uint32_t flags,
				size_t *slice, enum cause *cause)
{
	struct link *link = lq->link;
	struct arena_key *entry = peer_arena_key(&link->arena, KEY_INDEX(wqe->rkey));
	char *mapped = find_mapped(link, entry, host, slice);
	bool read = opcode_operation(wqe->opcode) == OPERATION_READ;
	uint32_t access = read ? IBV_ACCESS_LOCAL_WRITE : 0;

	if (!mapped)
		return copy_private(lq, wqe, host, flags, access, slice, cause);
	*cause = check_all(lq->qp, wqe, *slice, access);
	if (*cause != CAUSE_NONE)
		return ONESIDED_LOCAL_ERROR;
	if (!is_checked_by_copy(wqe, read, *slice) &&
	    !memory_check_part(wqe->sge, wqe->num_sge, lq->qp->pd->number, access, wqe->done,
			       *slice, cause))
		return *cause != CAUSE_NONE ? ONESIDED_LOCAL_ERROR : ONESIDED_BY_MESSAGE;
	return copy_mapped(lq, wqe, mapped, *slice, cause);
}

static enum cause take_operand(struct qp *qp, struct wqe *wqe, uint64_t *operand)
{
	if (!(wqe->flags & IBV_SEND_INLINE))
		return memory_gather(wqe->sge, wqe->num_sge, qp->pd->number, 0, operand,
				     sizeof(*operand));
	memcpy(operand, wqe->inline_data, sizeof(*operand));
	return CAUSE_NONE;
}

/*
 * An atomic or ATOMIC_WRITE: on the word of the heap itself, which the owner's program and its
 * responder use, too (CONTRACT 19). A word outside of the heap is left to the responder.
 */
static enum onesided change_word(struct shm_qp *lq, struct wqe *wqe, uint64_t host, uint32_t flags,
				 size_t *bytes, enum cause *cause)
{
	struct qp *qp = lq->qp;
	struct arena_key *entry = peer_arena_key(&lq->link->arena, KEY_INDEX(wqe->rkey));
	enum operation operation = opcode_operation(wqe->opcode);
	bool answered = operation_brings_data(operation);
	struct operands operands = wqe->operands;
	char *mapped = find_mapped(lq->link, entry, host, bytes);
	uint64_t before;

	if (!mapped || (host | (uintptr_t)mapped) % sizeof(before) || *bytes != sizeof(before)) {
		want(lq, wqe->rkey, flags, sizeof(before));
		return ONESIDED_BY_MESSAGE;
	}
	if (!(wqe->flags & IBV_SEND_INLINE) &&
	    !memory_check_part(wqe->sge, wqe->num_sge, qp->pd->number,
			       answered ? IBV_ACCESS_LOCAL_WRITE : 0, 0, sizeof(before), cause))
		return *cause != CAUSE_NONE ? ONESIDED_LOCAL_ERROR : ONESIDED_BY_MESSAGE;
	*cause = answered ? CAUSE_NONE : take_operand(qp, wqe, &operands.swap_add);
	if (*cause != CAUSE_NONE)
		return ONESIDED_LOCAL_ERROR;
	before = atomic_apply(operation, (uint64_t *)mapped, operands);
	if (answered)
		*cause = memory_scatter(wqe->sge, wqe->num_sge, qp->pd->number, 0, &before,
					sizeof(before));
	return *cause == CAUSE_NONE ? ONESIDED_DONE : ONESIDED_LOCAL_ERROR;
}

static uint32_t right_of(enum operation operation)
{
	return operation == OPERATION_READ ? IBV_ACCESS_REMOTE_READ : atomic_right(operation);
}

/*
 * Checks the whole range, so that nothing is written if any of it is not allowed. False: the
 * responder has to see the request. The caller has set a hazard, or takes the answer for a guess.
 */
static bool check_target(const struct shm_qp *lq, const struct wqe *wqe, uint32_t pd,
			 uint64_t *host, uint32_t *flags)
{
	struct link *link = lq->link;
	uint32_t right = right_of(opcode_operation(wqe->opcode));

	return key_check_entry(peer_arena_key(&link->arena, KEY_INDEX(wqe->rkey)), wqe->rkey, pd,
			       lq->qp->attr.dest_qp_num, wqe->remote_addr, wqe->length, right, host,
			       flags) == KEY_OK &&
	       !(*flags & KEY_NULL) && (!(*flags & KEY_MOVING) || link->xcopy == XCOPY_SELF);
}

bool onesided_is_mapped(struct shm_qp *lq, const struct wqe *wqe)
{
	struct link *link = lq->link;
	const struct arena_key *entry = peer_arena_key(&link->arena, KEY_INDEX(wqe->rkey));
	uint32_t pd = peer_arena_qp(&link->arena, lq->qp->attr.dest_qp_num)->pd, flags;
	size_t bytes = wqe->length;
	uint64_t host;

	if (link->xcopy == XCOPY_SELF || !check_target(lq, wqe, pd, &host, &flags))
		return false;
	if (heap_place(entry, host, &bytes) && bytes == wqe->length)
		return true;
	want(lq, wqe->rkey, flags, wqe->length);
	return false;
}

enum onesided onesided_execute(struct shm_qp *lq, struct wqe *wqe, int64_t *budget,
			       enum cause *cause)
{
	struct qp *qp = lq->qp;
	struct link *link = lq->link;
	enum operation operation = opcode_operation(wqe->opcode);
	enum onesided result = ONESIDED_DONE;
	uint32_t pd;

	if (!target_agrees(qp, link, right_of(operation), &pd))
		return ONESIDED_BY_MESSAGE;
	while (wqe->done < wqe->length) {
		size_t bytes = wqe->length - wqe->done;
		struct arena_hazard *hazard;
		uint64_t host;
		uint32_t flags;

		if (*budget <= 0)
			return ONESIDED_TURN_OVER;
		if (bytes > SLICE_BYTES)
			bytes = SLICE_BYTES;
		hazard = hazard_set(link->slot, wqe->rkey);
		if (!check_target(lq, wqe, pd, &host, &flags))
			result = ONESIDED_BY_MESSAGE;
		else if (operation_is_of_a_word(operation))
			result = change_word(lq, wqe, host, flags, &bytes, cause);
		else
			result = copy_slice(lq, wqe, host + wqe->done, flags, &bytes, cause);
		hazard_clear(hazard);
		if (result != ONESIDED_DONE)
			return result;
		wqe->done += bytes;
		shm_moved += bytes;
		*budget -= bytes;
	}
	return ONESIDED_DONE;
}
