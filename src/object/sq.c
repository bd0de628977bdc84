/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/sq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compat.h"
#include "memory/memory.h"
#include "object/ah.h"
#include "object/limits.h"
#include "object/mw.h"

static size_t copies_bytes(const struct sq *sq)
{
	size_t places = (size_t)sq->mask + 1;

	return (places < SQ_COPIES ? places : SQ_COPIES) * SQ_COPY_BYTES;
}

int sq_init(struct sq *sq, const struct ibv_qp_cap *cap, bool sig_all, bool datagrams)
{
	uint32_t data = cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge), size = 1;
	void *ring, *copies = NULL;

	memset(sq, 0, sizeof(*sq));
	sq->max_wr = cap->max_send_wr;
	sq->max_sge = cap->max_send_sge;
	sq->max_inline = cap->max_inline_data;
	sq->sig_all = sig_all;
	if (sq->max_inline > data)
		data = sq->max_inline;
	sq->stride = (uint32_t)(sizeof(struct wqe) + data + 63) & ~63u;
	if (sq->max_wr == 0)
		return 0;
	while (size < sq->max_wr)
		size *= 2;
	/* Not zeroed: the kernel allocates pages when they are first written. */
	if (posix_memalign(&ring, 64, (size_t)size * sq->stride))
		return -ENOMEM;
	sq->mask = size - 1;
	/* glibc copies 4 KiB by REP MOVSB, which is twice as slow to an unaligned address */
	if (datagrams && posix_memalign(&copies, 64, copies_bytes(sq))) {
		free(ring);
		return -ENOMEM;
	}
	sq->ring = ring;
	sq->copies = copies;
	return 0;
}

void sq_fini(struct sq *sq)
{
	for (; sq->head != sq->tail; sq->head++)
		sq_drop(sq, sq_wqe(sq, sq->head));
	free(sq->ring);
	free(sq->copies);
	sq->ring = NULL;
	sq->copies = NULL;
}

/* Where the data of a request is copied to; NULL: there is no memory. */
static uint8_t *take_copy(const struct sq *sq, uint32_t seq, uint32_t bytes)
{
	size_t at = (size_t)(seq & sq->mask) * SQ_COPY_BYTES;

	return at < copies_bytes(sq) && bytes <= SQ_COPY_BYTES ? sq->copies + at : malloc(bytes);
}

static void drop_copy(const struct sq *sq, struct wqe *wqe)
{
	if ((uintptr_t)wqe->kept - (uintptr_t)sq->copies >= copies_bytes(sq))
		free(wqe->kept);
	wqe->kept = NULL;
}

void sq_drop(struct sq *sq, struct wqe *wqe)
{
	if (!wqe->ah)
		return; /* only datagrams hold references and memory */
	ah_put(wqe->ah);
	wqe->ah = NULL;
	drop_copy(sq, wqe);
}

static int report_full(struct sq *sq)
{
	if (!sq->full_reported) {
		sq->full_reported = true;
		cause_report(CAUSE_QUEUE_FULL, sq->qpn, "send queue of %u requests", sq->max_wr);
	}
	return ENOMEM;
}

int sq_begin(struct sq *sq, enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned int flags,
	     struct wqe **wqe)
{
	struct wqe *new;

	if (!opcode_find(opcode, sq->type)) {
		cause_report(CAUSE_OPCODE_UNSUPPORTED, sq->qpn, "opcode %d, QP type %d", opcode,
			     sq->type);
		return EINVAL;
	}
	new = sq_reserve(sq);
	if (!new)
		return report_full(sq);
	memset(new, 0, sizeof(*new));
	new->wr_id = wr_id;
	new->opcode = (uint8_t)opcode;
	new->flags = (uint8_t)(flags & ~(unsigned int)IBV_SEND_INLINE);
	if (sq->sig_all)
		new->flags |= IBV_SEND_SIGNALED;
	new->state = WQE_POSTED;
	*wqe = new;
	return 0;
}

int sq_set_sges(struct sq *sq, struct wqe *wqe, const struct ibv_sge *list, size_t count)
{
	uint64_t length = 0;

	if (count > sq->max_sge) {
		cause_report(CAUSE_TOO_MANY_SGE, sq->qpn, "request 0x%llx has %zu, at most %u",
			     (unsigned long long)wqe->wr_id, count, sq->max_sge);
		return EINVAL;
	}
	for (size_t i = 0; i < count; i++) {
		wqe->sge[i] = list[i];
		length += list[i].length;
	}
	if (length > LIMIT_MESSAGE) {
		cause_report(CAUSE_MESSAGE_TOO_LONG, sq->qpn, "%llu bytes, at most %u",
			     (unsigned long long)length, LIMIT_MESSAGE);
		return EINVAL;
	}
	wqe->flags &= (uint8_t)~IBV_SEND_INLINE;
	wqe->num_sge = (uint8_t)count;
	wqe->length = (uint32_t)length;
	return 0;
}

