/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any peer of a stream rsocket: any hello, then any messages, and any bytes in the lists that it
 * may write, between calls of a program that sends, receives, maps and closes. The stream never
 * takes more data than it has room for, posts no more than its queues and buffers hold, and ends
 * when the peer breaks the protocol.
 *
 * This file has a device with the functions that a stream needs, which check what it sends.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "rsocket/connect.h"
#include "rsocket/mapping.h"
#include "rsocket/message.h"
#include "rsocket/stream.h"
#include "rsocket/stream_open.h"
#include "rsocket/stream_progress.h"
#include "rsocket/transfer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 8192, QUEUE = 16, MAPPINGS = 4, REGION = 256, WAITING_MAX = 64 };

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* The device */

static struct stream *tested;
static struct ibv_device device;
static struct ibv_context context = { .device = &device };
static struct ibv_qp qp;
static struct ibv_cq cq;
static struct ibv_pd pd;
static struct ibv_comp_channel comp;
static struct rdma_event_channel channel;
static struct rdma_cm_id id;

static struct ibv_wc waiting[WAITING_MAX]; /* completions to be polled */
static unsigned waiting_count;
static uint64_t audible[WAITING_MAX]; /* signaled requests that have not completed */
static unsigned audible_count;
static struct ibv_recv_wr posted[WAITING_MAX]; /* receives, the oldest first */
static struct ibv_sge buffers[WAITING_MAX];    /* by iWARP, theirs */
static unsigned receives;

static bool is_in_ring(const struct ibv_sge *sge)
{
	const uint8_t *at = (const uint8_t *)(uintptr_t)sge->addr;

	return at >= tested->send_ring && sge->length <= tested->send_bytes &&
	       at + sge->length <= tested->send_ring + tested->send_bytes;
}

static int post_send(struct ibv_qp *on, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	require(tested->posted - tested->completed < tested->sq_size);
	require(wr->num_sge == 0 || (wr->send_flags & IBV_SEND_INLINE) || is_in_ring(wr->sg_list));
	if (wr->num_sge && (wr->send_flags & IBV_SEND_INLINE))
		require(wr->sg_list->length <= STREAM_INLINE_MIN ||
			wr->sg_list->length <= tested->inline_bytes);
	if (wr->send_flags & IBV_SEND_SIGNALED) {
		require(audible_count < WAITING_MAX);
		audible[audible_count++] = wr->wr_id;
	}
	return 0;
}

static int post_recv(struct ibv_qp *on, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		require(receives < tested->rq_size + STREAM_SPARE);
		require(wr->num_sge == (tested->by_send ? 1 : 0));
		if (wr->num_sge)
			buffers[receives] = *wr->sg_list;
		posted[receives++] = *wr;
	}
	return 0;
}

static int poll_cq(struct ibv_cq *from, int count, struct ibv_wc *wc)
{
	unsigned n = waiting_count < (unsigned)count ? waiting_count : (unsigned)count;

	memcpy(wc, waiting, n * sizeof(*wc));
	waiting_count -= n;
	memmove(waiting, waiting + n, waiting_count * sizeof(*wc));
	return (int)n;
}

static int req_notify_cq(struct ibv_cq *of, int solicited)
{
	return 0;
}

static struct ibv_mr *make_mr(void *addr, size_t length)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	*mr = (struct ibv_mr){ .addr = addr, .length = length, .lkey = 1, .rkey = 2 };
	return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *in, void *addr, size_t length, int access)
{
	return make_mr(addr, length);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *in, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return make_mr(addr, length);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *of)
{
	return &comp;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *of)
{
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *of, int cqe, void *cq_context,
			     struct ibv_comp_channel *on, int vector)
{
	cq.context = &context;
	return &cq;
}

int ibv_destroy_cq(struct ibv_cq *of)
{
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *from, struct ibv_cq **of, void **cq_context)
{
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *of, unsigned int count)
{
}

int ibv_query_device(struct ibv_context *of, struct ibv_device_attr *attr)
{
	attr->max_qp_wr = 1024;
	return 0;
}

/* The connection manager: nothing happens there. */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	return &channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *of)
{
}

int rdma_create_id(struct rdma_event_channel *on, struct rdma_cm_id **made, void *for_whom,
		   enum rdma_port_space ps)
{
	id = (struct rdma_cm_id){ .verbs = &context };
	*made = &id;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *of)
{
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *of, struct ibv_pd *in, struct ibv_qp_init_attr *attr)
{
	qp = (struct ibv_qp){ .context = &context, .pd = &pd, .qp_num = 1 };
	of->qp = &qp;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *of)
{
}

bool connect_has_request(const struct stream *listener)
{
	return false;
}

void connect_on_events(struct stream *s)
{
}

void connect_end(struct stream *s)
{
}

/* What is done */

struct input {
	const uint8_t *at;
	size_t left;
};

static void take(struct input *input, void *to, size_t length)
{
	size_t n = length < input->left ? length : input->left;

	memset(to, 0, length);
	memcpy(to, input->at, n);
	input->at += n;
	input->left -= n;
}

static uint32_t number(struct input *input)
{
	uint32_t value;

	take(input, &value, sizeof(value));
	return value;
}

static void complete(struct ibv_wc wc)
{
	if (waiting_count < WAITING_MAX)
		waiting[waiting_count++] = wc;
}

