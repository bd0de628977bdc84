/* SPDX-License-Identifier: BSD-2-Clause */
#include "tcp/streams.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "iwarp/iwarp.h"
#include "object/cq.h"
#include "object/qp_table.h"
#include "tcp/tcp.h"

#define INDEX_MASK ((1u << ARENA_QP_BITS) - 1)
#define HOT_MAX	   8 /* streams that each look reads without asking epoll */
/* After so many looks in vain (a few milliseconds) epoll tells of the stream. */
#define COLD_LOOKS     4096
#define EVENTS_MAX     16
#define TAKES_MAX      8 /* shares of one stream, one after the other */
#define AGAIN_NS       2000000ull
#define LINGER_STEP_NS 5000000ull
#define GATE_NS	       20000000ull /* for the peer to take the start-up frame (iwarp_may_be_early) */
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
#define MULPDU_LONG   65535 /* the peer is Verbatim */

struct stream {
	int fd;
	struct tcp_identity socket; /* of fd */
	uint32_t qpn;
	void (*ended)(void *arg);
	void *arg;
	/* guarded by the QP's lock */
	bool wants_room;  /* EPOLLOUT is on */
	bool has_sent;	  /* a byte has left in this take */
	uint64_t gate_ns; /* iwarp_open_gate is due; 0: it is not */
	/* likewise; the progress thread's alone once the stream is in `over` or `lingering` */
	uint64_t idle_ns;  /* how long no byte may move; 0: the stream is not ending */
	uint64_t limit_ns; /* it is given up then, unless a byte moves before */
	uint64_t bound_ns; /* it is given up then */
	uint64_t look_ns;  /* when to look next whether bytes have moved */
	uint64_t moved;	   /* at the last look */
	/* guarded by lists_lock */
	struct list link; /* in `due`, `over` or `lingering`; or alone */
	uint64_t due_ns;
	struct stream *_Atomic next; /* in `chains` */
	/* the progress thread's alone */
	bool is_closed; /* lingering: until no fork is under way */
};

_Atomic uint32_t streams_count;

static struct streams_env env;
static int epoll = -1;
static struct stream *table[ARENA_QPS]; /* by the QP's index; guarded by its lock */
static _Atomic uint32_t rooms_wanted;	/* streams with EPOLLOUT */

/* QPNs of streams that had bytes lately; 0: free. Any thread; a lost entry costs a call. */
static _Atomic uint32_t hot[HOT_MAX];
static _Atomic uint32_t in_vain[HOT_MAX];

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
 * Not below 0: the child of a signal handler that forks sets it to 0 within a call, and the call
 * goes on there.
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

static void remember(struct stream *s)
{
	struct stream *_Atomic *chain;

	lock_acquire(&lists_lock);
	chain = chain_of(s->qpn);
	atomic_store(&s->next, atomic_load(chain));
	atomic_store(chain, s);
	lock_release(&lists_lock);
	atomic_fetch_add(&streams_count, 1);
}

static void forget(struct stream *s)
{
	struct stream *_Atomic *link;
	struct stream *found;

	lock_acquire(&lists_lock);
	link = chain_of(s->qpn);
	while ((found = atomic_load(link)) && found != s)
		link = &found->next;
	if (found) /* not in a child that a signal handler forked in streams_attach */
		atomic_store(link, atomic_load(&s->next));
	lock_release(&lists_lock);
	count_down(&streams_count);
}

static struct stream **place_of(uint32_t qpn)
{
	return &table[qpn & INDEX_MASK];
}

