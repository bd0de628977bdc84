/* SPDX-License-Identifier: BSD-2-Clause */
#include "tcp/control.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/syscall.h"
#include "iwarp/iwarp.h"
#include "iwarp/same_host.h"
#include "object/cq.h"
#include "object/qp_table.h"
#include "tcp/stream.h"
#include "tcp/tcp.h"

#define EVENTS_MAX 16
/* The progress thread looks so often although it does not sleep, and so is not told. */
#define LOOK_NS 4000000ull

static struct tcp_control_env env;
static int epoll = -1;
static _Atomic uint32_t in_use; /* streams */
/* the progress thread's alone */
static bool readable;
static uint64_t looked_ns;

static void disconnect(struct qp *qp, struct stream *s) REQUIRES(qp->lock);
static void serve(struct qp *qp, struct stream *s, uint64_t now) REQUIRES(qp->lock);

static void leave(struct stream *s)
{
	epoll_ctl(epoll, EPOLL_CTL_DEL, s->fd, NULL);
}

/*
 * Before a FIN: the QP's thread may be on the way to a NAK, or to the acknowledgement of what came
 * before, with the locks that this takes.
 */
static void catch_up(uint32_t qpn)
{
	env.catch_up(qpn);
}

/* Without a cause, if the peer has closed and nothing was left to do. */
static void fail(struct qp *qp, enum cause cause) REQUIRES(qp->lock)
{
	bool is_normal = cause == CAUSE_IWARP_CLOSED && qp->sq.head == qp->sq.tail;

	if (cause == CAUSE_IWARP_SEGMENT)
		cause_report(cause, qp->ib.qp_num, "a byte beside shared memory");
	else
		cause_note(cause, qp->ib.qp_num, NULL);
	qp_enter_error(qp, is_normal ? CAUSE_NONE : cause);
}

static const struct stream_use control = {
	.disconnect = disconnect,
	.serve = serve,
	.leave = leave,
	.catch_up = catch_up,
	.count = &in_use,
};

/* NULL: the QP has none, or it carries the QP's bytes. */
static struct stream *find(uint32_t qpn)
{
	struct stream *s = stream_at(qpn);

	return s && s->use == &control ? s : NULL;
}

int tcp_control_init(const struct tcp_control_env *surroundings)
{
	env = *surroundings;
	if (epoll < 0)
		epoll = epoll_create1(EPOLL_CLOEXEC);
	return epoll < 0 ? -errno : 0;
}

int tcp_control_epoll(void)
{
	return epoll;
}

/*
 * ------------------------------------------------------------------------------------------
 * From start-up to the end.
 */

int tcp_control_attach(struct qp *qp, int fd, uint64_t cookie, void (*ended)(void *arg), void *arg)
{
	uint32_t qpn = qp->ib.qp_num;
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = qpn };
	struct stream *s;
	int rc;

	if (stream_at(qpn) || !iwarp_may_attach(qp))
		return -EINVAL;
	s = stream_make(qpn, fd, &control, ended, arg);
	if (!s)
		return -ENOMEM;
	rc = tcp_prepare(fd);
	if (!rc && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		rc = -errno;
	if (rc) {
		stream_drop(s);
		return rc;
	}
	s->cookie = cookie;
	stream_set(qpn, s);
	return 0;
}

void tcp_control_detach(struct qp *qp)
{
	struct stream *s = find(qp->ib.qp_num);

	leave(s);
	stream_set(s->qpn, NULL);
	stream_drop(s);
}

void tcp_control_send(struct qp *qp, const void *bytes, size_t count)
{
	const struct iovec piece = { (void *)bytes, count };

	if (tcp_send(find(qp->ib.qp_num)->fd, &piece, 1, false) != (ssize_t)count)
		fail(qp, CAUSE_IWARP_LOST);
}

void tcp_control_issue_later(struct qp *qp)
{
	struct stream *s = find(qp->ib.qp_num);

	if (s && qp->sq.issue != qp->sq.tail)
		stream_schedule(s, clock_now_ns());
}

/*
 * The half close, once nothing is left to do. This end serves the peer's requests until the peer
 * has closed, too, so the limit begins anew and is no shorter.
 */
static void settle(struct qp *qp, struct stream *s) REQUIRES(qp->lock)
{
	if (!s->closing || s->fin != FIN_NONE || qp->sq.head != qp->sq.tail)
		return;
	stream_fin(s);
	s->limit_ns = clock_now_ns() + s->idle_ns;
}

static void disconnect(struct qp *qp, struct stream *s)
{
	if (s->closing)
		return;
	s->closing = true;
	s->head = qp->sq.head;
	stream_begin_end(s, false);
	settle(qp, s);
	if (s->fin == FIN_NONE)
		stream_schedule(s, clock_now_ns() + STREAM_AGAIN_NS);
}

void tcp_control_disconnect(struct qp *qp)
{
	struct stream *s = find(qp->ib.qp_num);

	if (s)
		disconnect(qp, s);
}

