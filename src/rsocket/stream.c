/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "rsocket/config.h"
#include "rsocket/connect.h"
#include "rsocket/keepalive.h"
#include "rsocket/mapping.h"
#include "rsocket/message.h"
#include "rsocket/wait.h"

#define PAGE	    4096
#define LOOKS_EVENT 256 /* every 256th poll in vain looks for CM events, too, while connected */

/* Creating and freeing */

static void close_endpoint(struct stream *s)
{
	if (s->qp)
		rdma_destroy_qp(s->id);
	mapping_free(s);
	if (s->receive_mr)
		ibv_dereg_mr(s->receive_mr);
	if (s->send_mr)
		ibv_dereg_mr(s->send_mr);
	if (s->lists_mr)
		ibv_dereg_mr(s->lists_mr);
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->comp)
		ibv_destroy_comp_channel(s->comp);
	if (s->memory)
		munmap(s->memory, s->memory_bytes);
	free(s->sent);
}

static void destroy(struct rsocket *rs)
{
	struct stream *s = stream_of(rs);

	close_endpoint(s);
	if (s->id)
		rdma_destroy_id(s->id);
	if (s->channel)
		rdma_destroy_event_channel(s->channel);
	free(s->route);
	free(s);
}

static void inherit(struct stream *s, const struct stream *from)
{
	const struct config *config = config_get();

	s->receive_bytes = from ? from->receive_bytes : config->receive_bytes;
	s->send_bytes = from ? from->send_bytes : config->send_bytes;
	s->sq_size = from ? from->sq_size : config->sq_size;
	s->rq_size = from ? from->rq_size : config->rq_size;
	s->inline_bytes = from ? from->inline_bytes : config->inline_bytes;
	s->mappings = from ? from->mappings : config->mappings;
	if (from) {
		memcpy(s->options, from->options, sizeof(s->options));
		s->linger = from->linger;
		s->keepalive_s = from->keepalive_s;
	}
}

int stream_create(int family, const struct stream *listener, struct stream **stream)
{
	struct stream *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	rsocket_init(&s->base, SOCK_STREAM, destroy);
	s->family = family;
	lock_init(&s->sending);
	lock_init(&s->receiving);
	lock_init(&s->lock);
	list_init(&s->waiters);
	list_init(&s->keepalive_link);
	list_init(&s->linger_link);
	list_init(&s->mapping_list);
	list_init(&s->mapping_news);
	inherit(s, listener);
	s->channel = rdma_create_event_channel();
	if (!s->channel)
		goto fail;
	if (fcntl(s->channel->fd, F_SETFL, O_NONBLOCK))
		goto fail;
	if (rdma_create_id(s->channel, &s->id, s, RDMA_PS_TCP))
		goto fail;
	*stream = s;
	return 0;
fail:
	rc = errno ? -errno : -ENOMEM;
	destroy(&s->base);
	return rc;
}

/* The endpoint */

static size_t to_pages(size_t bytes)
{
	return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static int make_cq(struct stream *s) REQUIRES(s->lock)
{
	s->comp = ibv_create_comp_channel(s->id->verbs);
	if (!s->comp || fcntl(s->comp->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	s->cq = ibv_create_cq(s->id->verbs, (int)(s->sq_size + s->rq_size + STREAM_SPARE), s,
			      s->comp, 0);
	return s->cq ? 0 : -errno;
}

static int make_qp(struct stream *s) REQUIRES(s->lock)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = s,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = s->sq_size,
			.max_recv_wr = s->rq_size + STREAM_SPARE,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = s->inline_bytes > STREAM_INLINE_MIN ?
						   s->inline_bytes :
						   STREAM_INLINE_MIN,
		},
	};

	if (rdma_create_qp(s->id, NULL, &attr))
		return -errno;
	s->qp = s->id->qp;
	return 0;
}

