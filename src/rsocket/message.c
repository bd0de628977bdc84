/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/message.h"

#include <arpa/inet.h>
#include <byteswap.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/cause.h"

#define RECEIVE (UINT64_C(1) << 63) /* set in the wr_id of receives */
/*
 * From this size on data and immediate go in two requests; the peer sees no difference. On one host
 * a plain WRITE is a single copy into the peer's memory. A WRITE with immediate goes through a
 * ring.
 */
#define APART_MIN	(16 << 10)
#define BATCH		16
#define BIG_ENDIAN_HOST (__BYTE_ORDER == __BIG_ENDIAN)

static uint32_t half(const struct stream *s)
{
	return s->receive_bytes / 2;
}

static struct region region_to_wire(uint64_t addr, uint32_t key, uint32_t length)
{
	return (struct region){ htobe64(addr), htobe32(key), htobe32(length) };
}

static struct region region_from_wire(struct region region)
{
	return (struct region){ be64toh(region.addr), be32toh(region.key), be32toh(region.length) };
}

/* In the byte order of the peer's lists. */
static struct region region_for_peer(const struct stream *s, uint64_t addr, uint32_t key,
				     uint32_t length)
{
	if (s->swap)
		return (struct region){ bswap_64(addr), bswap_32(key), bswap_32(length) };
	return (struct region){ addr, key, length };
}

void message_hello(const struct stream *s, struct hello *hello)
{
	*hello = (struct hello){
		.version = PROTOCOL_VERSION,
		.flags = HELLO_MAPPINGS | (BIG_ENDIAN_HOST ? HELLO_BIG_ENDIAN : 0),
		.credits = htobe16((uint16_t)s->rq_size),
		.mappings = protocol_scale(s->mappings),
		.targets =
			region_to_wire((uintptr_t)s->targets, s->lists_mr->rkey, PROTOCOL_TARGETS),
		.first = region_to_wire((uintptr_t)s->receive_ring, s->receive_mr->rkey, half(s)),
	};
}

int message_take_hello(struct stream *s, const void *data, size_t length)
{
	struct hello hello;

	if (!data || length < sizeof(hello)) {
		cause_report(CAUSE_RSOCKET_HELLO, s->qp->qp_num, "%zu bytes of private data",
			     length);
		return -EPROTO;
	}
	memcpy(&hello, data, sizeof(hello));
	s->remote_targets = region_from_wire(hello.targets);
	if (hello.version != PROTOCOL_VERSION || !s->remote_targets.length) {
		cause_report(CAUSE_RSOCKET_HELLO, s->qp->qp_num, "version %u, %u targets",
			     hello.version, s->remote_targets.length);
		return -EPROTO;
	}
	s->swap = BIG_ENDIAN_HOST != !!(hello.flags & HELLO_BIG_ENDIAN);
	/* The hello of this end has its first half, so the second goes into target 1. */
	s->remote_next = 1 % s->remote_targets.length;
	if (hello.flags & HELLO_MAPPINGS)
		s->remote_mappings = (struct region){
			.addr = s->remote_targets.addr +
				(uint64_t)s->remote_targets.length * sizeof(struct region),
			.key = s->remote_targets.key,
			.length = protocol_unscale(hello.mappings),
		};
	s->to = region_from_wire(hello.first);
	s->to_next = 1;
	s->tx_limit = be16toh(hello.credits);
	if (s->by_send)
		s->unused = s->tx_limit / 4 < STREAM_UNUSED ? s->tx_limit / 4 : STREAM_UNUSED;
	s->granted = half(s);
	return 0;
}

/* Requests */

static void violation(struct stream *s, uint32_t message) REQUIRES(s->lock)
{
	cause_report(CAUSE_RSOCKET_VIOLATION, s->qp->qp_num,
		     "message %08x; %llu bytes granted, %llu arrived", message,
		     (unsigned long long)s->granted, (unsigned long long)s->arrived);
	s->broken = true;
	stream_end(s, EPROTO);
}

