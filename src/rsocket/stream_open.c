/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/stream_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/page.h"
#include "rsocket/config.h"
#include "rsocket/keepalive.h"
#include "rsocket/mapping.h"
#include "rsocket/message.h"

static bool end_region(struct ibv_mr *mr)
{
	return !mr || !ibv_dereg_mr(mr);
}

static void close_endpoint(struct stream *s)
{
	bool all_ended;

	if (s->qp)
		rdma_destroy_qp(s->id);
	mapping_free(s);
	all_ended = end_region(s->receive_mr);
	all_ended &= end_region(s->send_mr);
	all_ended &= end_region(s->lists_mr);
	all_ended &= end_region(s->messages_mr);
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->comp)
		ibv_destroy_comp_channel(s->comp);
	/* Else a peer that was stopped while it writes would do so to whatever comes there next. */
	if (s->memory && all_ended)
		munmap(s->memory, s->memory_bytes);
	free(s->sent);
}

static void destroy(struct rsocket *rs)
{
	struct stream *s = stream_of(rs);

	/*
	 * It may have begun after rclose. A stream that never had it may end under another one's
	 * lock, which the keepalive thread waits for (raccept of a request that fails).
	 */
	if (s->keepalive)
		keepalive_stop(s);
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
	size_t send_at = page_round_up(lists), receive_at = send_at + page_round_up(s->send_bytes);
	size_t messages_at = receive_at + page_round_up(s->receive_bytes);
	size_t messages = s->by_send ? (s->rq_size + STREAM_SPARE) * sizeof(*s->messages) : 0;
	const int written = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	s->sent = calloc(s->sq_size, sizeof(*s->sent));
	s->memory_bytes = messages_at + page_round_up(messages);
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
	if (!s->receive_mr)
		return -errno;
	if (!s->by_send)
		return 0;
	s->messages = (uint32_t *)((uint8_t *)s->memory + messages_at);
	s->messages_mr = ibv_reg_mr(s->qp->pd, s->messages, messages, IBV_ACCESS_LOCAL_WRITE);
	return s->messages_mr ? 0 : -errno;
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

	s->by_send = s->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
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
