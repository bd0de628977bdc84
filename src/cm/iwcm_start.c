/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The start-up of connections: accepted ones until the program is told, called ones until the
 * reply. Mostly the thread's; with iwcm.lock.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/gid.h"
#include "cm/address.h"
#include "cm/iwcm_thread.h"
#include "iwarp/handover.h"
#include "tcp/tcp.h"

#define ACCEPTS_AT_ONCE 16
#define SILENT_MAX	128	       /* connections of a listener that have not asked yet */
#define CONNECT_NS	30000000000ull /* of TCP */
/*
 * Programs destroy a listener and create the next between two phases (perftest does); as
 * cmserver/cm_pending.h.
 */
#define REFUSED_NS	100000000ull
#define REFUSED_STEP_NS 10000000ull
#define SECURE_NS	10000000000ull /* of TLS's handshake */
#define REQUEST_NS	10000000000ull /* for the MPA request of an accepted connection */
#define REPLY_NS	60000000000ull /* for the MPA reply: the peer's program takes its time */
/*
 * siw takes its socket for FPDUs a moment after its reply has left: what came before waits for the
 * next segment, perhaps for ever.
 */
#define SETTLE_NS  20000000ull
#define NO_ROOM_NS 100000000ull /* the process has no descriptor, or memory */

/* The QP's hold on it goes. With the lock. */
static void disconnect(struct iwcm *iw)
{
	const struct iwcm_event event = { .kind = CTL_CM_DISCONNECTED };

	iw->state = IWCM_CLOSED;
	iwcm_post(iw, &event);
	iwcm_put(iw);
}

void iwcm_on_end(struct iwcm *iw)
{
	if (iw->state == IWCM_HANDING)
		iw->has_ended = true; /* after ESTABLISHED */
	else
		disconnect(iw);
}

/*
 * The progress thread of libibverbs, which may not wait for iwcm.lock: a thread that forks has
 * that, and waits in another handler until the progress thread has moved pages. The wake-up stays
 * what it is while there is a connection.
 */
static void ended(void *arg)
{
	struct iwcm *iw = arg;

	pthread_mutex_lock(&iwcm.over_lock);
	list_add_tail(&iwcm.over, &iw->over);
	pthread_mutex_unlock(&iwcm.over_lock);
	iwcm_thread_wake();
}

static uint8_t to_u8(uint16_t depth)
{
	return depth < UINT8_MAX ? (uint8_t)depth : UINT8_MAX;
}

static void fill_private(struct iwcm_event *event, const struct mpa_startup *startup)
{
	event->private_bytes =
		(uint8_t)(startup->private_bytes < IWCM_PRIVATE_MAX ? startup->private_bytes
								    : IWCM_PRIVATE_MAX);
	if (event->private_bytes)
		memcpy(event->private_data, startup->private_data, event->private_bytes);
}

/* rdma_disconnect was called meanwhile. With the lock, released meanwhile. */
static void end_at_once(struct iwcm *iw)
{
	pthread_mutex_unlock(&iwcm.lock);
	verbatim_iwarp_disconnect(iw->qpn, iw, VERBATIM_IWARP_END_LATER);
	pthread_mutex_lock(&iwcm.lock);
}