/* The transport ensures that a peer sends no more messages than there are receives. */
static void message(uint32_t imm, bool with_imm)
{
	if (!receives || waiting_count == WAITING_MAX)
		return;
	if (tested->by_send)
		memcpy((void *)(uintptr_t)buffers[0].addr, &imm, sizeof(imm));
	complete((struct ibv_wc){
		.wr_id = posted[0].wr_id,
		.opcode = tested->by_send ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
		.wc_flags = with_imm && !tested->by_send ? IBV_WC_WITH_IMM : 0,
		.byte_len = with_imm ? sizeof(imm) : imm % sizeof(imm),
		.imm_data = htobe32(imm),
	});
	receives--;
	memmove(posted, posted + 1, receives * sizeof(*posted));
	memmove(buffers, buffers + 1, receives * sizeof(*buffers));
}

static void sent(bool well)
{
	if (!audible_count || waiting_count == WAITING_MAX)
		return;
	complete((struct ibv_wc){ .wr_id = audible[0],
				  .status = well ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR });
	memmove(audible, audible + 1, --audible_count * sizeof(*audible));
}

static void write_into_lists(struct stream *s, struct input *input)
{
	size_t bytes =
		PROTOCOL_TARGETS * sizeof(struct region) + s->mappings * sizeof(struct mapping);
	size_t offset = number(input) % bytes, length = number(input) % 33;

	if (length > bytes - offset)
		length = bytes - offset;
	take(input, (uint8_t *)(uintptr_t)s->targets + offset, length);
}

static void receive(struct stream *s, size_t length, int flags)
{
	uint8_t *buffer = malloc(length + 1);
	struct iovec iov = { buffer, length };
	struct pieces pieces = { &iov, 1, 0 };

	transfer_receive(s, &pieces, MSG_DONTWAIT | flags);
	free(buffer);
}

static void transmit(struct stream *s, size_t length, int64_t offset)
{
	uint8_t *buffer = calloc(1, length + 1);
	struct iovec iov[2] = { { buffer, length / 3 },
				{ buffer + length / 3, length - length / 3 } };
	struct pieces pieces = { iov, 2, 0 };

	if (offset < 0)
		transfer_send(s, &pieces, MSG_DONTWAIT);
	else
		transfer_send_to(s, buffer, length, (uint64_t)offset, MSG_DONTWAIT);
	free(buffer);
}

static void call(struct stream *s, struct input *input)
{
	static uint8_t regions[8][REGION];
	uint32_t what = number(input), value = what >> 8;

	switch (what % 12) {
	case 0:
		message(number(input), true);
		break;
	case 1: /* a valid message, more often than by chance */
		message(message_make(value & 1 ? OP_DATA : OP_CREDIT, value >> 1 & 0x1fff), true);
		break;
	case 2:
		message(value, value & 1);
		break;
	case 3:
		write_into_lists(s, input);
		break;
	case 4:
		sent(value % 16);
		break;
	case 5:
		receive(s, value % (2 * BYTES), value >> 16 & 1 ? MSG_PEEK : 0);
		break;
	case 6:
		transmit(s, value % (2 * BYTES), -1);
		break;
	case 7:
		transmit(s, value % (2 * BYTES), number(input));
		break;
	case 8:
		mapping_add(s, regions[value % 8], REGION, value & 8, value >> 4 & 1 ? -1 : value);
		break;
	case 9:
		mapping_remove(s, regions[value % 8], REGION);
		break;
	case 10:
		lock_acquire(&s->lock);
		stream_poll(s, POLLIN | POLLOUT);
		lock_release(&s->lock);
		break;
	default:
		lock_acquire(&s->lock);
		message_owe_control(s, (enum control)(value % 3));
		lock_release(&s->lock);
	}
}

static void check(const struct stream *s)
{
	require(s->consumed <= s->arrived && s->arrived <= s->granted);
	require(s->granted - s->consumed <= s->receive_bytes);
	require(s->completed <= s->posted && s->posted - s->completed <= s->sq_size);
	require(s->send_head <= s->send_tail && s->send_tail - s->send_head <= s->send_bytes);
	require(s->controls <= STREAM_CONTROLS);
	require(!s->broken || (s->phase == STREAM_ENDED && !s->may_send && !s->may_receive));
}

/* A hello of any bytes; if the stream refuses it, a valid one, in either byte order. */
static void take_hello(struct stream *s, struct input *input) REQUIRES(s->lock)
{
	uint8_t data[64];
	size_t length = number(input) % sizeof(data);
	struct hello hello;
	int rc;

	take(input, data, length);
	rc = message_take_hello(s, data, length);
	require(rc == 0 || rc == -EPROTO);
	if (!rc)
		return;
	message_hello(s, &hello);
	hello.flags ^= length & 1;
	require(!message_take_hello(s, &hello, sizeof(hello)));
}

static struct stream *make(void)
{
	struct stream *s;

	waiting_count = audible_count = receives = 0;
	require(!stream_create(AF_INET, NULL, &s));
	tested = s;
	s->receive_bytes = s->send_bytes = BYTES;
	s->sq_size = s->rq_size = QUEUE;
	s->mappings = MAPPINGS;
	lock_acquire(&s->lock);
	require(!stream_open(s));
	lock_release(&s->lock);
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
	struct stream *s;
	uint8_t how;

	if (!context.ops.poll_cq) {
		context.ops.poll_cq = poll_cq;
		context.ops.req_notify_cq = req_notify_cq;
		context.ops.post_send = post_send;
		context.ops.post_recv = post_recv;
		channel.fd = comp.fd = eventfd(0, EFD_NONBLOCK);
	}
	take(&input, &how, 1);
	device.transport_type = how & 1 ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	s = make();
	lock_acquire(&s->lock);
	take_hello(s, &input);
	s->phase = STREAM_CONNECTED;
	s->may_send = s->may_receive = true;
	lock_release(&s->lock);
	while (input.left) {
		call(s, &input);
		check(s);
	}
	rsocket_put(&s->base);
	return 0;
}
