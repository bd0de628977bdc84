/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/progress.h"

#include <errno.h>

#include "base/check.h"
#include "memory/migrate.h"
#include "object/qp_table.h"
#include "shm/answer.h"
#include "shm/attention.h"
#include "shm/backoff.h"
#include "shm/completer.h"
#include "shm/datagram.h"
#include "shm/requester.h"
#include "shm/responder.h"
#include "shm/waiting.h"

/* At most so much in one call, before other links have a turn. */
#define TURN_RECORDS 64
#define TURN_BYTES   (RING_BYTES_MIN / 2)

/*
 * The QP of the last record stays locked, because records of one QP often come in a row. Clang's
 * analysis cannot express a lock that is held while a pointer is set.
 */
struct turn {
	struct link *link;
	struct shm_qp *lq;
};

static void leave_qp(struct turn *turn) NO_LOCK_CHECK /* take_qp locked it */
{
	if (!turn->lq)
		return;
	shm_responder_flush(turn->link);
	cq_give_events();
	CHECK(shm_sendq_check(turn->lq));
	CHECK(shm_answer_check(turn->lq));
	qp_unlock(turn->lq->qp);
	turn->lq = NULL;
}

/* NULL: there is no QP with this number, or it uses another path. */
static struct shm_qp *take_qp(struct turn *turn, uint32_t qpn)
	/* leave_qp unlocks it */
	NO_LOCK_CHECK
{
	struct qp *qp;

	if (turn->lq && turn->lq->qp->ib.qp_num == qpn)
		return turn->lq;
	leave_qp(turn);
	if (!qp_find_locked(qpn, &qp))
		return NULL;
	turn->lq = shm_of(qp);
	if (!turn->lq)
		qp_unlock(qp);
	return turn->lq;
}

/* An answer counts only if it is from the process that the QP is connected to. */
static bool is_from_peer(const struct shm_qp *lq, const struct link *link,
			 const struct record_header *header)
{
	return lq->link == link && lq->qp->attr.dest_qp_num == header->src_qpn;
}

/* The other end has executed our records up to `acked`, except those whose NAK came before. */
static void take_acks(struct turn *turn, uint64_t acked) REQUIRES(turn->link->rx_lock)
{
	struct link *link = turn->link;
	uint32_t head = atomic_load_explicit(&link->flight_head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&link->flight_tail, memory_order_acquire);
	struct shm_qp *touched = NULL;

	if (acked > link->acked)
		__atomic_store_n(&link->acked, acked, __ATOMIC_RELAXED);

	for (; head != tail; head++) {
		struct in_flight entry = *link_flight(link, head);
		struct shm_qp *lq;

		if (flight_is_after(entry.end, flight_position(acked)))
			break;
		if (touched && touched->qp->ib.qp_num != entry.qpn)
			shm_requester_on_progress(touched);
		lq = take_qp(turn, entry.qpn);
		if (lq && lq->epoch == entry.epoch)
			shm_completer_on_ack(lq, entry.seq);
		touched = lq;
	}
	if (touched)
		shm_requester_on_progress(touched);
	atomic_store_explicit(&link->flight_head, head, memory_order_release);
}

/* False: the record cannot be processed now, and stays in the ring. */
static bool dispatch(struct turn *turn, const struct record_header *header, const uint8_t *payload,
		     uint64_t end) REQUIRES(turn->link->rx_lock)
{
	struct link *link = turn->link;
	struct shm_qp *lq;

	if (record_kind(header) == RECORD_DATAGRAM && header->dst_qpn == MULTICAST_QPN) {
		leave_qp(turn);
		datagram_deliver_group(header, payload);
		return true;
	}
	if (record_kind(header) == RECORD_MIGRATE) {
		migrate_request(header->rkey);
		return true;
	}
	lq = take_qp(turn, header->dst_qpn);
	switch (record_kind(header)) {
	case RECORD_DATAGRAM:
		if (lq)
			datagram_deliver(lq->qp, header, payload);
		return true;
	case RECORD_NAK:
		if (lq && is_from_peer(lq, link, header))
			shm_completer_on_nak(lq, header);
		return true;
	case RECORD_READ_RESPONSE:
	case RECORD_ATOMIC_RESPONSE:
		if (lq && is_from_peer(lq, link, header))
			shm_completer_on_response(lq, header, payload);
		return true;
	default:
		if (header->acked > link->acked) {
			shm_responder_flush(link);
			take_acks(turn, header->acked); /* RING-4 */
			lq = take_qp(turn, header->dst_qpn);
		}
		if (!lq)
			return shm_responder_without_qp(link, header);
		return shm_responder_on_request(lq, link, header, payload, end);
	}
}