static bool must_signal(const struct stream *s, bool control)
{
	return control || s->unsignaled + 1 >= s->sq_size / 4 ||
	       s->send_tail - s->unsignaled_from >= s->send_bytes / 4;
}

/*
 * A completion covers the unsignaled requests before it. One is due every quarter of SQ or send
 * ring. False: the stream has ended.
 */
static bool post(struct stream *s, struct ibv_send_wr *wr, bool control) REQUIRES(s->lock)
{
	struct ibv_send_wr *bad;
	int rc;

	wr->wr_id = s->posted;
	if (must_signal(s, control)) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		s->unsignaled = 0;
		s->unsignaled_from = s->send_tail;
	} else {
		s->unsignaled++;
	}
	rc = ibv_post_send(s->qp, wr, &bad);
	if (rc) {
		stream_end(s, rc);
		return false;
	}
	s->sent[s->posted % s->sq_size] = (struct stream_sent){ s->send_tail, control };
	s->posted++;
	s->controls += control;
	return true;
}

static bool post_write(struct stream *s, const void *data, uint32_t length, bool inlined,
		       uint64_t addr, uint32_t key, enum ibv_wr_opcode opcode, uint32_t message,
		       bool control) REQUIRES(s->lock)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)data,
		.length = length,
		.lkey = inlined ? 0 : s->send_mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = length != 0,
		.opcode = opcode,
		.send_flags = inlined && length ? IBV_SEND_INLINE : 0,
		.imm_data = htonl(message),
		.wr.rdma.remote_addr = addr,
		.wr.rdma.rkey = key,
	};

	if (!inlined)
		s->send_tail += length;
	return post(s, &wr, control);
}

static void post_send(struct stream *s, uint32_t message, bool control) REQUIRES(s->lock)
{
	uint32_t sent = s->swap ? bswap_32(message) : message;
	struct ibv_sge sge = { .addr = (uintptr_t)&sent, .length = sizeof(sent) };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
	};

	post(s, &wr, control);
}

/* A WRITE, which may be empty, and the message behind it. */
static void post_message(struct stream *s, const void *data, uint32_t length, bool inlined,
			 uint64_t addr, uint32_t key, uint32_t message, bool control)
	REQUIRES(s->lock)
{
	if (!s->by_send) {
		post_write(s, data, length, inlined, addr, key, IBV_WR_RDMA_WRITE_WITH_IMM, message,
			   control);
		return;
	}
	if (!length ||
	    post_write(s, data, length, inlined, addr, key, IBV_WR_RDMA_WRITE, 0, control))
		post_send(s, message, control);
}

void message_post_data(struct stream *s, const void *data, uint32_t length, bool inlined)
{
	uint64_t addr = s->to.addr;

	s->to.addr += length;
	s->to.length -= length;
	s->tx_count++;
	if (length < APART_MIN) {
		post_message(s, data, length, inlined, addr, s->to.key,
			     message_make(OP_DATA, length), false);
		return;
	}
	if (post_write(s, data, length, inlined, addr, s->to.key, IBV_WR_RDMA_WRITE, 0, false))
		post_message(s, NULL, 0, true, 0, 0, message_make(OP_DATA, length), false);
}

void message_post_direct(struct stream *s, const void *data, uint32_t length, bool inlined,
			 uint64_t addr, uint32_t key)
{
	post_write(s, data, length, inlined, addr, key, IBV_WR_RDMA_WRITE, 0, false);
}

void message_post_mapping(struct stream *s, uint32_t index, const struct mapping *mapping)
{
	struct mapping update = {
		.offset = s->swap ? bswap_64(mapping->offset) : mapping->offset,
		.region = region_for_peer(s, mapping->region.addr, mapping->region.key,
					  mapping->region.length),
	};

	s->tx_count++;
	post_message(s, &update, sizeof(update), true,
		     s->remote_mappings.addr + index * sizeof(update), s->remote_mappings.key,
		     message_make(OP_MAPPING, index), false);
}