int sq_set_inline(struct sq *sq, struct wqe *wqe)
{
	if (!operation_has_payload(opcode_operation(wqe->opcode))) {
		cause_report(CAUSE_ARGUMENT_INVALID, sq->qpn, "inline data with opcode %d",
			     wqe->opcode);
		return EINVAL;
	}
	wqe->flags |= IBV_SEND_INLINE;
	wqe->num_sge = 0;
	wqe->length = 0;
	return 0;
}

int sq_add_inline(struct sq *sq, struct wqe *wqe, const void *data, size_t length)
{
	if (length > sq->max_inline - wqe->length) {
		cause_report(CAUSE_INLINE_TOO_LONG, sq->qpn, "%zu bytes, at most %u",
			     wqe->length + length, sq->max_inline);
		return EINVAL;
	}
	if (length)
		memcpy(wqe->inline_data + wqe->length, data, length);
	wqe->length += (uint32_t)length;
	return 0;
}

int sq_set_ah(struct sq *sq, struct wqe *wqe, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	if (!ah) {
		cause_report(CAUSE_AH_INVALID, sq->qpn, "a datagram without address handle");
		return EINVAL;
	}
	sq_drop(sq, wqe);
	wqe->ah = ah_of(ah);
	ah_get(wqe->ah);
	wqe->remote_qpn = qpn;
	wqe->remote_qkey = qkey;
	return 0;
}

void sq_set_bind(struct wqe *wqe, struct ibv_mw *mw, uint32_t rkey,
		 const struct ibv_mw_bind_info *info)
{
	wqe->rkey = rkey;
	wqe->window = mw ? mw_of(mw)->key : 0;
	wqe->region = info->mr ? info->mr->lkey : 0;
	wqe->bind = *info;
	wqe->bind.mr = NULL;
}

int sq_end(struct sq *sq, struct wqe *wqe)
{
	if (sq->type == IBV_QPT_UD && !wqe->ah) {
		cause_report(CAUSE_AH_INVALID, sq->qpn, "a datagram without address handle");
		return EINVAL;
	}
	if (sq->type == IBV_QPT_RAW_PACKET && wqe->flags & IBV_SEND_IP_CSUM) {
		cause_report(CAUSE_FLAGS_UNKNOWN, sq->qpn, "IBV_SEND_IP_CSUM");
		return EINVAL;
	}
	sq->tail++;
	return 0;
}

static int push_data(struct sq *sq, struct wqe *wqe, const struct ibv_send_wr *wr)
{
	int error;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > sq->max_sge) {
		cause_report(CAUSE_TOO_MANY_SGE, sq->qpn, "request 0x%llx has %d, at most %u",
			     (unsigned long long)wr->wr_id, wr->num_sge, sq->max_sge);
		return EINVAL;
	}
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return sq_set_sges(sq, wqe, wr->sg_list, (size_t)wr->num_sge);
	error = sq_set_inline(sq, wqe);
	for (int i = 0; i < wr->num_sge && !error; i++)
		error = sq_add_inline(sq, wqe, (const void *)(uintptr_t)wr->sg_list[i].addr,
				      wr->sg_list[i].length);
	return error;
}

