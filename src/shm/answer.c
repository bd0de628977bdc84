/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "execute/depth.h"
#include "memory/memory.h"

/* Puts a NAK into the ring, also into the room reserved for NAKs. False: no room. */
static bool put_nak(struct link *link, uint32_t to, uint32_t from, const struct nak_pending *nak)
{
	struct record *record;

	lock_acquire(&link->tx_lock);
	record = link->alive ? ring_reserve(&link->tx, 0, 0) : NULL;
	if (record) {
		record->header.dst_qpn = to;
		record->header.src_qpn = from;
		record->header.msn = nak->msn;
		record->header.total = nak->timer;
		record->header.bytes = 0;
		record->header.imm = nak->nak;
		record->header.rkey = nak->cause;
		record->header.remote_addr = 0;
		record->header.acked = 0;
		ring_publish(&link->tx, record, record_word(RECORD_NAK, 0, 0));
	}
	lock_release(&link->tx_lock);
	return record || !link->alive;
}

/*
 * The same by the thread that reads the other ring (rx_lock). Without room for a NAK it first
 * releases all that it has read: on the link of this process to itself that makes room for the NAK.
 */
static bool send_nak(struct link *link, uint32_t to, uint32_t from, const struct nak_pending *nak)
{
	if (put_nak(link, to, from, nak))
		return true;
	if (link->rx.released != link->rx.head) {
		ring_release_room(&link->rx);
		link_notify(link); /* the producer may wait for this room */
	}
	return link->dying;
}

bool shm_answer_refuse(struct link *link, const struct record_header *header, enum nak nak,
		       enum cause cause)
{
	struct nak_pending pending = { .msn = header->msn, .nak = nak, .cause = cause };

	if (record_flags(header) & RECORD_UNACKED)
		return true;
	return send_nak(link, header->src_qpn, header->dst_qpn, &pending);
}

static void want_answer(struct shm_qp *lq)
{
	struct link *link = lq->link;

	lock_acquire(&link->wait_lock);
	if (!lq->is_answering) {
		list_add_tail(&link->answering, &lq->answering_node);
		link->answering_count++;
	}
	lq->is_answering = true;
	link_leave_work(link);
	CHECK(link_check_waiting(link));
	lock_release(&link->wait_lock);
}

static struct response *response_at(const struct shm_qp *lq, uint32_t i)
{
	return &lq->responses[i & (lq->response_slots - 1)];
}

int shm_answer_make_room(struct shm_qp *lq)
{
	const struct depth_ring ring = { lq->responses, lq->response_slots, lq->response_head,
					 lq->response_tail, sizeof(*lq->responses) };
	const struct qp *qp = lq->qp;
	uint32_t limit = depth_of(qp->attr.max_dest_rd_atomic), slots = depth_slots(limit);

	if (qp->type != IBV_QPT_RC && qp->type != IBV_QPT_XRC_RECV)
		return 0;
	if (slots > lq->response_slots) {
		struct response *responses = depth_widen(&ring, slots, qp->ib.qp_num);

		if (!responses)
			return ENOMEM;
		free(lq->responses);
		lq->responses = responses;
		lq->response_slots = slots;
	}
	lq->response_limit = limit;
	return 0;
}

bool shm_answer_add(struct shm_qp *lq, const struct record_header *header, uint64_t value)
{
	struct qp *qp = lq->qp;

	if (!shm_answer_has_room(lq))
		return false;
	*response_at(lq, lq->response_tail++) = (struct response){
		.kind = (uint8_t)record_kind(header),
		.msn = header->msn,
		.rkey = header->rkey,
		.remote_addr = header->remote_addr,
		.pd = qp->remote_pd,
		.total = header->total,
		.value = value,
	};
	return true;
}