int iwcm_hand_over(struct iwcm *iw)
{
	struct iwcm_event event = { .kind = CTL_CM_ESTABLISHED };
	const struct mpa_agreed *agreed = &iw->startup.agreed;
	/* else rdma_accept returns the outcome */
	bool by_event = agreed->initiator || agreed->same_host;
	int fd = iw->fd, rc;

	/* It stays in iwcm.all until the QP has the socket: for the child of a fork. */
	iwcm_watch(iw, 0);
	iw->due_ns = 0;
	iw->state = IWCM_HANDING;
	iw->users += 2; /* this thread, and the QP */
	pthread_mutex_unlock(&iwcm.lock);
	rc = iwcm_attach(iw, fd, ended);
	pthread_mutex_lock(&iwcm.lock);
	if (rc) {
		iwcm_close(iw);
		iw->users--;
	} else {
		iw->fd = -1;
		list_del(&iw->link);
		iw->state = IWCM_ESTABLISHED;
	}
	pthread_cond_broadcast(&iwcm.handed);
	event.responder_resources = to_u8(agreed->ird);
	event.initiator_depth = to_u8(agreed->ord);
	if (agreed->initiator)
		fill_private(&event, &iw->startup);
	by_event |= iw->wants_end;
	if (rc && by_event) {
		event.kind = iw->wants_end ? CTL_CM_DISCONNECTED : CTL_CM_CONNECT_ERROR;
		event.status = iw->wants_end ? 0 : rc;
	}
	if (!rc || by_event)
		iwcm_post(iw, &event);
	if (iw->has_ended)
		disconnect(iw);
	else if (!rc && iw->wants_end)
		end_at_once(iw);
	iwcm_put(iw);
	return rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * The initiator.
 */

/* The connection does not come about. */
static void fail(struct iwcm *iw, int rc)
{
	struct iwcm_event event = { .status = rc };

	switch (rc) {
	case -ECONNREFUSED:
	case -ECONNRESET:
		event.kind = CTL_CM_REJECTED;
		break;
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		event.kind = CTL_CM_UNREACHABLE;
		break;
	default:
		event.kind = CTL_CM_CONNECT_ERROR;
		break;
	}
	if (iw->startup.state == MPA_REJECTED)
		fill_private(&event, &iw->startup);
	iwcm_close(iw);
	iwcm_post(iw, &event);
}

/* What is left of this end's frame. */
static void send_request(struct iwcm *iw)
{
	struct mpa_startup *s = &iw->startup;
	const struct iovec piece = { s->out + s->out_sent, s->out_bytes - s->out_sent };
	ssize_t sent = tcp_send(iw->fd, &piece, 1, false);

	if (sent < 0) {
		fail(iw, -ECONNRESET);
		return;
	}
	s->out_sent = (uint16_t)(s->out_sent + sent);
	iw->due_ns = clock_now_ns() + REPLY_NS;
	if (iwcm_watch(iw, s->out_sent < s->out_bytes ? EPOLLOUT : EPOLLIN))
		fail(iw, -ENOMEM);
}

static void forget(struct iwcm *iw);

/* An accepted connection waits for its MPA request. */
static void answer(struct iwcm *iw)
{
	iwcm_answer(iw);
	iw->due_ns = clock_now_ns() + REQUEST_NS;
	if (iwcm_watch(iw, EPOLLIN))
		forget(iw);
}

/* It does not become secure. A listener's program has not been told of it. */
static void fail_to_secure(struct iwcm *iw, int rc)
{
	if (iw->listener)
		forget(iw);
	else
		fail(iw, rc);
}

static void secure(struct iwcm *iw)
{
	int rc = tls_go_on(iw->tls);

	if (rc > 0)
		rc = iwcm_watch(iw, (uint32_t)rc) ? -ENOMEM : rc;
	if (rc > 0)
		return;
	tls_end(iw->tls);
	iw->tls = NULL;
	if (rc < 0) {
		fail_to_secure(iw, rc);
	} else if (iw->listener) {
		answer(iw);
	} else {
		iw->state = IWCM_CALLING;
		send_request(iw);
	}
}

/* A socket that was refused first says so once more: ECONNABORTED. */
static int call(int fd, const struct sockaddr *name)
{
	int rc = connect(fd, name, address_length(name)) < 0 ? -errno : 0;

	if (rc == -ECONNABORTED)
		rc = connect(fd, name, address_length(name)) < 0 ? -errno : 0;
	return rc == -EINPROGRESS ? 0 : rc;
}

int iwcm_begin_connect(struct iwcm *iw)
{
	struct sockaddr_storage name;
	int rc;

	address_to_sockaddr(&iw->remote, (struct sockaddr *)&name);
	rc = call(iw->fd, (struct sockaddr *)&name);
	if (!rc)
		rc = iwcm_watch(iw, EPOLLOUT);
	if (rc)
		return rc;
	iw->state = IWCM_CONNECTING;
	iw->due_ns = clock_now_ns() + CONNECT_NS;
	return 0;
}

/* True: tries again in a moment. */
static bool may_listen_soon(struct iwcm *iw)
{
	uint64_t now = clock_now_ns();

	if (!iw->refused_ns)
		iw->refused_ns = now;
	if (now - iw->refused_ns >= REFUSED_NS)
		return false;
	iwcm_watch(iw, 0);
	iw->due_ns = now + REFUSED_STEP_NS;
	return true;
}

static void on_connected(struct iwcm *iw)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(iw->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error == ECONNREFUSED && may_listen_soon(iw))
		return;
	if (error) {
		fail(iw, -error);
		return;
	}
	if (!tls_is_on()) {
		iw->state = IWCM_CALLING;
		send_request(iw);
		return;
	}
	iw->tls = tls_begin(iw->fd, true);
	iw->state = IWCM_SECURING;
	iw->due_ns = clock_now_ns() + REPLY_NS; /* it may wait in the listener's queue */
	if (iw->tls)
		secure(iw);
	else
		fail(iw, -ENOMEM);
}

