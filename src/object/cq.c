/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/cq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"
#include "base/check.h"
#include "base/clock.h"
#include "object/acknowledge.h"
#include "object/context.h"
#include "object/limits.h"
#include "object/pd.h"
#include "object/rq.h"
#include "object/sq.h"

#define WC_FLAGS_OFFERED                                                                           \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                             \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define CREATE_FLAGS_OFFERED                                                                       \
	(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
#define COMP_MASK_OFFERED (IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)

#define RING_PART 1024 /* entries: 64 KiB */

static _Atomic uint32_t cqs;	 /* CQs of this process */
static _Atomic uint32_t handles; /* the last handle */

/*
 * A ring for `capacity` entries, and the mask of the part in use at first. The kernel allocates its
 * pages when they are first written.
 */
static struct cqe *ring_create(uint32_t capacity, uint32_t *mask)
{
	size_t size = 1;
	void *ring;

	while (size < capacity)
		size *= 2;
	if (posix_memalign(&ring, sizeof(struct cqe), size * sizeof(struct cqe)))
		return NULL;
	*mask = (uint32_t)(size < RING_PART ? size : RING_PART) - 1;
	return ring;
}

/*
 * Doubles the part of the ring in use. An entry stays, or moves up by the size of the old part,
 * into the new half. The caller holds cq->lock.
 */
static void double_part(struct cq *cq, uint32_t head, uint32_t tail)
{
	uint32_t part = cq->ring_mask + 1, mask = 2 * part - 1;

	for (; head != tail; head++)
		if (head & part)
			cq->ring[head & mask] = cq->ring[head & cq->ring_mask];
	cq->ring_mask = mask;
}

/* ibv_create_cq_ex(3): `parent_domain` is one of ibv_alloc_parent_domain. */
static int check_domain(struct context *context, const struct ibv_cq_init_attr_ex *attr)
{
	const struct pd *domain = attr->parent_domain ? pd_of(attr->parent_domain) : NULL;

	if (!domain || !domain->parent || domain->imported) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0, "CQ: no parent domain");
		return -EINVAL;
	}
	if (domain->ib.context != &context->verbs.context) {
		cause_report(CAUSE_OTHER_CONTEXT, 0, "CQ and its parent domain");
		return -EINVAL;
	}
	return 0;
}

static int check_attr(struct context *context, const struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;

	if (attr->comp_mask & ~(uint32_t)COMP_MASK_OFFERED ||
	    flags & ~(uint32_t)CREATE_FLAGS_OFFERED) {
		cause_report(CAUSE_FLAGS_UNKNOWN, 0, "CQ: comp_mask 0x%x, flags 0x%x",
			     attr->comp_mask, flags);
		return -EOPNOTSUPP;
	}
	if (attr->wc_flags & ~(uint64_t)WC_FLAGS_OFFERED) {
		cause_report(CAUSE_UNSUPPORTED, 0, "CQ: wc_flags 0x%llx",
			     (unsigned long long)attr->wc_flags);
		return -EOPNOTSUPP;
	}
	if (attr->cqe < 1 || attr->cqe > LIMIT_CQE) {
		cause_report(CAUSE_LIMIT_EXCEEDED, 0, "CQ: cqe %u, must be 1 to %u", attr->cqe,
			     LIMIT_CQE);
		return -EINVAL;
	}
	if (attr->comp_vector >= (uint32_t)context->verbs.context.num_comp_vectors) {
		cause_report(CAUSE_COMP_VECTOR_RANGE, 0, "CQ: vector %u of %d", attr->comp_vector,
			     context->verbs.context.num_comp_vectors);
		return -EINVAL;
	}
	if (attr->channel && attr->channel->context != &context->verbs.context) {
		cause_report(CAUSE_OTHER_CONTEXT, 0, "CQ and its channel");
		return -EINVAL;
	}
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? check_domain(context, attr) : 0;
}

static void reset_after_fork(struct live_object *node)
{
	struct cq *cq = container_of(node, struct cq, live);

	lock_init(&cq->lock);
	lock_init(&cq->poll_lock);
	acknowledge_reset_after_fork(&cq->ib.mutex, &cq->ib.cond);
	cq->ib.comp_events_completed = cq->ib.async_events_completed = 0;
	cq->events.pending = cq->events.reported = cq->async_reported = 0;
	list_init(&cq->events.link);
}