void tcp_control_on_quiesce(struct qp *qp)
{
	struct stream *s = find(qp->ib.qp_num);

	if (s)
		stream_end(s);
}

/* A request that completes counts as a byte that moves: the limit is for one that does not. */
static bool is_late(struct qp *qp, struct stream *s, uint64_t now) REQUIRES(qp->lock)
{
	if (qp->sq.head != s->head)
		s->limit_ns = now + s->idle_ns;
	s->head = qp->sq.head;
	return stream_is_late(s, now);
}

/*
 * The peer has sent its FIN. True: what was posted before is done, or the peer takes no request any
 * more. It may be about to store a NAK then, so that counts at the next look, after a catch-up.
 */
static bool is_done(struct qp *qp, struct stream *s) REQUIRES(qp->lock)
{
	bool was_left = s->is_left;

	if (!s->peer_closed)
		return false;
	s->is_left = !env.is_served(qp, s->cookie);
	return (int32_t)(qp->sq.head - s->last) >= 0 || (was_left && s->is_left);
}

static void serve(struct qp *qp, struct stream *s, uint64_t now)
{
	qp->path->issue(qp);
	if (stream_at(s->qpn) != s)
		return; /* a request failed the QP */
	if (is_done(qp, s)) {
		fail(qp, CAUSE_IWARP_CLOSED);
		return;
	}
	if (is_late(qp, s, now)) {
		fail(qp, CAUSE_IWARP_LOST);
		return;
	}
	settle(qp, s);
	if (s->idle_ns)
		stream_schedule(s, s->fin != FIN_NONE && !s->peer_closed ? s->look_ns
									 : now + STREAM_AGAIN_NS);
}

/*
 * ------------------------------------------------------------------------------------------
 * The peer.
 */

/* One byte is all that the peer sends, and only to an initiator. */
static enum cause read_byte(struct qp *qp, struct stream *s) REQUIRES(qp->lock)
{
	uint8_t byte;
	const struct iovec piece = { &byte, 1 };

	switch (tcp_receive(s->fd, &piece, 1)) {
	case TCP_WOULD_BLOCK:
		return CAUSE_NONE;
	case TCP_END:
		return CAUSE_IWARP_CLOSED;
	case TCP_LOST:
		return CAUSE_IWARP_LOST;
	default:
		break;
	}
	if (byte != SAME_HOST_READY)
		return CAUSE_IWARP_SEGMENT;
	/* Else it has failed meanwhile, and its FIN follows; or it is not the peer. */
	if (env.is_served(qp, s->cookie))
		env.on_ready(qp);
	return CAUSE_NONE;
}

/*
 * The peer has closed in good order, and takes what was posted before: this end closes likewise.
 * Its socket has nothing more to say, so epoll would tell of it for ever.
 */
static void follow(struct qp *qp, struct stream *s) REQUIRES(qp->lock)
{
	leave(s);
	s->peer_closed = true;
	s->last = qp->sq.tail;
	disconnect(qp, s);
	stream_schedule(s, clock_now_ns() + STREAM_AGAIN_NS);
}

/* The progress thread alone frees streams, so `s` is no other by now. */
static void end(uint32_t qpn, struct stream *s, enum cause cause)
{
	struct qp *qp;

	if (!qp_find_locked(qpn, &qp))
		return;
	if (find(qpn) == s && cause == CAUSE_IWARP_CLOSED && qp->sq.head != qp->sq.tail &&
	    env.is_served(qp, s->cookie))
		follow(qp, s);
	else if (find(qpn) == s)
		fail(qp, cause);
	cq_give_events();
	qp_unlock(qp);
}

static void look_at(uint32_t qpn)
{
	enum cause cause = CAUSE_NONE;
	struct stream *s;
	struct qp *qp;

	if (!qp_find_locked(qpn, &qp))
		return;
	s = find(qpn);
	if (s)
		cause = read_byte(qp, s);
	cq_give_events();
	qp_unlock(qp);
	if (cause == CAUSE_NONE)
		return;
	env.catch_up(qpn);
	end(qpn, s, cause);
}

void tcp_control_on_readable(int fd)
{
	readable = true;
}

static bool is_time_to_look(void)
{
	uint64_t now;

	if (readable)
		return true;
	if (!atomic_load_explicit(&in_use, memory_order_relaxed))
		return false;
	now = clock_coarse_ns();
	if (now - looked_ns < LOOK_NS)
		return false;
	looked_ns = now;
	return true;
}

bool tcp_control_service(void)
{
	struct epoll_event events[EVENTS_MAX];
	int n;

	if (!is_time_to_look())
		return false;
	n = sys_epoll_poll(epoll, events, EVENTS_MAX);
	for (int i = 0; i < n; i++)
		look_at(events[i].data.u32);
	readable = n == EVENTS_MAX;
	return readable;
}

void tcp_control_reset_after_fork(void)
{
	if (epoll >= 0)
		close(epoll);
	epoll = -1;
	readable = false;
	atomic_store(&in_use, 0);
}