/* The members of `wr` that the operation has. */
static void set_remote(struct wqe *wqe, enum operation operation, const struct ibv_send_wr *wr)
{
	if (operation_is_atomic(operation)) {
		uint64_t compare_add = wr->wr.atomic.compare_add;

		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->operands = operation_has_compare(operation)
					? (struct operands){ wr->wr.atomic.swap, compare_add }
					: (struct operands){ compare_add, 0 };
	} else if (operation != OPERATION_SEND) {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
}

int sq_push(struct sq *sq, const struct ibv_send_wr *wr)
{
	enum operation operation;
	struct wqe *wqe;
	int error;

	/* struct ibv_send_wr has no fields for FLUSH: only ibv_wr_flush posts it */
	if ((int)wr->opcode == COMPAT_WR_FLUSH) {
		cause_report(CAUSE_OPCODE_UNSUPPORTED, sq->qpn, "FLUSH by ibv_post_send");
		return EINVAL;
	}
	error = sq_begin(sq, wr->opcode, wr->wr_id, wr->send_flags, &wqe);
	if (error)
		return error;
	operation = opcode_operation(wqe->opcode);
	wqe->imm = wr->imm_data;
	if (sq->type == IBV_QPT_XRC_SEND)
		wqe->remote_srqn = wr->qp_type.xrc.remote_srqn;
	if (operation == OPERATION_BIND)
		sq_set_bind(wqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	if (operation_is_of_this_end(operation))
		return sq_end(sq, wqe);
	set_remote(wqe, operation, wr);
	error = push_data(sq, wqe, wr);
	if (!error && sq->type == IBV_QPT_UD)
		error = sq_set_ah(sq, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
				  wr->wr.ud.remote_qkey);
	if (!error)
		error = sq_end(sq, wqe);
	if (error)
		sq_drop(sq, wqe);
	return error;
}

void sq_keep_data(struct sq *sq, uint32_t from, uint32_t pd, uint32_t mtu)
{
	for (uint32_t seq = from; seq != sq->tail; seq++) {
		struct wqe *wqe = sq_wqe(sq, seq);

		if (wqe->state == WQE_DONE || wqe_data(wqe) || wqe->length > mtu || !wqe->length)
			continue;
		wqe->kept = take_copy(sq, seq, wqe->length);
		if (wqe->kept && memory_gather(wqe->sge, wqe->num_sge, pd, 0, wqe->kept,
					       wqe->length) != CAUSE_NONE)
			drop_copy(sq, wqe);
	}
}

void sq_roll_back(struct sq *sq, uint32_t tail)
{
	while (sq->tail != tail)
		sq_drop(sq, sq_wqe(sq, --sq->tail));
}

void sq_clear(struct sq *sq)
{
	for (; sq->head != sq->tail; sq->head++)
		sq_drop(sq, sq_wqe(sq, sq->head));
	sq->issue = sq->tail;
	atomic_store_explicit(&sq->released, sq->tail, memory_order_release);
}

#ifdef VERBATIM_CHECK
#define AT_EACH_END 8 /* requests of each part of the queue; of all now and then */

/* One request: its SGEs fit, and its state is that of its part of the queue. */
static void check_wqe(const struct sq *sq, uint32_t seq)
{
	const struct wqe *wqe = sq_wqe((struct sq *)sq, seq);
	bool issued = seq - sq->head < sq->issue - sq->head;

	INVARIANT(wqe->num_sge <= sq->max_sge, "QP 0x%06x request %u: %u SGEs, at most %u", sq->qpn,
		  seq, wqe->num_sge, sq->max_sge);
	INVARIANT(wqe->state == WQE_DONE || wqe->state == (issued ? WQE_ISSUED : WQE_POSTED),
		  "QP 0x%06x request %u: state %u, head %u issue %u tail %u", sq->qpn, seq,
		  wqe->state, sq->head, sq->issue, sq->tail);
}

static void check_wqes(const struct sq *sq, uint32_t from, uint32_t to, bool all)
{
	for (uint32_t seq = from; seq != to; seq++) {
		if (!all && seq - from == AT_EACH_END && to - seq > AT_EACH_END)
			seq = to - AT_EACH_END;
		check_wqe(sq, seq);
	}
}

/*
 * Invariants of an SQ, in sequence numbers:
 * - released <= head <= issue <= tail;
 * - tail - released <= max_wr <= places of the ring;
 * - from head to issue no request is POSTED, and from issue to tail none is ISSUED. One after
 *   `issue` may be DONE, if it was executed before the requester went back;
 * - no request has more SGEs than were granted.
 */
void sq_check(const struct sq *sq)
{
	uint32_t released = atomic_load_explicit(&sq->released, memory_order_acquire);
	uint32_t used = sq->tail - released;
	bool all;

	INVARIANT(used <= sq->max_wr, "QP 0x%06x: released %u tail %u, of %u", sq->qpn, released,
		  sq->tail, sq->max_wr);
	INVARIANT(sq->head - released <= sq->issue - released && sq->issue - released <= used,
		  "QP 0x%06x: released %u head %u issue %u tail %u", sq->qpn, released, sq->head,
		  sq->issue, sq->tail);
	if (!sq->ring)
		return;
	INVARIANT(sq->max_wr <= sq->mask + 1 && !(sq->mask & (sq->mask + 1)),
		  "QP 0x%06x: %u in mask 0x%x", sq->qpn, sq->max_wr, sq->mask);
	all = check_sometimes(AT_EACH_END * 4);
	check_wqes(sq, sq->head, sq->issue, all);
	check_wqes(sq, sq->issue, sq->tail, all);
}
#endif