int cq_create(struct context *context, const struct ibv_cq_init_attr_ex *attr, struct cq **cq)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct cq *new;
	int error = check_attr(context, attr);

	if (error)
		return error;
	if (atomic_fetch_add(&cqs, 1) >= LIMIT_CQ) {
		cause_report(CAUSE_LIMIT_EXCEEDED, 0, "%u CQs", LIMIT_CQ);
		error = -ENOMEM;
		goto uncount;
	}
	error = -ENOMEM;
	new = calloc(1, sizeof(*new));
	if (!new)
		goto no_memory;
	new->ring = ring_create(attr->cqe, &new->ring_mask);
	if (!new->ring) {
		free(new);
		goto no_memory;
	}
	new->ib.context = &context->verbs.context;
	new->ib.channel = attr->channel;
	new->ib.cq_context = attr->cq_context;
	new->ib.handle = atomic_fetch_add(&handles, 1);
	new->ib.cqe = (int)attr->cqe;
	pthread_mutex_init(&new->ib.mutex, NULL);
	pthread_cond_init(&new->ib.cond, NULL);
	lock_init(&new->lock);
	lock_init(&new->poll_lock);
	list_init(&new->events.link);
	new->capacity = attr->cqe;
	new->wants_wallclock = attr->wc_flags &IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	new->wants_timestamp =
		new->wants_wallclock || attr->wc_flags &IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	new->ignore_overrun = flags &IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	new->single_threaded = flags &IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	new->live.after_fork = reset_after_fork;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		new->parent_domain = pd_of(attr->parent_domain);
		pd_get(new->parent_domain);
	}
	if (attr->channel)
		channel_attach(channel_of(attr->channel), &new->events, new);
	*cq = new;
	return 0;

no_memory:
	cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "CQ of %u entries", attr->cqe);
uncount:
	atomic_fetch_sub(&cqs, 1);
	return error;
}

int cq_resize(struct cq *cq, int cqe)
{
	uint32_t mask, count, head, tail;
	struct cqe *ring, *old;

	if (cqe < 1 || cqe > LIMIT_CQE) {
		cause_report(CAUSE_LIMIT_EXCEEDED, 0, "CQ: cqe %d, must be 1 to %u", cqe,
			     LIMIT_CQE);
		return -EINVAL;
	}
	ring = ring_create((uint32_t)cqe, &mask);
	if (!ring) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "CQ of %d entries", cqe);
		return -ENOMEM;
	}
	lock_acquire(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	count = tail - head;
	if (count > (uint32_t)cqe) {
		lock_release(&cq->lock);
		free(ring);
		cause_report(CAUSE_CQ_SMALLER_THAN_FULL, 0, "cqe %d, %u completions", cqe, count);
		return -EINVAL;
	}
	while (mask + 1 < count)
		mask = 2 * mask + 1;
	for (; head != tail; head++)
		ring[head & mask] = cq->ring[head & cq->ring_mask];
	old = cq->ring;
	cq->ring = ring;
	cq->ring_mask = mask;
	cq->capacity = (uint32_t)cqe;
	cq->ib.cqe = cqe;
	CHECK(cq_check(cq));
	lock_release(&cq->lock);
	free(old);
	return 0;
}

int cq_destroy(struct cq *cq)
{
	struct context *context = context_of(cq->ib.context);
	uint32_t users = atomic_load(&cq->users), reported = 0;

	if (users) {
		cause_report(CAUSE_BUSY_CQ, 0, "%u queues complete to it", users);
		return -EBUSY;
	}
	/* No QP uses the CQ, so no thread pushes. The program does not poll what it destroys. */
	if (cq->ib.channel)
		reported = channel_detach(channel_of(cq->ib.channel), &cq->events);
	acknowledge_wait(&cq->ib.mutex, &cq->ib.cond, &cq->ib.comp_events_completed, reported);
	reported = context_drop_events(context, &cq->ib, &cq->async_reported);
	acknowledge_wait(&cq->ib.mutex, &cq->ib.cond, &cq->ib.async_events_completed, reported);
	lock_fini(&cq->lock);
	lock_fini(&cq->poll_lock);
	pthread_mutex_destroy(&cq->ib.mutex);
	pthread_cond_destroy(&cq->ib.cond);
	if (cq->parent_domain)
		pd_put(cq->parent_domain);
	free(cq->ring);
	free(cq);
	atomic_fetch_sub(&cqs, 1);
	return 0;
}

/* Frees the request's place in its queue, once the program has the completion. */
static void release_request(const struct cqe *cqe)
{
	if (cqe->kind == CQE_SEND)
		sq_release(cqe->sq, cqe->sq_seq + 1);
	else if (cqe->rq)
		rq_release(cqe->rq, 1);
}

/* Receives of one queue in a row, so that a poll costs one atomic instruction for them. */
struct released {
	struct rq *rq;
	uint32_t count;
};

static void release(struct released *released)
{
	if (released->count)
		rq_release(released->rq, released->count);
	released->count = 0;
}

