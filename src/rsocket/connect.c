/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/connect.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/cause.h"
#include "rsocket/message.h"
#include "rsocket/stream_open.h"
#include "rsocket/wait.h"

#define RESOLVE_MS   1000 /* of the first try; each retry doubles it */
#define RETRIES_MAX  6
#define RETRY_COUNT  7
#define RNR_FOR_EVER 7 /* IBA 9.7.5.2.8 */

/* librdmacm's convention, -1 and errno, to 0 or -errno. */
static int result(int rc)
{
	return rc ? -errno : 0;
}

static void fail(struct stream *s, int error) REQUIRES(s->lock)
{
	s->phase = STREAM_FAILED;
	s->error = error;
	s->may_send = s->may_receive = false;
}

static bool is_length(const struct stream *s, const struct sockaddr *addr, socklen_t length)
{
	if (!addr || length < sizeof(addr->sa_family))
		return false;
	return length >= (addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						     : sizeof(struct sockaddr_in6));
}

int connect_bind(struct stream *s, const struct sockaddr *addr, socklen_t length)
{
	struct sockaddr_storage copy;
	int rc;

	if (s->phase != STREAM_NEW || !is_length(s, addr, length))
		return -EINVAL;
	if (addr->sa_family != s->family)
		return -EAFNOSUPPORT;
	memset(&copy, 0, sizeof(copy));
	memcpy(&copy, addr, length < sizeof(copy) ? length : sizeof(copy));
	rc = result(rdma_bind_addr(s->id, (struct sockaddr *)&copy));
	if (!rc)
		s->phase = STREAM_BOUND;
	return rc;
}

int connect_listen(struct stream *s, int backlog)
{
	int rc;

	if (s->phase == STREAM_LISTENING)
		return 0;
	if (s->phase != STREAM_NEW && s->phase != STREAM_BOUND)
		return -EINVAL;
	rc = result(rdma_listen(s->id, backlog));
	if (!rc)
		s->phase = STREAM_LISTENING;
	return rc;
}

/* An identifier stops to listen by its end only. */
int connect_unlisten(struct stream *listener)
{
	struct rdma_cm_id *id;

	fail(listener, 0);
	wait_kick(&listener->waiters);
	if (rdma_create_id(listener->channel, &id, listener, RDMA_PS_TCP))
		return -errno;
	rdma_destroy_id(listener->id);
	listener->id = id;
	return 0;
}

/* Address and route */

static int resolve(struct stream *s) REQUIRES(s->lock)
{
	return result(rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&s->peer,
					RESOLVE_MS << s->retries++));
}

static int resolve_route(struct stream *s) REQUIRES(s->lock)
{
	if (s->route)
		return result(rdma_set_option(s->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, s->route,
					      s->route_bytes));
	return result(rdma_resolve_route(s->id, RESOLVE_MS << s->retries++));
}

int connect_start(struct stream *s, const struct sockaddr *addr, socklen_t length)
{
	int rc;

	if (!is_length(s, addr, length))
		return -EINVAL;
	if (addr->sa_family != s->family)
		return -EAFNOSUPPORT;
	memset(&s->peer, 0, sizeof(s->peer));
	memcpy(&s->peer, addr, length < sizeof(s->peer) ? length : sizeof(s->peer));
	s->retries = 0;
	rc = resolve(s);
	if (rc)
		return rc;
	s->phase = STREAM_RESOLVING;
	return 0;
}

static int request(struct stream *s) REQUIRES(s->lock)
{
	struct rdma_conn_param param = {
		.flow_control = 1,
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = RNR_FOR_EVER,
	};
	struct hello hello;
	int rc = stream_open(s);

	if (rc)
		return rc;
	message_hello(s, &hello);
	param.private_data = &hello;
	param.private_data_len = sizeof(hello);
	rc = result(rdma_connect(s->id, &param));
	if (!rc)
		s->phase = STREAM_CONNECTING;
	return rc;
}

static void connected(struct stream *s) REQUIRES(s->lock)
{
	s->phase = STREAM_CONNECTED;
	s->may_send = !s->shut_send;
	s->may_receive = !s->shut_receive;
}

/* Events */

/* Asks by poll(2), which is cheaper than rdma_get_cm_event. */
static bool has_event(const struct rdma_event_channel *channel)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

static int error_of(const struct rdma_cm_event *event, int otherwise)
{
	return event->status < 0 ? -event->status : otherwise;
}

/* Repeats a step of resolving that timed out, RETRIES_MAX times. Any other error is final. */
static int retry(struct stream *s, const struct rdma_cm_event *event,
		 int (*again)(struct stream *s)) REQUIRES(s->lock)
{
	int error = error_of(event, EHOSTUNREACH);

	return error == ETIMEDOUT && s->retries <= RETRIES_MAX ? again(s) : -error;
}