/* Reads as much of the peer's frame as there is. 0 or -errno: the peer is gone. */
static int read_frame(struct iwcm *iw)
{
	uint8_t bytes[MPA_FRAME_MAX];

	while (iw->startup.state == MPA_WAITING) {
		size_t wanted = mpa_startup_wanted(&iw->startup);
		const struct iovec piece = { bytes,
					     wanted < sizeof(bytes) ? wanted : sizeof(bytes) };
		ssize_t got = tcp_receive(iw->fd, &piece, 1);

		if (got == TCP_WOULD_BLOCK)
			return 0;
		if (got < 0)
			return -ECONNRESET;
		mpa_startup_feed(&iw->startup, bytes, (size_t)got);
	}
	return 0;
}

static void on_reply(struct iwcm *iw)
{
	int rc = read_frame(iw);

	if (rc) {
		fail(iw, rc);
		return;
	}
	switch (iw->startup.state) {
	case MPA_ESTABLISHED:
		if (iw->startup.agreed.extensions) {
			iwcm_hand_over(iw);
			break;
		}
		iwcm_watch(iw, 0);
		iw->state = IWCM_SETTLING;
		iw->due_ns = clock_now_ns() + SETTLE_NS;
		break;
	case MPA_REJECTED:
		fail(iw, -ECONNREFUSED);
		break;
	case MPA_FAILED:
		fail(iw, -EPROTO);
		break;
	default:
		break;
	}
}

/*
 * ------------------------------------------------------------------------------------------
 * The responder.
 */

/*
 * A connection without a request keeps no other one waiting, and so does not count for the backlog.
 * Requests may exceed that by as many as were silent.
 */
static bool takes_more(const struct iwcm *listener)
{
	return listener->waiting < listener->backlog && listener->silent < SILENT_MAX;
}

void iwcm_resume(struct iwcm *listener)
{
	if (listener->state == IWCM_LISTENING && takes_more(listener) &&
	    iwcm_watch(listener, EPOLLIN))
		listener->due_ns = clock_now_ns() + NO_ROOM_NS;
}

/* It ends before the program is told. */
static void forget(struct iwcm *iw)
{
	struct iwcm *listener = iw->listener;

	iw->listener = NULL;
	iwcm_close(iw);
	iwcm_put(iw);
	if (listener) {
		listener->silent--;
		iwcm_resume(listener);
	}
}

static void on_request(struct iwcm *iw)
{
	const struct mpa_startup *s = &iw->startup;
	struct iwcm *listener = iw->listener;
	struct iwcm_event event = {
		.kind = CTL_CM_CONNECT_REQUEST,
		.asked = iw,
		.local = iw->local,
		.remote = iw->remote,
		.responder_resources = UINT8_MAX,
		.initiator_depth = UINT8_MAX,
	};
	int rc = read_frame(iw);

	if (!rc && s->state == MPA_WAITING)
		return;
	if (rc || s->state != MPA_ASKED) {
		/* What cannot be answered by MPA is closed; a rejection is in `out`. */
		if (!rc && s->out_bytes)
			tcp_send(iw->fd, &(struct iovec){ (void *)s->out, s->out_bytes }, 1, false);
		forget(iw);
		return;
	}
	iw->state = IWCM_ASKED;
	iw->due_ns = 0;
	iwcm_watch(iw, 0);
	listener->silent--;
	listener->waiting++;
	iwcm_resume(listener);
	/* The peer's outstanding READs need this end's resources, and the other way round. */
	if (s->peer_negotiates) {
		event.responder_resources = to_u8(s->peer_ord);
		event.initiator_depth = to_u8(s->peer_ird);
	}
	fill_private(&event, s);
	iwcm_post(listener, &event);
}