int streams_epoll(void)
{
	return epoll;
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

static void schedule(struct stream *s, uint64_t ns)
{
	lock_acquire(&lists_lock);
	if (list_empty(&s->link) || ns < s->due_ns) {
		s->due_ns = ns;
		list_del(&s->link);
		list_add_tail(&due, &s->link);
		note_due(ns);
	}
	lock_release(&lists_lock);
	env.wake();
}

uint64_t streams_due_ns(void)
{
	return atomic_load(&next_due_ns);
}

/*
 * ------------------------------------------------------------------------------------------
 * struct iwarp_env. With the QP's lock.
 */

static void want_room(struct stream *s, bool wanted)
{
	struct epoll_event event = {
		.events = EPOLLIN | (wanted ? EPOLLOUT : 0),
		.data.u32 = s->qpn,
	};

	if (s->wants_room == wanted)
		return;
	s->wants_room = wanted;
	epoll_ctl(epoll, EPOLL_CTL_MOD, s->fd, &event);
	if (wanted)
		atomic_fetch_add(&rooms_wanted, 1);
	else
		atomic_fetch_sub(&rooms_wanted, 1);
}

/* Its next turn is in the next poll that finds room, after those of the others in this one. */
static void turn_over(void *stream)
{
	want_room(stream, true);
}

static size_t bytes_of(const struct iovec *pieces, int count)
{
	size_t all = 0;

	for (int i = 0; i < count; i++)
		all += pieces[i].iov_len;
	return all;
}

static ssize_t send_pieces(void *stream, const struct iovec *pieces, int count, bool more)
{
	struct stream *s = stream;
	ssize_t sent;

	env.send_begin();
	sent = tcp_send(s->fd, pieces, count, more);
	env.send_end();
	s->has_sent |= sent > 0;
	if (sent >= 0 && (size_t)sent < bytes_of(pieces, count))
		want_room(s, true);
	return sent;
}

static ssize_t receive_pieces(void *stream, const struct iovec *pieces, int count)
{
	struct stream *s = stream;

	return tcp_receive(s->fd, pieces, count);
}

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

/* True: the stream has not ended in time. */
static bool is_late(struct stream *s, uint64_t now)
{
	uint64_t moved;

	if (now < s->look_ns)
		return false;
	s->look_ns = now + LOOK_NS;
	moved = tcp_bytes_moved(s->fd);
	if (moved != s->moved)
		s->limit_ns = now + s->idle_ns;
	s->moved = moved;
	return now >= s->limit_ns || now >= s->bound_ns;
}

/* A limit that is no shorter than that of before changes nothing, so a peer gains no time. */
static void begin_end(void *stream, bool failed)
{
	struct stream *s = stream;
	uint64_t idle_ns = failed ? STREAMS_LINGER_NS : DISCONNECT_NS;

	if (s->idle_ns && s->idle_ns <= idle_ns)
		return;
	limit(s, idle_ns, clock_now_ns());
	schedule(s, s->look_ns);
}

/* The bound of `ending`, which the engine has called before, remains. */
static void half_close(void *stream)
{
	struct stream *s = stream;

	tcp_half_close(s->fd);
	s->idle_ns = STREAMS_LINGER_NS;
	s->limit_ns = clock_now_ns() + s->idle_ns;
}

static void end_stream(void *stream, struct qp *qp, enum iwarp_end end)
{
	struct stream *s = stream;

	want_room(s, false);
	epoll_ctl(epoll, EPOLL_CTL_DEL, s->fd, NULL);
	*place_of(s->qpn) = NULL;
	lock_acquire(&lists_lock);
	list_del(&s->link);
	list_add_tail(&over, &s->link);
	note_due(0);
	lock_release(&lists_lock);
	env.wake();
}

static void again(void *stream, struct qp *qp)
{
	struct stream *s = stream;

	if (tcp_peer_has_closed(s->fd))
		begin_end(s, false);
	schedule(s, clock_now_ns() + AGAIN_NS);
}

int streams_init(const struct streams_env *surroundings)
{
	static const struct iwarp_env engine = {
		.send = send_pieces,
		.receive = receive_pieces,
		.shutdown = half_close,
		.turn_over = turn_over,
		.ending = begin_end,
		.ended = end_stream,
		.again = again,
	};

	env = *surroundings;
	iwarp_init(&engine);
	if (epoll < 0)
		epoll = epoll_create1(EPOLL_CLOEXEC);
	return epoll < 0 ? -errno : 0;
}

/*
 * ------------------------------------------------------------------------------------------
 * From start-up to the end.
 */

/* As iwcm sets them: iWARP has no rights of a QP that its program chooses. */
#define RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static int start(struct qp *qp, struct stream *s, const struct mpa_agreed *agreed)
	REQUIRES(qp->lock)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = s->qpn };
	struct iwarp_options options = {
		.mpa = *agreed,
		.mulpdu = agreed->extensions
				  ? MULPDU_LONG
				  : mpa_mulpdu(tcp_segment_bytes(s->fd), agreed->sends_markers),
	};
	int rc;

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, s->fd, &event) < 0)
		return -errno;
	*place_of(s->qpn) = s;
	qp->attr.qp_access_flags = RIGHTS;
	qp->entry->path = ARENA_PATH_TCP;
	tcp_peer(s->fd, qp->entry->peer);
	rc = -iwarp_attach(qp, s, &options, NULL, 0);
	if (rc && *place_of(s->qpn) == s) {
		*place_of(s->qpn) = NULL;
		epoll_ctl(epoll, EPOLL_CTL_DEL, s->fd, NULL);
	}
	return rc;
}