bool message_can_control(const struct stream *s)
{
	return s->controls + s->by_send < STREAM_CONTROLS;
}

void message_post_keepalive(struct stream *s)
{
	post_write(s, NULL, 0, true, 0, 0, IBV_WR_RDMA_WRITE, 0, true);
}

bool message_all_done(const struct stream *s)
{
	return s->posted == s->completed;
}

uint32_t message_room(const struct stream *s)
{
	uint32_t at = (uint32_t)(s->send_tail % s->send_bytes);
	uint32_t room = (uint32_t)(s->send_bytes - (s->send_tail - s->send_head));

	return room < s->send_bytes - at ? room : s->send_bytes - at;
}

/*
 * The peer writes a target again only after this end has filled what the target named before. This
 * end clears a target before it fills that memory, so it never clears a new one. The length is in
 * the last 8 bytes of a target, which arrive after the others.
 */
static void take_target(struct stream *s) REQUIRES(s->lock)
{
	volatile struct region *target = &s->targets[s->to_next];
	uint32_t length = target->length;

	if (!length)
		return;
	atomic_thread_fence(memory_order_acquire);
	s->to = (struct region){ target->addr, target->key, length };
	target->length = 0;
	s->to_next = (s->to_next + 1) % PROTOCOL_TARGETS;
}

bool message_can_send(struct stream *s)
{
	if (!s->to.length)
		take_target(s);
	return s->to.length && (uint16_t)(s->tx_limit - s->tx_count) > s->unused &&
	       s->posted - s->completed - s->controls + 1 < s->sq_size - STREAM_CONTROLS &&
	       s->send_bytes - (s->send_tail - s->send_head) >= STREAM_SEND_MIN;
}

/* Grants to the peer: halves of the receive buffer, and credits */

static bool offers_half(const struct stream *s)
{
	return s->granted - s->consumed <= half(s);
}

static bool offers_credits(const struct stream *s)
{
	return (uint16_t)(s->rx_count - s->rx_reported) >= s->rq_size / 2;
}

bool message_grant_due(const struct stream *s)
{
	return offers_half(s) || offers_credits(s);
}

static void grant(struct stream *s) REQUIRES(s->lock)
{
	uint32_t credits = message_make(OP_CREDIT, (uint16_t)(s->rx_count + s->rq_size));
	struct region offer;

	s->rx_reported = s->rx_count;
	if (!offers_half(s)) {
		post_message(s, NULL, 0, true, 0, 0, credits, true);
		return;
	}
	offer = region_for_peer(s, (uintptr_t)(s->receive_ring + s->granted % s->receive_bytes),
				s->receive_mr->rkey, half(s));
	s->granted += half(s);
	post_message(s, &offer, sizeof(offer), true,
		     s->remote_targets.addr + s->remote_next * sizeof(offer), s->remote_targets.key,
		     credits, true);
	s->remote_next = (s->remote_next + 1) % s->remote_targets.length;
}

void message_grant(struct stream *s)
{
	/* a peer that sends no more needs no room, and may have closed */
	while (s->phase == STREAM_CONNECTED && !s->peer_has_shut && message_can_control(s) &&
	       message_grant_due(s))
		grant(s);
	if (s->owes && s->phase == STREAM_CONNECTED && message_can_control(s)) {
		s->owes = false;
		post_message(s, NULL, 0, true, 0, 0, message_make(OP_CONTROL, s->owed), true);
	}
}

void message_owe_control(struct stream *s, enum control control)
{
	s->owes = true;
	s->owed = control;
	message_grant(s);
}

/* Completions */

static void on_control(struct stream *s, uint32_t control) REQUIRES(s->lock)
{
	if (control == CONTROL_DISCONNECT) {
		stream_end(s, 0);
	} else if (control == CONTROL_SHUTDOWN) {
		s->may_receive = false;
		s->peer_has_shut = true;
	}
}

