/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why qp_find_locked needs no lock but the QP's own:
 *
 * A struct qp is never freed. A destroyed one goes to `spares`, and becomes another QP with the
 * same lock, which stays valid. So a thread that has read a pointer from `live` may lock it at any
 * time, even long after the QP was destroyed. Under the lock the thread checks `alive` and `index`,
 * which are written under the lock only. qp_destroy withdraws the QP from `live`, sets alive =
 * false under the lock, and then frees what belongs to the QP. A thread that got the lock earlier
 * makes qp_destroy wait. A thread that gets it later finds alive == false.
 */
#include "object/qp_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "object/acknowledge.h"
#include "object/limits.h"

static struct {
	struct lock lock; /* guards all below, except `live` */
	struct arena_qp *entries;
	_Atomic uint32_t *used; /* in the arena's header */
	uint32_t slot;
	uint16_t free[ARENA_QPS]; /* indexes, in order of release */
	uint32_t free_head, free_count;
	struct list all;    /* qp.link */
	struct list spares; /* likewise */
	struct qp *_Atomic live[ARENA_QPS];
} table = {
	.lock = LOCK_INITIALIZER,
	.all = { &table.all, &table.all },
	.spares = { &table.spares, &table.spares },
};

static struct arena_qp orphan_entry;

static int orphan_connect(struct qp *qp)
{
	return EIO;
}

static void orphan_nothing(struct qp *qp)
{
}

const struct qp_path qp_path_orphan = {
	.connect = orphan_connect,
	.issue = orphan_nothing,
	.quiesce = orphan_nothing,
	.destroy = orphan_nothing,
};

int qp_table_init(void *arena, uint32_t slot)
{
	lock_acquire(&table.lock);
	table.entries = arena_qps(arena);
	table.used = &arena_header(arena)->qps_used;
	table.slot = slot;
	table.free_head = 0;
	table.free_count = 0;
	for (uint32_t index = 1; index <= LIMIT_QP; index++)
		table.free[table.free_count++] = (uint16_t)index;
	lock_release(&table.lock);
	return 0;
}

void qp_table_turn(uint32_t by)
{
	lock_acquire(&table.lock);
	for (uint32_t i = 0; i < LIMIT_QP; i++)
		table.free[i] = (uint16_t)(1 + (i + by) % LIMIT_QP);
	lock_release(&table.lock);
}

/* Runs in the child's only thread. Other threads of the parent may have held any of the locks. */
void qp_table_reset_after_fork(void)
{
	struct list *pos;

	lock_acquire_in_child(&table.lock);
	list_for_each(pos, &table.all) {
		struct qp *qp = list_entry(pos, struct qp, link);

		atomic_store(&table.live[qp->index], NULL);
		lock_init(&qp->lock);
		lock_init(&qp->builder_lock);
		lock_init(&qp->own_rq.lock);
		acknowledge_reset_after_fork(&qp->ib.mutex, &qp->ib.cond);
		qp->ib.events_completed = qp->async_reported = 0;
		list_init(&qp->opened);
		qp->attachments = 0; /* groups and flows are the parent's */
		qp->entry = &orphan_entry;
		qp->path = &qp_path_orphan;
		qp->path_data = NULL;
	}
	/* The child leaks the spares, because the lock of one may be held for ever. */
	list_init(&table.spares);
	table.entries = NULL;
	table.free_count = 0;
	lock_release(&table.lock);
}

/* A new arena is all 0, and an index keeps its generation from its first QP on. */
bool qp_was_destroyed(uint32_t qpn)
{
	const struct arena_qp *entries = table.entries;

	return entries && qpn >> ARENA_QP_BITS == table.slot &&
	       atomic_load_explicit(&entries[qpn & (ARENA_QPS - 1)].generation,
				    memory_order_relaxed);
}

/* Whether this process is a fork of the QP's, and must not touch the shared memory. */
static bool is_orphan(const struct qp *qp)
{
	return qp->entry == &orphan_entry;
}

static struct qp *struct_create(void) REQUIRES(table.lock)
{
	struct qp *qp;