bool streams_may_attach(const struct qp *qp)
{
	return !*place_of(qp->ib.qp_num) && iwarp_may_attach(qp);
}

int streams_attach(struct qp *qp, int fd, const struct mpa_agreed *agreed, void (*ended)(void *arg),
		   void *arg)
{
	struct stream *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	*s = (struct stream){ .fd = fd, .qpn = qp->ib.qp_num, .ended = ended, .arg = arg };
	list_init(&s->link);
	tcp_identify(fd, &s->socket);
	remember(s); /* while the caller has it, too */
	rc = streams_may_attach(qp) ? tcp_prepare(fd) : -EINVAL;
	if (!rc)
		rc = start(qp, s, agreed);
	if (rc) {
		forget(s);
		free(s);
	} else if (iwarp_may_be_early(agreed)) {
		s->gate_ns = clock_now_ns() + GATE_NS;
		schedule(s, s->gate_ns);
	}
	return rc;
}

void streams_disconnect(struct qp *qp, const void *arg, bool abort)
{
	struct stream *s = *place_of(qp->ib.qp_num);

	if (!s || s->arg != arg)
		return;
	if (abort) {
		qp_enter_error(qp, CAUSE_NONE);
		return;
	}
	iwarp_disconnect(qp);
}

/* True: the socket is closed, and `s` freed. */
static bool close_if_done(struct stream *s, uint64_t now)
{
	if (!s->is_closed) {
		if (!tcp_drain(s->fd) && !is_late(s, now) && lingering_count < LINGERING_MAX)
			return false;
		close(s->fd);
		s->is_closed = true;
	}
	if (atomic_load(&forks)) /* FORK */
		return false;
	forget(s);
	free(s);
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
		tcp_half_close(s->fd);
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

/*
 * ------------------------------------------------------------------------------------------
 * Looks.
 */

static void warm_up(uint32_t qpn)
{
	for (unsigned i = 0; i < HOT_MAX; i++)
		if (atomic_load_explicit(&hot[i], memory_order_relaxed) == qpn)
			return;
	for (unsigned i = 0; i < HOT_MAX; i++) {
		uint32_t none = 0;

		if (atomic_compare_exchange_strong(&hot[i], &none, qpn)) {
			atomic_store_explicit(&in_vain[i], 0, memory_order_relaxed);
			return;
		}
	}
}

/*
 * The progress thread sleeps after NOTHING, and is told of changes alone: so bytes that leave
 * count, too, as more of them may wait for the stream's next turn.
 */
enum found {
	GONE,	   /* there is no such stream */
	NOTHING,   /* no byte has come, nor left */
	SOMETHING, /* some have, or the stream has ended */
};

static enum found take(struct qp *qp, struct stream *s) REQUIRES(qp->lock)
{
	uint32_t qpn = s->qpn;
	bool came = false, any;
	int takes = 0;

	s->has_sent = false;
	if (s->wants_room)
		iwarp_on_writable(qp);
	while (*place_of(qpn) == s) {
		enum iwarp_progress progress;

		any = false;
		progress = iwarp_on_readable(qp, &any);
		came |= any;
		if (progress != IWARP_MORE || ++takes == TAKES_MAX)
			break;
	}
	if (*place_of(qpn) != s)
		return SOMETHING; /* it has ended */
	want_room(s, iwarp_wants_room(qp));
	return came || s->has_sent ? SOMETHING : NOTHING;
}

static enum found look_at(uint32_t qpn)
{
	enum found found = GONE;
	struct stream *s;
	struct qp *qp;

	if (!qp_find_locked(qpn, &qp))
		return GONE;
	s = *place_of(qpn);
	if (s) {
		found = take(qp, s);
		cq_give_events();
	}
	qp_unlock(qp);
	return found;
}

/* What this look has taken from already. Another thread may have changed `hot` meanwhile. */
struct looked {
	unsigned count;
	uint32_t qpns[HOT_MAX];
};

static bool is_in(const struct looked *looked, uint32_t qpn)
{
	for (unsigned i = 0; i < looked->count; i++)
		if (looked->qpns[i] == qpn)
			return true;
	return false;
}

/* Reads the hot streams. */
static bool look_at_hot(struct looked *looked)
{
	bool found = false;

	looked->count = 0;
	for (unsigned i = 0; i < HOT_MAX; i++) {
		uint32_t qpn = atomic_load_explicit(&hot[i], memory_order_relaxed), vain;

		if (!qpn)
			continue;
		if (is_in(looked, qpn)) { /* two threads have added it */
			atomic_store(&hot[i], 0);
			continue;
		}
		looked->qpns[looked->count++] = qpn;
		switch (look_at(qpn)) {
		case GONE:
			looked->count--;
			atomic_store(&hot[i], 0);
			break;
		case NOTHING:
			vain = atomic_load_explicit(&in_vain[i], memory_order_relaxed) + 1;
			atomic_store_explicit(&in_vain[i], vain, memory_order_relaxed);
			if (vain >= COLD_LOOKS)
				atomic_store(&hot[i], 0);
			break;
		case SOMETHING:
			atomic_store_explicit(&in_vain[i], 0, memory_order_relaxed);
			found = true;
			break;
		}
	}
	return found;
}

/* No cancellation point, unlike epoll_wait(2). */
static int wait_for_none(struct epoll_event *events)
{
	return (int)syscall(SYS_epoll_pwait, epoll, events, EVENTS_MAX, 0, NULL, 0);
}

/*
 * A stream that can be read and is not, because its peer takes no responses, is named each time:
 * others are behind it, as the kernel takes turns. No stream that sent a share gets a second turn
 * in this look: there is no further round once something was found.
 */
static bool look_at_named(const struct looked *looked)
{
	struct epoll_event events[EVENTS_MAX];
	uint32_t rounds = streams_count / EVENTS_MAX + 1;
	bool found = false;
	int n;

	do {
		n = wait_for_none(events);
		for (int i = 0; i < n; i++) {
			uint32_t qpn = events[i].data.u32;

			if (is_in(looked, qpn) || look_at(qpn) != SOMETHING)
				continue;
			warm_up(qpn);
			found = true;
		}
	} while (n == EVENTS_MAX && !found && --rounds);
	return found;
}

bool streams_progress(bool all)
{
	struct looked looked;
	bool found = look_at_hot(&looked);

	if (all || !looked.count || atomic_load_explicit(&rooms_wanted, memory_order_relaxed))
		found |= look_at_named(&looked);
	return found;
}

void streams_catch_up(struct qp *qp)
{
	struct stream *s;

	lock_acquire(&qp->lock);
	s = *place_of(qp->ib.qp_num);
	if (s) {
		take(qp, s);
		cq_give_events();
	}
	lock_release(&qp->lock);
}

/* What it takes may end a wait for which more was left behind, and no event tells of that. */
static void serve_due(uint32_t qpn, uint64_t now)
{
	enum found found = NOTHING;
	struct stream *s;
	struct qp *qp;

	if (!qp_find_locked(qpn, &qp))
		return;
	s = *place_of(qpn);
	if (s) {
		if (s->idle_ns && is_late(s, now))
			iwarp_give_up(qp);
		else
			found = take(qp, s);
		if (*place_of(qpn) == s && s->gate_ns && s->gate_ns <= now) {
			s->gate_ns = 0;
			iwarp_open_gate(qp);
		}
		if (*place_of(qpn) == s && found == SOMETHING)
			schedule(s, now);
		else if (*place_of(qpn) == s && s->idle_ns)
			schedule(s, s->look_ns);
		if (*place_of(qpn) == s && s->gate_ns)
			schedule(s, s->gate_ns);
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

void streams_reset_after_fork(void)
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
	for (unsigned i = 0; i < HOT_MAX; i++)
		atomic_store(&hot[i], 0);
	atomic_store(&rooms_wanted, 0);
	atomic_store(&streams_count, 0);
	lock_release(&lists_lock);
	if (epoll >= 0)
		close(epoll);
	epoll = -1;
}