static int make_buffers(struct stream *s) REQUIRES(s->lock)
{
	size_t lists =
		PROTOCOL_TARGETS * sizeof(struct region) + s->mappings * sizeof(struct mapping);
	size_t send_at = to_pages(lists), receive_at = send_at + to_pages(s->send_bytes);
	const int written = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	s->sent = calloc(s->sq_size, sizeof(*s->sent));
	s->memory_bytes = receive_at + to_pages(s->receive_bytes);
	s->memory = mmap(NULL, s->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (s->memory == MAP_FAILED)
		s->memory = NULL;
	if (!s->sent || !s->memory)
		return -ENOMEM;
	s->targets = s->memory;
	s->mapped = (volatile struct mapping *)(s->targets + PROTOCOL_TARGETS);
	s->send_ring = (uint8_t *)s->memory + send_at;
	s->receive_ring = (uint8_t *)s->memory + receive_at;
	s->lists_mr = ibv_reg_mr(s->qp->pd, s->memory, lists, written);
	if (!s->lists_mr)
		return -errno;
	s->send_mr = ibv_reg_mr(s->qp->pd, s->send_ring, s->send_bytes, 0);
	if (!s->send_mr)
		return -errno;
	s->receive_mr = ibv_reg_mr(s->qp->pd, s->receive_ring, s->receive_bytes, written);
	return s->receive_mr ? 0 : -errno;
}

static void fit_to_device(struct stream *s) REQUIRES(s->lock)
{
	struct ibv_device_attr attr;
	uint32_t max;

	if (ibv_query_device(s->id->verbs, &attr))
		return;
	max = (uint32_t)attr.max_qp_wr - STREAM_SPARE;
	if (s->sq_size > max)
		s->sq_size = max;
	if (s->rq_size > max)
		s->rq_size = max;
}

int stream_open(struct stream *s)
{
	int rc;

	fit_to_device(s);
	rc = make_cq(s);
	if (!rc)
		rc = make_qp(s);
	if (!rc)
		rc = make_buffers(s);
	if (!rc)
		rc = message_post_receives(s, s->rq_size + STREAM_SPARE);
	return rc;
}

/* State */

bool stream_is_connecting(const struct stream *s)
{
	int phase = s->phase;

	return phase == STREAM_RESOLVING || phase == STREAM_CONNECTING || phase == STREAM_ACCEPTING;
}

bool stream_nonblocking(const struct stream *s, int flags)
{
	return (flags & MSG_DONTWAIT) || (s->base.file_flags & O_NONBLOCK);
}

void stream_end(struct stream *s, int error)
{
	/* Earlier than that a CM event tells what failed, which is more than a flushed QP tells. */
	if (s->phase != STREAM_ACCEPTING && s->phase != STREAM_CONNECTED)
		return;
	s->phase = STREAM_ENDED;
	s->may_send = s->may_receive = false;
	s->error = error;
	s->reset = error != 0;
	wait_kick(&s->waiters);
}

int stream_take_error(struct stream *s)
{
	int error = s->error;

	s->error = 0;
	return error;
}

void stream_progress(struct stream *s)
{
	bool found = false;

	if (stream_is_connecting(s))
		connect_on_events(s);
	if (!s->qp)
		return;
	message_grant(s);
	found = message_poll(s);
	if (found) {
		message_grant(s);
		wait_kick(&s->waiters);
		s->looks = 0;
	} else if (++s->looks % LOOKS_EVENT == 0 && s->phase == STREAM_CONNECTED) {
		connect_on_events(s);
	}
}

/* Waiting */

int stream_arm(struct stream *s, struct pollfd fds[2])
{
	int count = 0;

	if (s->phase != STREAM_ENDED && s->phase != STREAM_FAILED)
		fds[count++] = (struct pollfd){ .fd = s->channel->fd, .events = POLLIN };
	if (s->cq) {
		if (!s->armed && !ibv_req_notify_cq(s->cq, 0))
			s->armed = true;
		fds[count++] = (struct pollfd){ .fd = s->comp->fd, .events = POLLIN };
	}
	return count;
}

void stream_disarm(struct stream *s)
{
	struct ibv_cq *cq;
	void *context;

	if (s->comp)
		while (!ibv_get_cq_event(s->comp, &cq, &context)) {
			ibv_ack_cq_events(cq, 1);
			s->armed = false;
		}
	if (s->phase == STREAM_CONNECTED || stream_is_connecting(s))
		connect_on_events(s);
	wait_kick(&s->waiters);
}

static bool is_over(struct stream *s, bool (*ready)(struct stream *s), int *rc) REQUIRES(s->lock)
{
	*rc = s->base.closed ? -EBADF : 0;
	return *rc || ready(s);
}

/* Sleeps once, unless ready() or closed. True: the wait is over, with `rc`. */
static bool sleep_once(struct stream *s, bool (*ready)(struct stream *s), int self, int timeout_ms,
		       int *rc) EXCLUDES(s->lock)
{
	struct pollfd fds[3];
	struct waiter waiter;
	int count, woken;
	bool over;

	lock_acquire(&s->lock);
	count = stream_arm(s, fds);
	stream_progress(s); /* after arming, because earlier completions raise no event */
	over = is_over(s, ready, rc);
	if (!over)
		wait_join(&s->waiters, &waiter, self); /* WAIT */
	lock_release(&s->lock);
	if (over)
		return true;
	fds[count++] = (struct pollfd){ .fd = self, .events = POLLIN };
	woken = poll(fds, (nfds_t)count, timeout_ms);
	if (woken < 0)
		*rc = -errno;
	if (woken > 0 && fds[count - 1].revents)
		wait_clear(self);
	lock_acquire(&s->lock);
	wait_leave(&waiter);
	if (woken > 0)
		stream_disarm(s);
	lock_release(&s->lock);
	return *rc != 0;
}

static int sleep_until(struct stream *s, bool (*ready)(struct stream *s), uint64_t deadline_ns)
	EXCLUDES(s->lock)
{
	int self = wait_fd(), rc = self < 0 ? self : 0;
	uint64_t now, timeout_ms;

	while (!rc) {
		timeout_ms = config_get()->wake_ms;
		if (deadline_ns) {
			now = clock_now_ns();
			if (now >= deadline_ns)
				return -EAGAIN;
			if ((deadline_ns - now) / 1000000 < timeout_ms)
				timeout_ms = (deadline_ns - now) / 1000000 + 1;
		}
		if (sleep_once(s, ready, self, (int)timeout_ms, &rc))
			break;
	}
	return rc;
}

int stream_wait(struct stream *s, bool (*ready)(struct stream *s), bool nonblock,
		uint64_t deadline_ns)
{
	uint64_t start = 0, now;
	bool over;
	int rc;

	do {
		lock_acquire(&s->lock);
		stream_progress(s);
		over = is_over(s, ready, &rc);
		lock_release(&s->lock);
		if (over)
			return rc;
		if (nonblock)
			return -EAGAIN;
		now = clock_now_ns();
		if (!start)
			start = now;
	} while (now - start < config_get()->poll_us * UINT64_C(1000));
	return sleep_until(s, ready, deadline_ns);
}

short stream_poll(struct stream *s, short events)
{
	short revents = 0;

	if (s->phase == STREAM_LISTENING) {
		struct pollfd fd = { .fd = s->channel->fd, .events = POLLIN };

		return poll(&fd, 1, 0) > 0 ? events & POLLIN : 0;
	}
	stream_progress(s);
	if (stream_is_connecting(s))
		return 0;
	if (s->phase == STREAM_NEW || s->phase == STREAM_BOUND)
		return (events & POLLOUT) | POLLHUP;
	if (s->arrived != s->consumed || !s->may_receive)
		revents |= POLLIN | POLLRDNORM;
	if (!s->may_receive)
		revents |= POLLRDHUP;
	if (!s->may_send || message_can_send(s))
		revents |= POLLOUT | POLLWRNORM;
	revents &= events;
	if (s->error)
		revents |= POLLERR;
	/* As with TCP: POLLHUP needs both directions closed. */
	if (s->phase == STREAM_FAILED || s->reset || (s->shut_send && !s->may_receive))
		revents |= POLLHUP;
	return revents;
}