static void release_later(struct released *released, const struct cqe *cqe)
{
	if (cqe->kind == CQE_SEND) {
		sq_release(cqe->sq, cqe->sq_seq + 1);
		return;
	}
	if (cqe->rq != released->rq)
		release(released);
	released->rq = cqe->rq;
	released->count += cqe->rq != NULL;
}

/* Drops a CQE that does not fit, and frees its request's place, as the program cannot poll it. */
static void drop_cqe(struct cq *cq, const struct cqe *cqe) REQUIRES(cq->lock)
{
	struct ibv_async_event event = { .element.cq = &cq->ib, .event_type = IBV_EVENT_CQ_ERR };

	release_request(cqe);
	if (cq->ignore_overrun || cq->overrun)
		return;
	cq->overrun = true;
	cause_report(CAUSE_CQ_OVERRUN, cqe->qp_num, "CQ of %u entries", cq->capacity);
	context_raise(context_of(cq->ib.context), &event, &cq->async_reported);
}

#define GATHERED_MAX 8

static _Thread_local struct {
	bool on;
	uint32_t count;
	struct cq *cqs[GATHERED_MAX];
} gathered __attribute__((tls_model("initial-exec")));

void cq_gather_events(void)
{
	gathered.on = true;
}

void cq_give_events(void)
{
	for (uint32_t i = 0; i < gathered.count; i++)
		channel_notify(channel_of(gathered.cqs[i]->ib.channel), &gathered.cqs[i]->events);
	gathered.count = 0;
}

bool cq_has_gathered(void)
{
	return gathered.count != 0;
}

void cq_stop_gathering(void)
{
	cq_give_events();
	gathered.on = false;
}

static void notify(struct cq *cq)
{
	if (gathered.on && gathered.count < GATHERED_MAX)
		gathered.cqs[gathered.count++] = cq;
	else
		channel_notify(channel_of(cq->ib.channel), &cq->events);
}

/* One event tells of all that is in the CQ, and of what comes until the next poll. */
static void raise_event(struct cq *cq) REQUIRES(cq->lock)
{
	cq->armed = cq->missed = CQ_NOT_ARMED;
	atomic_store_explicit(&cq->found_empty, false, memory_order_relaxed);
	if (cq->ib.channel)
		notify(cq);
}

void cq_arm(struct cq *cq, bool solicited_only)
{
	uint8_t wanted = solicited_only ? CQ_ARMED_SOLICITED : CQ_ARMED_ANY;

	lock_acquire(&cq->lock);
	if (cq->armed < wanted)
		cq->armed = wanted;
	if (atomic_load_explicit(&cq->found_empty, memory_order_relaxed) && !cq_is_empty(cq) &&
	    cq->missed && cq->armed >= cq->missed)
		raise_event(cq);
	lock_release(&cq->lock);
}

static void push(struct cq *cq, const struct cqe *cqe, bool solicited) REQUIRES(cq->lock)
{
	uint8_t wanted =
		solicited || cqe->status != IBV_WC_SUCCESS ? CQ_ARMED_SOLICITED : CQ_ARMED_ANY;
	uint32_t head, tail;
	struct cqe *slot;

	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	if (cq->overrun || tail - head >= cq->capacity) {
		drop_cqe(cq, cqe);
		return;
	}
	if (head == tail)
		cq->missed = CQ_NOT_ARMED;
	if (tail - head > cq->ring_mask)
		double_part(cq, head, tail);
	slot = &cq->ring[tail & cq->ring_mask];
	*slot = *cqe;
	if (cq->wants_timestamp)
		slot->timestamp_ns = clock_now_ns();
	atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
	if (cq->armed >= wanted)
		raise_event(cq);
	else if (!cq->missed || cq->missed > wanted)
		cq->missed = wanted;
}

void cq_push(struct cq *cq, const struct cqe *cqe, bool solicited)
{
	cq_push_all(cq, cqe, 1, solicited);
}

void cq_push_all(struct cq *cq, const struct cqe *cqes, uint32_t count, uint32_t solicited)
{
	lock_acquire(&cq->lock);
	for (uint32_t i = 0; i < count; i++)
		push(cq, &cqes[i], solicited >> i & 1);
	CHECK(cq_check(cq));
	lock_release(&cq->lock);
}

static void fill_wc(struct ibv_wc *wc, const struct cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = (enum ibv_wc_status)cqe->status;
	wc->opcode =
		(enum ibv_wc_opcode)(cqe->opcode | (cqe->kind == CQE_RECEIVE ? IBV_WC_RECV : 0));
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm;
	wc->qp_num = cqe->qp_num;
	wc->src_qp = cqe->src_qp;
	wc->wc_flags = cqe->wc_flags;
	wc->pkey_index = 0;
	wc->slid = cqe->slid;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = cqe->dlid_path_bits;
}

