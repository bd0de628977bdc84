/* SPDX-License-Identifier: BSD-2-Clause */
#include "tcp/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/lock.h"
#include "object/cq.h"
#include "object/qp_table.h"
#include "tcp/streams.h"

#define INDEX_MASK     ((1u << ARENA_QP_BITS) - 1)
#define LINGER_STEP_NS 5000000ull
#define FIN_GAP_NS                                                                                 \
	50000000ull /* the kernel's worker comes after 10 ms, or a busy processor's time */
/*
 * How long no byte may move between rdma_disconnect, or the peer's FIN, and the half close. If some
 * do now and then, all of that may take BOUND_TIMES as long.
 */
#define DISCONNECT_NS 30000000000ull
#define BOUND_TIMES   10
#define LOOK_NS	      1000000000ull
#define LINGERING_MAX 128 /* with more, streams that ended are closed at once */
#define DUE_AT_ONCE   64
#define CHAINS	      1024

static void (*wake)(void);
static struct stream *table[ARENA_QPS]; /* by the QP's index; guarded by its lock */

static struct lock lists_lock = LOCK_INITIALIZER; /* innermost */
static struct list due = { &due, &due };	  /* something is to happen at due_ns */
static struct list over = { &over, &over };	  /* ended; not told yet */
static struct list lingering = { &lingering, &lingering };
static unsigned lingering_count;
static _Atomic uint64_t next_due_ns = STREAMS_NEVER;

/*
 * All streams by their QPNs, from before the QP has one until its socket is closed and no fork is
 * under way: for the child of a fork. Each change stores one pointer, so the child finds complete
 * chains, even if another thread of the parent was in here.
 */
static struct stream *_Atomic chains[CHAINS] GUARDED_BY(lists_lock);

/*
 * Forks under way. A fork copies the descriptors first, then the memory: a socket that is closed in
 * between needs its stream in the chain still.
 *
 * Barrier FORK: the thread that forks counts the fork, then the kernel copies the descriptors. The
 * progress thread closes a socket, then reads the count. So it sees each fork that has copied the
 * socket, until that fork has copied the chains, too.
 */
static _Atomic uint32_t forks;

/*
 * The child of a signal handler that forks sets the count to 0 within a call, and the call goes on
 * there.
 */
static void count_down(_Atomic uint32_t *count)
{
	uint32_t now = atomic_load(count);

	while (now && !atomic_compare_exchange_weak(count, &now, now - 1))
		;
}

static void before_fork(void)
{
	atomic_fetch_add(&forks, 1);
}

static void after_fork(void)
{
	count_down(&forks);
}

static void after_fork_in_child(void)
{
	atomic_store(&forks, 0);
}

void streams_watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static struct stream *_Atomic *chain_of(uint32_t qpn) REQUIRES(lists_lock)
{
	return &chains[qpn % CHAINS];
}

void stream_init(void (*waker)(void))
{
	wake = waker;
}

struct stream *stream_at(uint32_t qpn)
{
	return table[qpn & INDEX_MASK];
}

void stream_set(uint32_t qpn, struct stream *s)
{
	table[qpn & INDEX_MASK] = s;
}

static void remember(struct stream *s)
{
	struct stream *_Atomic *chain;

	lock_acquire(&lists_lock);
	chain = chain_of(s->qpn);
	atomic_store(&s->next, atomic_load(chain));
	atomic_store(chain, s);
	lock_release(&lists_lock);
}

static void forget(struct stream *s)
{
	struct stream *_Atomic *link;
	struct stream *found;

	lock_acquire(&lists_lock);
	link = chain_of(s->qpn);
	while ((found = atomic_load(link)) && found != s)
		link = &found->next;
	if (found) /* not in a child that a signal handler forked in stream_make */
		atomic_store(link, atomic_load(&s->next));
	lock_release(&lists_lock);
}

struct stream *stream_make(uint32_t qpn, int fd, const struct stream_use *use,
			   void (*ended)(void *arg), void *arg)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	*s = (struct stream){ .fd = fd, .qpn = qpn, .use = use, .ended = ended, .arg = arg };
	list_init(&s->link);
	s->is_tls = tcp_is_tls(fd);
	tcp_identify(fd, &s->socket);
	remember(s); /* while the caller has it, too */
	atomic_fetch_add(use->count, 1);
	return s;
}