	if (!list_empty(&table.spares)) {
		qp = list_entry(table.spares.next, struct qp, link);
		list_del(&qp->link);
		return qp;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	lock_init(&qp->lock);
	list_init(&qp->link);
	return qp;
}

int qp_table_reserve(struct qp **qp)
{
	struct qp *new;
	uint32_t index;

	lock_acquire(&table.lock);
	if (table.free_count == 0) {
		lock_release(&table.lock);
		cause_report(CAUSE_LIMIT_EXCEEDED, 0, "%u QPs", LIMIT_QP);
		return -ENOMEM;
	}
	new = struct_create();
	if (!new) {
		lock_release(&table.lock);
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "QP");
		return -ENOMEM;
	}
	index = table.free[table.free_head];
	table.free_head = (table.free_head + 1) % ARENA_QPS;
	table.free_count--;
	lock_release(&table.lock);
	/* before any peer can have learnt the number */
	atomic_fetch_or_explicit(table.used, 1u << index / ARENA_QPS_A_BIT, memory_order_relaxed);

	/*
	 * Under its lock, because a late thread may check whether the struct is still its former
	 * QP.
	 */
	lock_acquire(&new->lock);
	memset(new, 0, offsetof(struct qp, lock));
	memset((char *)new + offsetof(struct qp, lock) + sizeof(new->lock), 0,
	       sizeof(*new) - offsetof(struct qp, lock) - sizeof(new->lock));
	list_init(&new->link);
	new->index = index;
	new->entry = &table.entries[index];
	qp_new_generation(new);
	new->entry->path = ARENA_PATH_NONE;
	new->ib.qp_num = table.slot << ARENA_QP_BITS | index;
	lock_release(&new->lock);
	*qp = new;
	return 0;
}

void qp_table_publish(struct qp *qp)
{
	lock_acquire(&table.lock);
	lock_acquire(&qp->lock);
	qp->alive = true;
	list_add_tail(&table.all, &qp->link);
	lock_release(&qp->lock);
	/* Pair QPTABLE: the pointer is stored after the fields. */
	atomic_store_explicit(&table.live[qp->index], qp, memory_order_release);
	lock_release(&table.lock);
}

void qp_table_withdraw(struct qp *qp)
{
	lock_acquire(&table.lock);
	if (!is_orphan(qp))
		atomic_store_explicit(&table.live[qp->index], NULL, memory_order_release);
	lock_release(&table.lock);
	lock_acquire(&qp->lock);
	qp->alive = false;
	lock_release(&qp->lock);
}

void qp_table_forget(struct qp *qp)
{
	lock_acquire(&table.lock);
	list_del(&qp->link);
	lock_release(&table.lock);
}

void qp_table_free(struct qp *qp)
{
	lock_acquire(&table.lock);
	if (!is_orphan(qp)) {
		table.free[(table.free_head + table.free_count) % ARENA_QPS] = (uint16_t)qp->index;
		table.free_count++;
	}
	list_add_tail(&table.spares, &qp->link);
	lock_release(&table.lock);
}

bool qp_find_locked(uint32_t qpn, struct qp **out)
{
	uint32_t index = qpn & (ARENA_QPS - 1);
	struct qp *qp;

	if (qpn >> ARENA_QP_BITS != table.slot)
		return false;
	/* Pair QPTABLE. */
	qp = atomic_load_explicit(&table.live[index], memory_order_acquire);
	if (!qp)
		return false;
	lock_acquire(&qp->lock);
	if (qp->alive && qp->index == index) {
		*out = qp;
		return true;
	}
	lock_release(&qp->lock);
	return false;
}

void qp_visit(bool (*visit)(struct qp *qp, void *arg), void *arg)
{
	struct list *pos;
	bool more = true;

	lock_acquire(&table.lock);
	for (pos = table.all.next; more && pos != &table.all; pos = pos->next) {
		struct qp *qp = list_entry(pos, struct qp, link);

		lock_acquire(&qp->lock);
		if (!is_orphan(qp))
			more = visit(qp, arg);
		lock_release(&qp->lock);
	}
	lock_release(&table.lock);
}