static void on_message(struct stream *s, uint32_t message) REQUIRES(s->lock)
{
	uint32_t value = message_value(message);

	/* A peer that sends has got the REP, even if its RTU is lost. */
	if (s->phase == STREAM_ACCEPTING)
		s->phase = STREAM_CONNECTED;
	switch (message_operation(message)) {
	case OP_DATA:
		if (value > s->granted - s->arrived) {
			violation(s, message);
			return;
		}
		s->rx_count++;
		atomic_store_explicit(&s->arrived, s->arrived + value, memory_order_release);
		if (s->shut_receive)
			s->consumed = s->arrived;
		break;
	case OP_CREDIT:
		s->tx_limit = (uint16_t)value;
		break;
	case OP_MAPPING:
		s->rx_count++;
		break;
	case OP_CONTROL:
		on_control(s, value);
		break;
	default:
		violation(s, message);
	}
}

static void on_receive(struct stream *s, const struct ibv_wc *wc) REQUIRES(s->lock)
{
	if (wc->status != IBV_WC_SUCCESS) {
		stream_end(s, 0); /* flushed: the connection has ended */
		return;
	}
	s->reposts++;
	if (s->broken)
		return;
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		on_message(s, ntohl(wc->imm_data));
	else if (s->by_send && wc->byte_len == sizeof(*s->messages))
		on_message(s, s->messages[wc->wr_id & ~RECEIVE]);
	else
		violation(s, 0);
}

static void on_sent(struct stream *s, const struct ibv_wc *wc) REQUIRES(s->lock)
{
	struct stream_sent *sent;

	while (s->completed <= wc->wr_id) {
		sent = &s->sent[s->completed % s->sq_size];
		s->send_head = sent->send_end;
		s->controls -= sent->control;
		s->completed++;
	}
	if (wc->status != IBV_WC_SUCCESS)
		stream_end(s, wc->status == IBV_WC_WR_FLUSH_ERR ? 0 : ECONNRESET);
}

/* The wr_id names the buffer. Receives complete in the order of posting, so it is free again. */
static void add_buffer(struct stream *s, struct ibv_recv_wr *wr, struct ibv_sge *sge)
	REQUIRES(s->lock)
{
	*sge = (struct ibv_sge){
		.addr = (uintptr_t)&s->messages[s->next_message],
		.length = sizeof(*s->messages),
		.lkey = s->messages_mr->lkey,
	};
	wr->wr_id |= s->next_message;
	wr->sg_list = sge;
	wr->num_sge = 1;
	s->next_message = (s->next_message + 1) % (s->rq_size + STREAM_SPARE);
}

int message_post_receives(struct stream *s, unsigned count)
{
	struct ibv_recv_wr wr[BATCH], *bad;
	struct ibv_sge sge[BATCH];
	int rc = 0;

	while (count && !rc) {
		unsigned n = count < BATCH ? count : BATCH;

		for (unsigned i = 0; i < n; i++) {
			wr[i] = (struct ibv_recv_wr){ .wr_id = RECEIVE,
						      .next = i + 1 < n ? &wr[i + 1] : NULL };
			if (s->by_send)
				add_buffer(s, &wr[i], &sge[i]);
		}
		rc = ibv_post_recv(s->qp, wr, &bad);
		count -= n;
	}
	return -rc;
}

bool message_poll(struct stream *s)
{
	struct ibv_wc wc[BATCH];
	bool found = false;
	int n;

	do {
		n = ibv_poll_cq(s->cq, BATCH, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id & RECEIVE)
				on_receive(s, &wc[i]);
			else
				on_sent(s, &wc[i]);
		}
		found |= n > 0;
		if (s->reposts && s->phase != STREAM_ENDED && message_post_receives(s, s->reposts))
			stream_end(s, ECONNRESET);
		s->reposts = 0;
	} while (n == BATCH);
	return found;
}