void stream_drop(struct stream *s)
{
	forget(s);
	count_down(s->use->count);
	free(s);
}

/*
 * ------------------------------------------------------------------------------------------
 * What is due.
 */

static void note_due(uint64_t ns) REQUIRES(lists_lock)
{
	if (ns < atomic_load(&next_due_ns))
		atomic_store(&next_due_ns, ns);
}

void stream_schedule(struct stream *s, uint64_t ns)
{
	lock_acquire(&lists_lock);
	if (list_empty(&s->link) || ns < s->due_ns) {
		s->due_ns = ns;
		list_del(&s->link);
		list_add_tail(&due, &s->link);
		note_due(ns);
	}
	lock_release(&lists_lock);
	wake();
}

uint64_t streams_due_ns(void)
{
	return atomic_load(&next_due_ns);
}

/*
 * ------------------------------------------------------------------------------------------
 * The end.
 */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The stream is to end: the first such limit, or a shorter one. */
static void limit(struct stream *s, uint64_t idle_ns, uint64_t now)
{
	if (!s->idle_ns) {
		s->limit_ns = s->bound_ns = UINT64_MAX;
		s->moved = tcp_bytes_moved(s->fd);
		s->look_ns = now + LOOK_NS;
	}
	s->idle_ns = idle_ns;
	s->limit_ns = least(s->limit_ns, now + idle_ns);
	s->bound_ns = least(s->bound_ns, now + BOUND_TIMES * idle_ns);
}

bool stream_is_late(struct stream *s, uint64_t now)
{
	uint64_t moved;

	if (!s->idle_ns || now < s->look_ns)
		return false;
	s->look_ns = now + LOOK_NS;
	moved = tcp_bytes_moved(s->fd);
	if (moved != s->moved)
		s->limit_ns = now + s->idle_ns;
	s->moved = moved;
	return now >= s->limit_ns || now >= s->bound_ns;
}

void stream_begin_end(struct stream *s, bool failed)
{
	uint64_t idle_ns = failed ? STREAMS_LINGER_NS : DISCONNECT_NS;

	if (s->idle_ns && s->idle_ns <= idle_ns)
		return;
	limit(s, idle_ns, clock_now_ns());
	stream_schedule(s, s->look_ns);
}

/*
 * The FIN, if it may leave; else there is another try after LINGER_STEP_NS. With TLS a record may
 * be on the way from the kernel's worker to TCP, which has nothing then: so it waits for
 * FIN_GAP_NS.
 */
static void send_fin(struct stream *s)
{
	uint64_t now;

	if (s->fin == FIN_SENT)
		return;
	if (s->is_tls) {
		now = clock_now_ns();
		if (!tcp_is_acknowledged(s->fd)) {
			s->fin = FIN_WAITS;
			return;
		}
		if (s->fin != FIN_ALMOST) {
			s->fin = FIN_ALMOST;
			s->almost_ns = now;
		}
		if (now - s->almost_ns < FIN_GAP_NS)
			return;
	}
	tcp_half_close(s->fd);
	s->fin = FIN_SENT;
}

void stream_fin(struct stream *s)
{
	send_fin(s);
	if (s->fin != FIN_SENT)
		stream_schedule(s, clock_now_ns() + LINGER_STEP_NS);
}

void stream_half_close(struct stream *s)
{
	stream_fin(s);
	s->idle_ns = STREAMS_LINGER_NS;
	s->limit_ns = clock_now_ns() + s->idle_ns;
}

void stream_end(struct stream *s)
{
	s->use->leave(s);
	stream_set(s->qpn, NULL);
	lock_acquire(&lists_lock);
	list_del(&s->link);
	list_add_tail(&over, &s->link);
	note_due(0);
	lock_release(&lists_lock);
	wake();
}

/* True: the socket is closed, and `s` freed. */
static bool close_if_done(struct stream *s, uint64_t now)
{
	if (!s->is_closed) {
		send_fin(s);
		if ((!tcp_drain(s->fd) || s->fin != FIN_SENT) && !stream_is_late(s, now) &&
		    lingering_count < LINGERING_MAX)
			return false;
		close(s->fd);
		s->is_closed = true;
	}
	if (atomic_load(&forks)) /* FORK */
		return false;
	stream_drop(s);
	return true;
}