/* Processes records. True: the ring is empty. */
static bool receive_records(struct turn *turn, uint32_t max_records) REQUIRES(turn->link->rx_lock)
{
	struct ring_consumer *rx = &turn->link->rx;
	uint64_t begin = rx->head, fetched = turn->link->fetched;
	struct record_header header;

	for (uint32_t n = 0;
	     n < max_records && (rx->head - begin) + (turn->link->fetched - fetched) < TURN_BYTES;
	     n++) {
		struct record *record = ring_peek(rx, &header);

		if (!record)
			return true;
		if (!shm_responder_coalesces(&header))
			shm_responder_flush(turn->link);
		turn->link->rx_end = rx->head + record_size(&header);
		if (!dispatch(turn, &header, record->payload, turn->link->rx_end))
			return false;
		ring_advance(rx, &header);
		if (!record_is_by_key(&header)) /* payload_open counts those */
			shm_moved += record_size(&header);
		if (rx->head - rx->released >= RING_RELEASE_BYTES) {
			shm_responder_flush(turn->link); /* before the other end goes on */
			if (ring_release(rx))
				link_notify(turn->link);
		}
	}
	return !ring_peek(rx, &header);
}

static bool receive(struct turn *turn, uint32_t max_records) REQUIRES(turn->link->rx_lock)
{
	bool all = receive_records(turn, max_records);

	shm_responder_flush(turn->link);
	return all;
}

/*
 * Sends answers of the QPs in `answering`, in its order. The first QP that finds no room for all
 * its answers ends the round, and is the first of the next one.
 */
static void send_answers(struct turn *turn) REQUIRES(turn->link->rx_lock)
{
	struct link *link = turn->link;
	uint32_t tries;

	if (!list_empty(&link->orphans) && !shm_answer_send_orphans(link))
		return;
	for (tries = shm_waiting_count(link, &link->answering_count); tries; tries--) {
		uint32_t qpn = shm_waiting_first(link, &link->answering);
		struct shm_qp *lq = qpn ? take_qp(turn, qpn) : NULL;

		if (lq && lq->link == link) {
			if (!shm_answer_send(lq))
				return;
			shm_answer_is_through(lq);
		} else if (qpn) { /* the QP is about to leave the list */
			shm_waiting_first_to_last(link, &link->answering);
		}
	}
}

/* Wakes the other end itself: if nothing was received, no other call does. */
static void serve_answering(struct turn *turn) REQUIRES(turn->link->rx_lock)
{
	struct link *link = turn->link;
	uint64_t sent = link_sent(link);

	send_answers(turn);
	if (link_sent(link) != sent)
		link_notify(link);
}

/* Gives each QP whose turn was over another turn. */
static void serve_turned(struct turn *turn) REQUIRES(turn->link->rx_lock)
{
	struct link *link = turn->link;
	uint32_t tries;

	for (tries = shm_waiting_count(link, &link->turned_count); tries; tries--) {
		uint32_t qpn = shm_waiting_first(link, &link->turned);
		struct shm_qp *lq = qpn ? take_qp(turn, qpn) : NULL;

		if (lq && lq->blocked_on == link) {
			shm_waiting_leave(lq);
			shm_requester_issue(lq);
		} else if (qpn) {
			shm_waiting_first_to_last(link, &link->turned);
		}
	}
}

/*
 * Issues requests of QPs that wait for room, in the list's order. A QP that finds none ends the
 * round, as later ones would find none either. It stays the first, so that others do not overtake
 * it for ever. A QP that found some room, and needs more, goes to the end.
 */