int cq_pop(struct cq *cq, int max, struct ibv_wc *wc)
{
	struct released released = { 0 };
	uint32_t head, tail;
	int count = 0;

	if (cq_is_empty(cq)) {
		if (max > 0)
			cq_on_found_empty(cq);
		return 0;
	}
	lock_acquire(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	for (; count < max && head != tail; count++, head++) {
		const struct cqe *cqe = &cq->ring[head & cq->ring_mask];

		fill_wc(&wc[count], cqe);
		release_later(&released, cqe);
	}
	release(&released);
	atomic_store_explicit(&cq->head, head, memory_order_relaxed);
	/* fewer than asked for: that was all */
	if (max > 0)
		atomic_store_explicit(&cq->found_empty, count < max, memory_order_relaxed);
	CHECK(cq_check(cq));
	lock_release(&cq->lock);
	return count;
}

bool cq_pop_current(struct cq *cq)
{
	uint32_t head;
	bool found;

	if (cq_is_empty(cq)) {
		cq_on_found_empty(cq);
		return false;
	}
	lock_acquire(&cq->lock);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	found = head != atomic_load_explicit(&cq->tail, memory_order_relaxed);
	if (found) {
		cq->current = cq->ring[head & cq->ring_mask];
		release_request(&cq->current);
		atomic_store_explicit(&cq->head, head + 1, memory_order_relaxed);
	}
	atomic_store_explicit(&cq->found_empty, !found, memory_order_relaxed);
	CHECK(cq_check(cq));
	lock_release(&cq->lock);
	return found;
}

void cq_forget_queue(struct cq *cq, const struct rq *rq)
{
	uint32_t at, tail;

	lock_acquire(&cq->lock);
	at = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	for (; at != tail; at++) {
		struct cqe *cqe = &cq->ring[at & cq->ring_mask];

		if (cqe->kind == CQE_RECEIVE && cqe->rq == rq)
			cqe->rq = NULL;
	}
	lock_release(&cq->lock);
}

void cq_purge(struct cq *cq, const struct qp *qp)
{
	uint32_t from, to, tail;

	lock_acquire(&cq->lock);
	from = to = atomic_load_explicit(&cq->head, memory_order_relaxed);
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	for (; from != tail; from++) {
		const struct cqe *cqe = &cq->ring[from & cq->ring_mask];

		if (cqe->qp == qp) {
			release_request(cqe);
			continue;
		}
		if (to != from)
			cq->ring[to & cq->ring_mask] = *cqe;
		to++;
	}
	atomic_store_explicit(&cq->tail, to, memory_order_release);
	CHECK(cq_check(cq));
	lock_release(&cq->lock);
}

#ifdef VERBATIM_CHECK
/* One completion. */
static void check_cqe(const struct cq *cq, uint32_t at) REQUIRES(cq->lock)
{
	const struct cqe *cqe = &cq->ring[at & cq->ring_mask];

	INVARIANT(cqe->kind == CQE_SEND || cqe->kind == CQE_RECEIVE,
		  "completion %u of QP 0x%06x: kind %u", at, cqe->qp_num, cqe->kind);
	if (cqe->kind == CQE_RECEIVE)
		return;
	INVARIANT(cqe->sq && cqe->sq->qpn == cqe->qp_num,
		  "completion %u of QP 0x%06x: its SQ is of 0x%06x", at, cqe->qp_num,
		  cqe->sq ? cqe->sq->qpn : 0);
	if (!cq->overrun && !cq->ignore_overrun) {
		uint32_t released = atomic_load_explicit(&cqe->sq->released, memory_order_relaxed);

		INVARIANT((int32_t)(cqe->sq_seq + 1 - released) > 0,
			  "QP 0x%06x request %u: released %u", cqe->qp_num, cqe->sq_seq, released);
	}
}

/*
 * Invariants of a CQ:
 * - it has no more CQEs than its capacity, and than the part of the ring in use;
 * - that part is a power of two;
 * - the oldest and the newest CQE name the place that they release, in an SQ of the same QP, or in
 *   an RQ;
 * - while no CQE was lost, the place of a send request with a CQE in here is not released yet.
 */
void cq_check(const struct cq *cq)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);

	INVARIANT(tail - head <= cq->capacity && tail - head <= cq->ring_mask + 1,
		  "head %u tail %u, capacity %u, mask 0x%x", head, tail, cq->capacity,
		  cq->ring_mask);
	INVARIANT(!(cq->ring_mask & (cq->ring_mask + 1)), "mask 0x%x", cq->ring_mask);
	if (head == tail)
		return;
	check_cqe(cq, head);
	check_cqe(cq, tail - 1);
}
#endif