static struct stream *take_over(void)
{
	struct stream *s = NULL;

	lock_acquire(&lists_lock);
	if (!list_empty(&over)) {
		s = list_entry(over.next, struct stream, link);
		list_del(&s->link);
		list_init(&s->link);
	}
	lock_release(&lists_lock);
	return s;
}

/* `lingering` is the progress thread's alone. */
static void end_all(uint64_t now)
{
	struct list *pos, *after;
	struct stream *s;

	list_for_each_safe(pos, after, &lingering) {
		s = list_entry(pos, struct stream, link);
		list_del(&s->link);
		if (close_if_done(s, now))
			lingering_count--;
		else
			list_add_tail(after, &s->link);
	}
	while ((s = take_over())) {
		if (s->use->catch_up)
			s->use->catch_up(s->qpn);
		send_fin(s);
		s->idle_ns = 0;
		limit(s, STREAMS_LINGER_NS, now);
		s->ended(s->arg);
		if (close_if_done(s, now))
			continue;
		list_add_tail(&lingering, &s->link);
		lingering_count++;
	}
}

/* Streams at whose time it is, by their QPNs; sets when the next is due. */
static unsigned take_due(uint64_t now, uint32_t qpns[DUE_AT_ONCE])
{
	struct list *pos, *after;
	uint64_t next = lingering_count ? now + LINGER_STEP_NS : STREAMS_NEVER;
	unsigned count = 0;

	lock_acquire(&lists_lock);
	list_for_each_safe(pos, after, &due) {
		struct stream *s = list_entry(pos, struct stream, link);

		if (s->due_ns <= now && count < DUE_AT_ONCE) {
			list_del(&s->link);
			list_init(&s->link);
			qpns[count++] = s->qpn;
		} else if (s->due_ns < next) {
			next = s->due_ns;
		}
	}
	atomic_store(&next_due_ns, list_empty(&over) ? next : 0);
	lock_release(&lists_lock);
	return count;
}

/* What the stream is used for; NULL: it has ended. The progress thread alone frees streams. */
static const struct stream_use *use_of(uint32_t qpn)
{
	const struct stream_use *use = NULL;
	struct qp *qp;

	if (!qp_find_locked(qpn, &qp))
		return NULL;
	if (stream_at(qpn))
		use = stream_at(qpn)->use;
	qp_unlock(qp);
	return use;
}

static void serve_due(uint32_t qpn, uint64_t now)
{
	const struct stream_use *use = use_of(qpn);
	struct stream *s;
	struct qp *qp;

	if (use && use->catch_up)
		use->catch_up(qpn);
	if (!use || !qp_find_locked(qpn, &qp))
		return;
	s = stream_at(qpn);
	if (s && s->wants_end) {
		s->wants_end = false;
		s->use->disconnect(qp, s);
	}
	if (s && stream_at(qpn) == s && (s->fin == FIN_WAITS || s->fin == FIN_ALMOST))
		stream_fin(s);
	if (s && stream_at(qpn) == s) {
		s->use->serve(qp, s, now);
		cq_give_events();
	}
	qp_unlock(qp);
}

bool streams_service(void)
{
	uint32_t qpns[DUE_AT_ONCE];
	uint64_t now;
	unsigned count;

	if (atomic_load(&next_due_ns) == STREAMS_NEVER)
		return false;
	now = clock_now_ns();
	if (atomic_load(&next_due_ns) > now)
		return false;
	end_all(now);
	count = take_due(now, qpns);
	for (unsigned i = 0; i < count; i++)
		serve_due(qpns[i], now);
	return count == DUE_AT_ONCE;
}

void stream_reset_after_fork(void)
{
	lock_acquire_in_child(&lists_lock);
	for (unsigned i = 0; i < CHAINS; i++) {
		for (struct stream *s = chains[i]; s; s = s->next)
			tcp_close_copy(s->fd, &s->socket);
		chains[i] = NULL;
	}
	for (unsigned i = 0; i < ARENA_QPS; i++)
		if (table[i]) /* a store would copy the page */
			table[i] = NULL;
	list_init(&due);
	list_init(&over);
	list_init(&lingering);
	lingering_count = 0;
	atomic_store(&next_due_ns, STREAMS_NEVER);
	lock_release(&lists_lock);
}