static void serve_blocked(struct turn *turn) REQUIRES(turn->link->rx_lock)
{
	struct link *link = turn->link;
	uint32_t tries;

	for (tries = shm_waiting_count(link, &link->blocked_count); tries; tries--) {
		uint32_t qpn = shm_waiting_first(link, &link->blocked);
		struct shm_qp *lq = qpn ? take_qp(turn, qpn) : NULL;
		uint32_t issue, done;
		enum issue_result result;
		struct sq *sq;

		if (!lq || lq->blocked_on != link) {
			if (qpn)
				shm_waiting_first_to_last(link, &link->blocked);
			continue;
		}
		sq = &lq->qp->sq;
		issue = sq->issue;
		done = sq_wqe(sq, issue)->done;
		shm_backoff_on_room(lq);
		result = shm_requester_issue(lq);
		if (lq->blocked_on != link || !lq->for_room)
			continue; /* the QP waits elsewhere, or not at all */
		if (result != ISSUE_NO_ROOM) {
			shm_waiting_leave(lq);
			continue;
		}
		if (sq->issue != issue || sq_wqe(sq, issue)->done != done)
			shm_waiting_first_to_last(link, &link->blocked);
		break;
	}
}

/* Gives QPs that wait on the link another try. */
static void serve_waiting(struct turn *turn) REQUIRES(turn->link->rx_lock)
{
	struct link *link = turn->link;

	if (!atomic_load_explicit(&link->waiting, memory_order_acquire))
		return;
	atomic_store_explicit(&link->waiting, false, memory_order_relaxed);
	serve_answering(turn);
	serve_turned(turn);
	serve_blocked(turn);
	lock_acquire(&link->wait_lock);
	link->rx.hold = shm_answer_hold(link);
	if (!list_empty(&link->answering) || !list_empty(&link->orphans) ||
	    !list_empty(&link->turned) || !list_empty(&link->blocked))
		atomic_store_explicit(&link->waiting, true, memory_order_relaxed);
	lock_release(&link->wait_lock);
}

_Thread_local bool progress_defers_notice __attribute__((tls_model("initial-exec")));
static struct link *_Atomic deferred; /* holds a reference */

static void defer_notice(struct link *link)
{
	struct link *before;

	link_get(link);
	before = atomic_exchange(&deferred, link);
	if (before && before != link)
		link_notify(before);
	if (before)
		link_put(before);
}

bool progress_has_notice(void)
{
	return atomic_load_explicit(&deferred, memory_order_relaxed);
}

void progress_send_notice(void)
{
	struct link *link = NULL;

	if (progress_has_notice())
		link = atomic_exchange(&deferred, NULL);
	if (!link)
		return;
	link_notify(link);
	link_put(link);
}

void progress_reset_after_fork(void)
{
	atomic_store(&deferred, NULL);
	progress_defers_notice = false;
}

static bool work_through(struct turn *turn, uint32_t max_records) REQUIRES(turn->link->rx_lock)
{
	struct link *link = turn->link;
	uint64_t begin = link->rx.head, released = link->rx.released;
	uint64_t acked = atomic_load_explicit(&link->tx.control->acked, /* RING-3 */
					      memory_order_acquire);
	bool all, any;

	cq_gather_events();
	all = receive(turn, max_records);
	/*
	 * A record that is still there without either waits for room for its NAK. The other end
	 * tells of that room (link_notify), as for blocked QPs.
	 */
	any = link->rx.head != begin || link->rx.released != released;
	if (link->rx.broken)
		acked = link->acked; /* NAKs of what it covers may be lost */

	/*
	 * RING-3 if the ring is never empty: a NAK from before `acked` was stored lies at most a
	 * ring's length after the position at which this thread loaded `acked`.
	 */
	if (all || (link->late_acked && link->rx.head - link->late_head >= link->rx.bytes)) {
		if (!all)
			take_acks(turn, link->late_acked);
		link->late_acked = 0;
	} else if (!link->late_acked) {
		link->late_acked = acked;
		link->late_head = begin;
	}
	if (all &&
	    (acked != link->acked ||
	     link->flight_head != atomic_load_explicit(&link->flight_tail, memory_order_relaxed))) {
		any |= acked > link->acked; /* a smaller value is old (RING-4), or false */
		take_acks(turn, acked);
	}
	serve_waiting(turn);
	leave_qp(turn);
	cq_stop_gathering();
	if (atomic_load_explicit(&link->again, memory_order_relaxed))
		any |= atomic_exchange_explicit(&link->again, false, memory_order_relaxed);
	if (ring_release(&link->rx)) {
		any = true;
		if (progress_defers_notice)
			defer_notice(link);
		else
			link_notify(link);
	}
	attention_on_look(turn->link, any);
	CHECK(link_check_rx(turn->link));
	return any;
}

int progress_link(struct link *link)
{
	struct turn turn = { .link = link };
	bool any = false;

	if (!lock_try(&turn.link->rx_lock))
		return -EBUSY;
	if (link->alive)
		any = work_through(&turn, TURN_RECORDS);
	lock_release(&turn.link->rx_lock);
	return any;
}