static int read_name(int fd, int (*get)(int, struct sockaddr *, socklen_t *),
		     struct ctl_cm_address *out)
{
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);

	if (get(fd, (struct sockaddr *)&name, &len) < 0 ||
	    address_from_sockaddr((struct sockaddr *)&name, out))
		return -errno;
	if (out->family == AF_INET6 && gid_is_v4(out->gid))
		out->family = AF_INET; /* at a listener for both */
	return 0;
}

static int get_local(int fd, struct sockaddr *name, socklen_t *len)
{
	return getsockname(fd, name, len);
}

static int get_remote(int fd, struct sockaddr *name, socklen_t *len)
{
	return getpeername(fd, name, len);
}

static void add(struct iwcm *listener, int fd)
{
	struct iwcm *iw = iwcm_create();

	if (!iw || tcp_prepare(fd) || read_name(fd, get_local, &iw->local) ||
	    read_name(fd, get_remote, &iw->remote)) {
		close(fd);
		if (iw)
			iwcm_put(iw);
		return;
	}
	iwcm_take(iw, fd);
	iw->listener = listener;
	listener->silent++;
	if (!tls_is_on()) {
		answer(iw);
		return;
	}
	iw->tls = tls_begin(fd, false);
	iw->state = IWCM_SECURING;
	iw->due_ns = clock_now_ns() + SECURE_NS;
	if (iw->tls)
		secure(iw);
	else
		forget(iw);
}

static void on_arrivals(struct iwcm *listener)
{
	for (int i = 0; i < ACCEPTS_AT_ONCE && takes_more(listener); i++) {
		/* cppcheck-suppress nullPointer; accept4(2): the address is not wanted */
		int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			add(listener, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			iwcm_watch(listener, 0);
			listener->due_ns = clock_now_ns() + NO_ROOM_NS;
		}
		return;
	}
	/* The kernel's queue has the rest, until the program has taken some. */
	if (!takes_more(listener))
		iwcm_watch(listener, 0);
}

/*
 * ------------------------------------------------------------------------------------------
 */

void iwcm_on_socket(struct iwcm *iw, uint32_t events)
{
	switch (iw->state) {
	case IWCM_LISTENING:
		on_arrivals(iw);
		break;
	case IWCM_CONNECTING:
		on_connected(iw);
		break;
	case IWCM_SECURING:
		secure(iw);
		break;
	case IWCM_CALLING:
		if (iw->startup.out_sent < iw->startup.out_bytes)
			send_request(iw);
		else
			on_reply(iw);
		break;
	case IWCM_ANSWERING:
		on_request(iw);
		break;
	case IWCM_PLACING:
		iwcm_on_place(iw);
		break;
	default:
		iwcm_watch(iw, 0);
		break;
	}
}

void iwcm_on_due(struct iwcm *iw)
{
	int rc;

	switch (iw->state) {
	case IWCM_LISTENING:
		iwcm_resume(iw);
		break;
	case IWCM_CONNECTING:
		rc = iw->watched ? -ETIMEDOUT : iwcm_begin_connect(iw);
		if (rc == -ECONNREFUSED && may_listen_soon(iw))
			break;
		if (rc)
			fail(iw, rc);
		break;
	case IWCM_SETTLING:
		iwcm_hand_over(iw);
		break;
	case IWCM_SECURING:
		fail_to_secure(iw, -ETIMEDOUT);
		break;
	case IWCM_CALLING:
		fail(iw, -ETIMEDOUT);
		break;
	case IWCM_ANSWERING:
		forget(iw);
		break;
	case IWCM_PLACING:
		iwcm_fail_place(iw, -ETIMEDOUT);
		break;
	default:
		break;
	}
}
