/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/timer.h"

static struct lock timer_lock = LOCK_INITIALIZER;
static struct list timers GUARDED_BY(timer_lock) = { &timers, &timers };
static _Atomic uint64_t next_deadline = SHM_TIMER_NEVER; /* written under timer_lock */
static _Atomic uint32_t answers; /* of verbatimd; written under timer_lock */

uint64_t shm_timer_deadline_ns(void)
{
	return atomic_load_explicit(&next_deadline, memory_order_relaxed);
}

void shm_timer_arm(struct shm_qp *lq, enum requester_state state, uint64_t deadline_ns)
{
	lq->state = state;
	lock_acquire(&timer_lock);
	lq->deadline_ns = deadline_ns;
	lq->seeks = state == REQUESTER_PEER_WAIT;
	lq->answered = lq->seeks && lq->answers != answers;
	if (lq->answered)
		/* due: an answer came after the requester looked (barrier ANSWER) */
		deadline_ns = 1;
	if (!lq->timer_armed)
		list_add_tail(&timers, &lq->timer_node);
	lq->timer_armed = true;
	lq->timer_due = false;
	if (deadline_ns < next_deadline) {
		next_deadline = deadline_ns;
		shm_env.deadline(deadline_ns);
	}
	lock_release(&timer_lock);
}

void shm_timer_disarm(struct shm_qp *lq)
{
	lq->state = REQUESTER_READY;
	lock_acquire(&timer_lock);
	if (lq->timer_armed)
		list_del(&lq->timer_node);
	lq->timer_armed = lq->timer_due = false;
	lock_release(&timer_lock);
}

bool shm_timer_is_armed(struct shm_qp *lq)
{
	bool armed;

	lock_acquire(&timer_lock);
	armed = lq->timer_armed || lq->timer_due;
	lock_release(&timer_lock);
	return armed;
}

bool shm_timer_end(struct shm_qp *lq)
{
	bool due;

	lock_acquire(&timer_lock);
	due = lq->timer_due;
	lq->timer_due = false;
	lock_release(&timer_lock);
	return due;
}

void shm_timer_on_look(struct shm_qp *lq)
{
	lq->answers = atomic_load_explicit(&answers, memory_order_acquire);
}

bool shm_timer_on_answer(void)
{
	struct list *pos;
	bool any = false;

	lock_acquire(&timer_lock);
	answers++;
	list_for_each(pos, &timers) {
		struct shm_qp *lq = list_entry(pos, struct shm_qp, timer_node);

		lq->answered = lq->seeks;
		any |= lq->seeks;
	}
	lock_release(&timer_lock);
	return any;
}

uint32_t shm_timer_take_due(uint64_t now)
{
	struct list *pos;
	uint64_t next = SHM_TIMER_NEVER;
	uint32_t qpn = 0;

	lock_acquire(&timer_lock);
	list_for_each(pos, &timers) {
		struct shm_qp *lq = list_entry(pos, struct shm_qp, timer_node);

		if (lq->deadline_ns <= now || lq->answered) {
			qpn = lq->qp->ib.qp_num;
			list_del(&lq->timer_node);
			lq->timer_armed = false;
			lq->timer_due = true;
			break;
		}
		if (lq->deadline_ns < next)
			next = lq->deadline_ns;
	}
	if (!qpn) {
		next_deadline = next;
		if (next != SHM_TIMER_NEVER)
			shm_env.deadline(next);
	}
	lock_release(&timer_lock);
	return qpn;
}

void shm_timer_reset_after_fork(void)
{
	lock_acquire_in_child(&timer_lock);
	list_init(&timers);
	next_deadline = SHM_TIMER_NEVER;
	lock_release(&timer_lock);
}