/* One record of a READ's response. False: no room. */
static bool respond_read(struct shm_qp *lq, struct response *response, enum cause *cause)
{
	struct qp *qp = lq->qp;
	struct link *link = lq->link;
	uint32_t bytes = response->total - response->done;
	uint32_t flags = response->done ? 0 : RECORD_FIRST;
	struct record *record;

	*cause = CAUSE_NONE;
	if (bytes > RECORD_PAYLOAD_MAX)
		bytes = RECORD_PAYLOAD_MAX;
	else
		flags |= RECORD_LAST;
	lock_acquire(&link->tx_lock);
	record = link->alive ? ring_reserve(&link->tx, bytes, RING_FOR_NAKS) : NULL;
	if (!record)
		goto out;
	if (bytes)
		*cause = memory_read_remote((struct memory_peer){ response->pd, qp->ib.qp_num },
					    response->rkey, response->remote_addr + response->done,
					    record->payload, bytes);
	if (*cause != CAUSE_NONE)
		goto out;
	record->header.dst_qpn = qp->attr.dest_qp_num;
	record->header.src_qpn = qp->ib.qp_num;
	record->header.msn = response->msn;
	record->header.total = response->total;
	record->header.bytes = bytes;
	record->header.acked = 0;
	ring_publish(&link->tx, record, record_word(RECORD_READ_RESPONSE, flags, bytes));
	response->done += bytes;
out:
	lock_release(&link->tx_lock);
	return record != NULL;
}

static bool respond_atomic(struct shm_qp *lq, struct response *response)
{
	struct qp *qp = lq->qp;
	struct link *link = lq->link;
	struct record *record;

	lock_acquire(&link->tx_lock);
	record = link->alive ? ring_reserve(&link->tx, sizeof(response->value), RING_FOR_NAKS)
			     : NULL;
	if (record) {
		record->header.dst_qpn = qp->attr.dest_qp_num;
		record->header.src_qpn = qp->ib.qp_num;
		record->header.msn = response->msn;
		record->header.total = sizeof(response->value);
		record->header.bytes = sizeof(response->value);
		record->header.acked = 0;
		memcpy(record->payload, &response->value, sizeof(response->value));
		ring_publish(&link->tx, record,
			     record_word(RECORD_ATOMIC_RESPONSE, RECORD_FIRST | RECORD_LAST,
					 sizeof(response->value)));
		response->done = response->total = sizeof(response->value);
	}
	lock_release(&link->tx_lock);
	return record != NULL;
}

bool shm_answer_send(struct shm_qp *lq) REQUIRES(lq->qp->lock)
{
	struct qp *qp = lq->qp;

	while (lq->response_head != lq->response_tail) {
		struct response *response = response_at(lq, lq->response_head);
		enum cause cause = CAUSE_NONE;
		bool room = response->kind == OPERATION_READ ? respond_read(lq, response, &cause)
							     : respond_atomic(lq, response);

		if (cause != CAUSE_NONE) {
			lq->nak = (struct nak_pending){
				.msn = response->msn,
				.nak = NAK_REMOTE_ACCESS,
				.cause = cause,
			};
			lq->response_head = lq->response_tail;
			cause_report(cause, qp->ib.qp_num, "READ of rkey 0x%x, address 0x%llx",
				     response->rkey, (unsigned long long)response->remote_addr);
			qp_raise(qp, IBV_EVENT_QP_ACCESS_ERR);
			qp_fail(lq->qp, cause);
			break;
		}
		if (!room) {
			want_answer(lq);
			return false;
		}
		if (response->done == response->total)
			lq->response_head++;
	}
	if (lq->nak.nak) {
		if (!send_nak(lq->link, qp->attr.dest_qp_num, qp->ib.qp_num, &lq->nak)) {
			want_answer(lq);
			return false;
		}
		lq->nak.nak = 0;
		lock_acquire(&lq->link->wait_lock);
		list_del(&lq->held.node);
		lock_release(&lq->link->wait_lock);
	}
	return true;
}

static void forget_waiting(struct shm_qp *lq, struct link *link) REQUIRES(link->wait_lock)
{
	if (!lq->is_answering)
		return;
	lq->is_answering = false;
	list_del(&lq->answering_node);
	link->answering_count--;
	CHECK(link_check_waiting(link));
}

void shm_answer_is_through(struct shm_qp *lq)
{
	struct link *link = lq->link;

	lock_acquire(&link->wait_lock);
	forget_waiting(lq, link);
	lock_release(&link->wait_lock);
}

/* In the list of those that are held, if `from` is in it. */
static void take_place(struct held_nak *held, struct held_nak *from)
{
	list_init(&held->node);
	held->position = from->position;
	if (!list_empty(&from->node))
		list_add_tail(&from->node, &held->node); /* just before it */
}

