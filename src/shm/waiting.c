/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/waiting.h"

#include "base/check.h"

static void wait_at(struct shm_qp *lq, struct link *link, bool for_room)
{
	if (lq->blocked_on == link && lq->for_room == for_room)
		return;
	shm_waiting_leave(lq);
	link_get(link);
	lock_acquire(&link->wait_lock);
	lq->blocked_on = link;
	lq->for_room = for_room;
	list_add_tail(for_room ? &link->blocked : &link->turned, &lq->blocked_node);
	(*(for_room ? &link->blocked_count : &link->turned_count))++;
	link_leave_work(link);
	CHECK(link_check_waiting(link));
	lock_release(&link->wait_lock);
}

void shm_waiting_for_room(struct shm_qp *lq, struct link *link)
{
	wait_at(lq, link, true);
}

void shm_waiting_for_turn(struct shm_qp *lq, struct link *link)
{
	wait_at(lq, link, false);
}

void shm_waiting_leave(struct shm_qp *lq)
{
	struct link *link = lq->blocked_on;

	if (!link)
		return;
	lock_acquire(&link->wait_lock);
	lq->blocked_on = NULL;
	list_del(&lq->blocked_node);
	(*(lq->for_room ? &link->blocked_count : &link->turned_count))--;
	CHECK(link_check_waiting(link));
	lock_release(&link->wait_lock);
	link_put(link);
}

uint32_t shm_waiting_first(struct link *link, struct list *head)
{
	struct shm_qp *lq = NULL;
	uint32_t qpn = 0;

	lock_acquire(&link->wait_lock);
	if (!list_empty(head)) {
		lq = head == &link->answering
			     ? list_entry(head->next, struct shm_qp, answering_node)
			     : list_entry(head->next, struct shm_qp, blocked_node);
		qpn = lq->qp->ib.qp_num;
	}
	lock_release(&link->wait_lock);
	return qpn;
}

void shm_waiting_first_to_last(struct link *link, struct list *head)
{
	struct list *first;

	lock_acquire(&link->wait_lock);
	first = head->next;
	if (first != head) {
		list_del(first);
		list_add_tail(head, first);
	}
	lock_release(&link->wait_lock);
}

uint32_t shm_waiting_count(struct link *link, const uint32_t *count)
{
	uint32_t n;

	lock_acquire(&link->wait_lock);
	n = *count;
	lock_release(&link->wait_lock);
	return n;
}