/*
 * Until the ring is empty, or a ring's length further: what comes later was sent after the call. A
 * record that cannot be processed now ends it, too.
 */
static void work_through_all(struct turn *turn) REQUIRES(turn->link->rx_lock)
{
	const struct ring_consumer *rx = &turn->link->rx;
	uint64_t begin = rx->head, before;

	do {
		before = rx->head;
		work_through(turn, TURN_RECORDS);
	} while (rx->head != before && rx->head - begin < rx->bytes);
}

void progress_catch_up(struct link *link)
{
	struct turn turn = { .link = link };

	lock_acquire(&turn.link->rx_lock);
	if (link->alive)
		work_through_all(&turn);
	lock_release(&turn.link->rx_lock);
}

bool progress_catch_up_with(struct qp *qp)
{
	struct link *link = shm_of(qp) ? shm_of(qp)->link : NULL;

	if (link)
		link_get(link);
	qp_unlock(qp);
	if (!link)
		return false;
	progress_catch_up(link);
	link_put(link);
	return true;
}

static enum cause cause_of_end(const struct link *link)
{
	return link->broken ? CAUSE_RING_OVERWRITTEN : CAUSE_PEER_DIED;
}

/* The link has ended, so the QPs of the other process send no more answers. */
static bool fail_if_connected(struct qp *qp, void *arg) REQUIRES(qp->lock)
{
	struct link *link = arg;
	struct shm_qp *lq = shm_of(qp);
	struct arena_qp *target;
	bool without_a_word;
	uint32_t word;

	if (!lq || lq->link != link)
		return true;
	if (qp->type == IBV_QPT_UC && lq->blocked_on) {
		shm_waiting_leave(lq);
		shm_requester_issue(lq);
	}
	if (!qp_is_reliable(qp))
		return true;
	if (qp_state(qp) != IBV_QPS_RTR && qp_state(qp) != IBV_QPS_RTS &&
	    qp_state(qp) != IBV_QPS_SQD)
		return true;
	target = peer_arena_qp(&link->arena, qp->attr.dest_qp_num);
	word = atomic_load_explicit(&target->word, memory_order_acquire);
	/*
	 * The end of a broken ring is what the other QP would have said. One that cannot be looked
	 * up is taken for a silent one: else this QP might wait for ever.
	 */
	without_a_word =
		link->broken || peer_arena_is_missing(target) ||
		(ARENA_QP_STATE(word) == IBV_QPS_RTS && ARENA_QP_TYPE(word) == qp_peer_type(qp) &&
		 target->dest_qpn == qp->ib.qp_num);
	qp_retire(qp);
	if (qp->sq.head != qp->sq.tail) {
		shm_backoff_on_loss(lq, qp->sq.head, cause_of_end(link));
	} else if (without_a_word) {
		/* no message will ever arrive here */
		cause_report(cause_of_end(link), qp->ib.qp_num, "process %d, QP 0x%06x",
			     (int)link->pid, qp->attr.dest_qp_num);
		qp_fail(qp, cause_of_end(link));
	}
	return true;
}

void progress_on_death(struct link *link)
{
	struct turn turn = { .link = link };

	lock_acquire(&turn.link->rx_lock);
	/* A process that lives does not learn what became of more records. */
	link->dying = !link->broken;
	/* which ends: a child of the dead process may still have the ring */
	if (link->alive && link->dying)
		work_through_all(&turn);
	if (link->rx.broken) /* by the other end, before it died */
		link->broken = true;
	lock_acquire(&link->tx_lock);
	link->alive = false; /* from here on posts fail at once */
	lock_release(&link->tx_lock);
	serve_waiting(&turn);
	leave_qp(&turn);
	lock_release(&turn.link->rx_lock);
	qp_visit(fail_if_connected, link);
}

void progress_on_broken_ring(struct link *link)
{
	if (link->broken) {
		qp_visit(fail_if_connected, link);
		return;
	}
	link->broken = true;
	progress_on_death(link);
	/* from here on nothing is published, or released, that would hide it */
	lock_acquire(&link->rx_lock);
	ring_refuse(&link->rx);
	lock_release(&link->rx_lock);
	lock_acquire(&link->tx_lock);
	ring_break(&link->tx);
	lock_release(&link->tx_lock);
	link_wake(link);
}