static int on_established(struct stream *s, const struct rdma_cm_event *event) REQUIRES(s->lock)
{
	int rc;

	if (s->phase == STREAM_ACCEPTING)
		connected(s);
	if (s->phase != STREAM_CONNECTING)
		return 0;
	rc = message_take_hello(s, event->param.conn.private_data,
				event->param.conn.private_data_len);
	if (!rc)
		connected(s);
	else
		connect_end(s);
	return rc;
}

/* -errno: the connection failed, or the peer ended it. */
static int on_event(struct stream *s, const struct rdma_cm_event *event) REQUIRES(s->lock)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		s->retries = 0;
		return resolve_route(s);
	case RDMA_CM_EVENT_ADDR_ERROR:
		return retry(s, event, resolve);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return request(s);
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return retry(s, event, resolve_route);
	case RDMA_CM_EVENT_ESTABLISHED:
		return on_established(s, event);
	case RDMA_CM_EVENT_REJECTED:
		return -ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return -error_of(event, ETIMEDOUT);
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return -error_of(event, ECONNABORTED);
	case RDMA_CM_EVENT_DISCONNECTED:
		return -ECONNRESET;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* A connected QP works without verbatimd. */
		return s->phase == STREAM_CONNECTED ? 0 : -ENETDOWN;
	default:
		return 0;
	}
}

/*
 * Data that arrived before the peer disconnected is in the CQ by now. The stream takes it first and
 * ends afterwards, so that the program reads it.
 */
static void on_failure(struct stream *s, int error) REQUIRES(s->lock)
{
	if (s->qp)
		message_poll(s);
	if (s->phase != STREAM_CONNECTED && s->phase != STREAM_ENDED)
		fail(s, error);
	else
		stream_end(s, error == ECONNRESET ? 0 : error);
	connect_end(s);
}

void connect_on_events(struct stream *s)
{
	struct rdma_cm_event *event;
	int rc;

	while (has_event(s->channel) && !rdma_get_cm_event(s->channel, &event)) {
		rc = on_event(s, event);
		rdma_ack_cm_event(event);
		if (rc)
			on_failure(s, -rc);
		wait_kick(&s->waiters);
	}
}

void connect_end(struct stream *s)
{
	if (s->qp && !s->disconnected) {
		s->disconnected = true;
		rdma_disconnect(s->id);
	}
}

/* Accepting */

static int send_reply(struct stream *s, const struct rdma_conn_param *requested, const void *data)
	REQUIRES(s->lock)
{
	struct rdma_conn_param param = *requested;
	struct hello hello;
	int rc = stream_open(s);

	if (rc)
		return rc;
	rc = message_take_hello(s, data, requested->private_data_len);
	if (rc)
		return rc;
	message_hello(s, &hello);
	param.private_data = &hello;
	param.private_data_len = sizeof(hello);
	param.flow_control = 1;
	param.rnr_retry_count = RNR_FOR_EVER;
	s->phase = STREAM_ACCEPTING;
	s->may_send = s->may_receive = true;
	return result(rdma_accept(s->id, &param));
}

/* Replaces the new stream's own id by that of the request, which moves to the stream's channel. */
static int migrate_id(struct stream *s, struct rdma_cm_id *id)
{
	int rc = result(rdma_migrate_id(id, s->channel));

	if (rc)
		return rc;
	rdma_destroy_id(s->id);
	s->id = id;
	id->context = s;
	return 0;
}

static int accept_request(struct stream *listener, struct rdma_cm_id *id,
			  const struct rdma_conn_param *param, const void *data,
			  struct stream **stream)
{
	struct stream *s;
	int rc = stream_create(listener->family, listener, &s);

	if (rc) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return rc;
	}
	rc = migrate_id(s, id);
	if (rc) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
	} else {
		lock_acquire(&s->lock);
		rc = send_reply(s, param, data);
		if (rc)
			rdma_reject(id, NULL, 0);
		lock_release(&s->lock);
	}
	if (rc)
		rsocket_put(&s->base);
	else
		*stream = s;
	return rc;
}

/* This end lacks something, so that the next request would fail as well. */
static bool is_shortage(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOBUFS;
}

bool connect_has_request(const struct stream *listener)
{
	return has_event(listener->channel);
}

int connect_accept(struct stream *listener, struct stream **stream)
{
	struct rdma_cm_event *event;
	struct rdma_conn_param param;
	struct rdma_cm_id *id;
	uint8_t data[256] = { 0 };
	int rc;

	while (has_event(listener->channel)) {
		if (rdma_get_cm_event(listener->channel, &event))
			return -errno;
		id = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : NULL;
		param = event->param.conn;
		if (id && param.private_data)
			memcpy(data, param.private_data, param.private_data_len);
		else
			param.private_data_len = 0;
		rdma_ack_cm_event(event);      /* first: rdma_migrate_id waits for it */
		wait_kick(&listener->waiters); /* who found this event sleeps without the channel */
		if (!id)
			continue;
		rc = accept_request(listener, id, &param, data, stream);
		/* A client that has given up, or an invalid request: the next one is served. */
		if (!rc || is_shortage(rc))
			return rc;
	}
	return -EAGAIN;
}
