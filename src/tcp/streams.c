/* SPDX-License-Identifier: BSD-2-Clause */
#include "tcp/streams.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/syscall.h"
#include "iwarp/iwarp.h"
#include "object/cq.h"
#include "object/qp_table.h"
#include "tcp/stream.h"
#include "tcp/tcp.h"

#define HOT_MAX 8 /* streams that each look reads without asking epoll */
/* After so many looks in vain (a few milliseconds) epoll tells of the stream. */
#define COLD_LOOKS  4096
#define EVENTS_MAX  16
#define TAKES_MAX   8		/* shares of one stream, one after the other */
#define GATE_NS	    20000000ull /* for the peer to take the start-up frame (iwarp_may_be_early) */
#define MULPDU_LONG 65535	/* the peer is Verbatim */

_Atomic uint32_t streams_count;

static struct streams_env env;
static int epoll = -1;
static _Atomic uint32_t rooms_wanted; /* streams with EPOLLOUT */

/* QPNs of streams that had bytes lately; 0: free. Any thread; a lost entry costs a call. */
static _Atomic uint32_t hot[HOT_MAX];
static _Atomic uint32_t in_vain[HOT_MAX];

int streams_epoll(void)
{
	return epoll;
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
	sent = tcp_send(s->fd, pieces, count, more && !s->is_tls);
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

static void begin_end(void *stream, bool failed)
{
	stream_begin_end(stream, failed);
}

/* The bound of `ending`, which the engine has called before, remains. */
static void half_close(void *stream)
{
	stream_half_close(stream);
}

static void end_stream(void *stream, struct qp *qp, enum iwarp_end end)
{
	stream_end(stream);
}

static void again(void *stream, struct qp *qp)
{
	struct stream *s = stream;

	if (tcp_peer_has_closed(s->fd))
		begin_end(s, false);
	stream_schedule(s, clock_now_ns() + STREAM_AGAIN_NS);
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
	stream_init(env.wake);
	iwarp_init(&engine);
	if (epoll < 0)
		epoll = epoll_create1(EPOLL_CLOEXEC);
	return epoll < 0 ? -errno : 0;
}

/*
 * ------------------------------------------------------------------------------------------
 * From start-up to the end.
 */

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
	stream_set(s->qpn, s);
	qp->attr.qp_access_flags = STREAMS_RIGHTS;
	qp->entry->path = ARENA_PATH_TCP;
	tcp_peer(s->fd, qp->entry->peer);
	rc = -iwarp_attach(qp, s, &options, NULL, 0);
	if (rc && stream_at(s->qpn) == s) {
		stream_set(s->qpn, NULL);
		epoll_ctl(epoll, EPOLL_CTL_DEL, s->fd, NULL);
	}
	return rc;
}

bool streams_may_attach(const struct qp *qp)
{
	return !stream_at(qp->ib.qp_num) && iwarp_may_attach(qp);
}

static void leave(struct stream *s)
{
	want_room(s, false);
	epoll_ctl(epoll, EPOLL_CTL_DEL, s->fd, NULL);
}

static void disconnect(struct qp *qp, struct stream *s) REQUIRES(qp->lock)
{
	iwarp_disconnect(qp);
}

static void serve(struct qp *qp, struct stream *s, uint64_t now) REQUIRES(qp->lock);

static const struct stream_use bytes = {
	.disconnect = disconnect,
	.serve = serve,
	.leave = leave,
	.count = &streams_count,
};

int streams_attach(struct qp *qp, int fd, const struct mpa_agreed *agreed, void (*ended)(void *arg),
		   void *arg)
{
	struct stream *s = stream_make(qp->ib.qp_num, fd, &bytes, ended, arg);
	int rc;

	if (!s)
		return -ENOMEM;
	rc = streams_may_attach(qp) ? tcp_prepare(fd) : -EINVAL;
	if (!rc)
		rc = start(qp, s, agreed);
	if (rc) {
		stream_drop(s);
	} else if (iwarp_may_be_early(agreed)) {
		s->gate_ns = clock_now_ns() + GATE_NS;
		stream_schedule(s, s->gate_ns);
	} else if (qp->sq.issue != qp->sq.tail) { /* it was held */
		want_room(s, true);
		stream_schedule(s, clock_now_ns());
	}
	return rc;
}

void streams_disconnect(struct qp *qp, const void *arg, bool abort)
{
	struct stream *s = stream_at(qp->ib.qp_num);

	if (!s || s->arg != arg)
		return;
	if (abort)
		qp_enter_error(qp, CAUSE_NONE);
	else
		s->use->disconnect(qp, s);
}

void streams_disconnect_later(struct qp *qp, const void *arg)
{
	struct stream *s = stream_at(qp->ib.qp_num);

	if (!s || s->arg != arg)
		return;
	s->wants_end = true;
	stream_schedule(s, clock_now_ns());
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
	while (stream_at(qpn) == s) {
		enum iwarp_progress progress;

		any = false;
		progress = iwarp_on_readable(qp, &any);
		came |= any;
		if (progress != IWARP_MORE || ++takes == TAKES_MAX)
			break;
	}
	if (stream_at(qpn) != s)
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
	s = stream_at(qpn);
	if (s && s->use == &bytes) {
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
		n = sys_epoll_poll(epoll, events, EVENTS_MAX);
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
	s = stream_at(qp->ib.qp_num);
	if (s && s->use == &bytes) {
		take(qp, s);
		cq_give_events();
	}
	lock_release(&qp->lock);
}

/* What it takes may end a wait for which more was left behind, and no event tells of that. */
static void serve(struct qp *qp, struct stream *s, uint64_t now)
{
	uint32_t qpn = s->qpn;
	enum found found = NOTHING;

	if (stream_is_late(s, now))
		iwarp_give_up(qp);
	else
		found = take(qp, s);
	if (stream_at(qpn) == s && s->gate_ns && s->gate_ns <= now) {
		s->gate_ns = 0;
		iwarp_open_gate(qp);
	}
	if (stream_at(qpn) == s && found == SOMETHING)
		stream_schedule(s, now);
	else if (stream_at(qpn) == s && s->idle_ns)
		stream_schedule(s, s->look_ns);
	if (stream_at(qpn) == s && s->gate_ns)
		stream_schedule(s, s->gate_ns);
}

void streams_reset_after_fork(void)
{
	stream_reset_after_fork();
	for (unsigned i = 0; i < HOT_MAX; i++)
		atomic_store(&hot[i], 0);
	atomic_store(&rooms_wanted, 0);
	atomic_store(&streams_count, 0);
	if (epoll >= 0)
		close(epoll);
	epoll = -1;
}