void shm_answer_leave(struct shm_qp *lq)
{
	struct qp *qp = lq->qp;
	struct link *link = lq->link;

	lock_acquire(&link->wait_lock);
	forget_waiting(lq, link);
	if (lq->nak.nak && lq->orphan) {
		lq->orphan->to = qp->attr.dest_qp_num;
		lq->orphan->from = qp->ib.qp_num;
		lq->orphan->nak = lq->nak;
		take_place(&lq->orphan->held, &lq->held);
		list_add_tail(&link->orphans, &lq->orphan->node);
		lq->orphan = NULL;
		link_leave_work(link);
	}
	lq->nak.nak = 0;
	list_del(&lq->held.node);
	lock_release(&link->wait_lock);
}

/* Only the holder of rx_lock removes entries, so the first stays the first without wait_lock. */
static struct orphan_nak *first_orphan(struct link *link)
{
	struct orphan_nak *first = NULL;

	lock_acquire(&link->wait_lock);
	if (!list_empty(&link->orphans))
		first = list_entry(link->orphans.next, struct orphan_nak, node);
	lock_release(&link->wait_lock);
	return first;
}

bool shm_answer_send_orphans(struct link *link)
{
	struct orphan_nak *first;

	while ((first = first_orphan(link))) {
		if (!send_nak(link, first->to, first->from, &first->nak))
			return false;
		lock_acquire(&link->wait_lock);
		list_del(&first->held.node);
		list_del(&first->node);
		lock_release(&link->wait_lock);
		free(first);
	}
	return true;
}

/*
 * Nothing from `position` on is acknowledged until the NAK for it has left. Records are processed
 * in the ring's order, so the list is in the order of positions. A QP that keeps a NAK already,
 * which a peer can bring about, keeps its earlier place.
 */
static void hold_acks(struct shm_qp *lq, struct link *link, uint64_t position)
{
	lock_acquire(&link->wait_lock);
	if (list_empty(&lq->held.node)) {
		lq->held.position = position;
		list_add_tail(&link->held, &lq->held.node);
	}
	link->rx.hold = shm_answer_hold(link);
	lock_release(&link->wait_lock);
}

uint64_t shm_answer_hold(struct link *link)
{
	if (list_empty(&link->held))
		return UINT64_MAX;
	return list_entry(link->held.next, struct held_nak, node)->position;
}

void shm_answer_nak(struct shm_qp *lq, struct link *link, uint32_t to,
		    const struct nak_pending *nak, uint64_t position)
{
	struct qp *qp = lq->qp;

	if (!shm_answer_is_owed(lq) && send_nak(link, to, qp->ib.qp_num, nak))
		return;
	lq->nak = *nak;
	hold_acks(lq, link, position);
	want_answer(lq);
}

void shm_answer_forget(struct shm_qp *lq)
{
	struct qp *qp = lq->qp;

	/* destroyed, so that it never answers; else it is in ERR or RESET */
	bool gone = atomic_load_explicit(&qp->entry->word, memory_order_relaxed) == 0;
	struct nak_pending nak = {
		.nak = gone ? NAK_UNREACHABLE : NAK_SILENCE,
		.cause = gone ? CAUSE_PEER_QP_MISSING : CAUSE_PEER_NOT_READY,
	};

	if (lq->response_head == lq->response_tail || !lq->link)
		return;
	nak.msn = response_at(lq, lq->response_head)->msn;
	lq->response_head = lq->response_tail = 0;
	/* this may be any thread, so it leaves releasing room to the thread that reads the ring */
	if (!put_nak(lq->link, qp->attr.dest_qp_num, qp->ib.qp_num, &nak)) {
		lq->nak = nak;
		want_answer(lq);
		return;
	}
	link_notify(lq->link);
}

#ifdef VERBATIM_CHECK
/*
 * Invariants of a responder's answers:
 * - there are no more responses than slots, and no fewer slots than the limit;
 * - no more bytes of a response were sent than it has.
 */
void shm_answer_check(const struct shm_qp *lq)
{
	uint32_t count = lq->response_tail - lq->response_head;

	INVARIANT(count <= lq->response_slots && lq->response_limit <= lq->response_slots,
		  "QP 0x%06x: %u responses owed, at most %u, %u slots", lq->qp->ib.qp_num, count,
		  lq->response_limit, lq->response_slots);
	for (uint32_t i = lq->response_head; i != lq->response_tail; i++) {
		const struct response *response = response_at(lq, i);

		INVARIANT(response->done <= response->total, "QP 0x%06x: %u of %u bytes",
			  lq->qp->ib.qp_num, response->done, response->total);
	}
}
#endif
