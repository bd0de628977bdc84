/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compat.h"
#include "base/eventfd.h"
#include "memory/hazard.h"
#include "memory/memory.h"

#define START_NS 1000000000ull

uint64_t rig_now_ns, rig_deadline_ns;
uint32_t rig_sent, rig_full_after;
enum wire_result rig_refusal;
bool rig_backlogged;
bool rig_without_gso;
uint32_t rig_calls, rig_call_packets[RIG_CALLS], rig_buffer_bytes;
bool (*rig_on_packet)(struct rig_packet *packet, struct packet *decoded);

static struct rig_packet *wire;
static uint32_t wire_head, wire_tail;
static struct qp *members[RIG_MEMBERS];

static uint64_t now(void)
{
	return rig_now_ns;
}

static void swap_ends(struct wire_flow *to, const struct wire_flow *from)
{
	*to = *from;
	memcpy(to->local, from->remote, WIRE_GID_BYTES);
	memcpy(to->remote, from->local, WIRE_GID_BYTES);
}

/* As udp/udp_send.c cuts GSO batches. */
static uint32_t place_in_batch(const struct wire_flow *flow, const struct wire_packet *packet)
{
	static uint32_t place, size, bytes;
	static bool closed;
	uint32_t own = packet->header_bytes + packet->payload_bytes + packet->pad_bytes + 4u;

	if (flow && !flow->one_by_one && !rig_without_gso && !closed && own <= size &&
	    place + 1 < WIRE_GSO_PACKETS && bytes + own <= WIRE_GSO_BYTES) {
		place++;
		bytes += own;
		closed = own < size;
		return place;
	}
	place = 0;
	size = flow ? own : 0;
	bytes = own;
	closed = false;
	return 0;
}

void (*rig_before_send)(void);

static enum wire_result send_packets(const struct wire_flow *flow,
				     const struct wire_packet *packets, unsigned count,
				     unsigned *sent)
{
	void (*meanwhile)(void) = rig_before_send;

	rig_before_send = NULL;
	if (meanwhile)
		meanwhile();
	place_in_batch(NULL, packets); /* a new call, a new GSO batch */
	for (*sent = 0; *sent < count; (*sent)++) {
		const struct wire_packet *from = &packets[*sent];
		struct rig_packet *to = &wire[wire_tail % RIG_WIRE_MAX];
		uint32_t at = from->header_bytes;

		if (rig_full_after == 0)
			return rig_refusal;
		assert_in_range(from->pieces, 0, WIRE_PIECES);
		if (rig_full_after != UINT32_MAX)
			rig_full_after--;
		assert_true(wire_tail - wire_head < RIG_WIRE_MAX);
		swap_ends(&to->flow, flow);
		to->in_batch = place_in_batch(flow, from);
		memcpy(to->bytes, from->header, from->header_bytes);
		for (unsigned i = 0; i < from->pieces; i++) {
			assert_true(at + from->piece[i].iov_len < RIG_BYTES_MAX);
			memcpy(to->bytes + at, from->piece[i].iov_base, from->piece[i].iov_len);
			at += from->piece[i].iov_len;
		}
		assert_int_equal(at, from->header_bytes + from->payload_bytes);
		memset(to->bytes + at, 0, from->pad_bytes);
		to->length = at + from->pad_bytes;
		assert_int_equal(to->length % 4, 0);
		wire_tail++;
		rig_sent++;
	}
	rig_call_packets[rig_calls++ % RIG_CALLS] = count;
	return WIRE_SENT;
}

static int resolve(struct context *context, const struct ibv_ah_attr *attr, uint32_t remote_qpn,
		   struct wire_flow *flow)
{
	static const uint8_t own[WIRE_GID_BYTES] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };

	memset(flow, 0, sizeof(*flow));
	memcpy(flow->local, own, sizeof(own));
	memcpy(flow->remote, attr->grh.dgid.raw, WIRE_GID_BYTES);
	flow->traffic_class = 2;
	flow->hop_limit = 64;
	flow->buffer_bytes = rig_buffer_bytes;
	return 0;
}

static void answer(const struct wire_flow *arrival, uint32_t remote_qpn, struct wire_flow *flow)
{
	*flow = *arrival;
}

static void deadline(uint64_t ns)
{
	rig_deadline_ns = ns;
}

static void group_visit(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg), void *arg)
{
	for (unsigned i = 0; i < RIG_MEMBERS; i++)
		if (members[i])
			visit(members[i]->ib.qp_num, arg);
}

void rig_set_member(unsigned i, struct qp *qp)
{
	members[i] = qp;
}

static bool sends_gso(const struct wire_flow *flow)
{
	return !rig_without_gso;
}

static const struct roce_env env = {
	.now = now,
	.send = send_packets,
	.sends_gso = sends_gso,
	.resolve = resolve,
	.answer = answer,
	.deadline = deadline,
	.group_visit = group_visit,
};

void rig_create(struct rig *rig)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4096 };
	struct context *context = calloc(1, sizeof(*context));

	rig->arena =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(rig->arena, MAP_FAILED);
	hazard_init(rig->arena, RIG_SLOT);
	assert_int_equal(key_table_init(rig->arena), 0);
	assert_int_equal(qp_table_init(rig->arena, RIG_SLOT), 0);
	memory_init(RIG_SLOT);
	roce_init(&env);
	context->verbs.context.num_comp_vectors = 1;
	context->verbs.context.async_fd = eventfd_create();
	lock_init(&context->async_lock);
	list_init(&context->async_pending);
	rig->context = context;
	assert_int_equal(pd_create(&context->verbs.context, &rig->pd), 0);
	assert_int_equal(cq_create(context, &attr, &rig->cq), 0);
	wire = calloc(RIG_WIRE_MAX, sizeof(*wire));
	wire_head = wire_tail = 0;
	rig->xrcd = NULL;
	rig->channel = NULL;
	rig_now_ns = START_NS;
	rig_deadline_ns = TRANSPORT_NEVER;
	rig_sent = rig_calls = rig_buffer_bytes = 0;
	memset(members, 0, sizeof(members));
	rig_full_after = UINT32_MAX;
	rig_refusal = WIRE_FULL;
	rig_without_gso = rig_backlogged = false;
	rig_on_packet = NULL;
}

void rig_destroy(struct rig *rig)
{
	free(wire);
	if (rig->xrcd)
		assert_int_equal(xrcd_close(rig->xrcd), 0);
	assert_int_equal(cq_destroy(rig->cq), 0);
	if (rig->channel)
		assert_int_equal(channel_destroy(rig->channel), 0);
	assert_int_equal(pd_destroy(rig->pd), 0);
	close(rig->context->verbs.context.async_fd);
	lock_fini(&rig->context->async_lock);
	free(rig->context);
	munmap(rig->arena, ARENA_BYTES);
}

void rig_add_channel(struct rig *rig)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4096 };

	assert_int_equal(cq_destroy(rig->cq), 0);
	assert_int_equal(channel_create(&rig->context->verbs.context, &rig->channel), 0);
	attr.channel = &rig->channel->ib;
	assert_int_equal(cq_create(rig->context, &attr, &rig->cq), 0);
}

bool rig_has_event(const struct rig *rig)
{
	struct pollfd fd = { .fd = rig->channel->ib.fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

struct srq *rig_xrc_srq(struct rig *rig, struct pd *pd)
{
	struct ibv_srq_attr attr = { .max_wr = 64, .max_sge = 4 };
	struct srq *srq;

	if (!rig->xrcd)
		assert_int_equal(xrcd_open(rig->context, -1, O_CREAT, &rig->xrcd), 0);
	assert_int_equal(srq_create(rig->context, pd, NULL, &attr, &srq), 0);
	assert_int_equal(xrc_add_srq(rig->xrcd, srq, rig->cq), 0);
	return srq;
}

struct qp *rig_qp(struct rig *rig, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.send_cq = &rig->cq->ib,
		.recv_cq = &rig->cq->ib,
		.sq_sig_all = 1,
		.xrcd = rig->xrcd ? &rig->xrcd->ib : NULL,
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = 64,
			 .max_send_sge = 8,
			 .max_recv_sge = 4,
			 .max_inline_data = 256 },
	};
	struct qp *qp;

	assert_int_equal(qp_create(rig->context, type == IBV_QPT_XRC_RECV ? NULL : rig->pd, &attr,
				   &roce_path, &qp),
			 0);
	return qp;
}

static void connect_one(struct qp *qp, struct qp *to, const struct rig_options *options,
			uint32_t sq_psn, uint32_t rq_psn, bool receives_only)
{
	struct ibv_qp_attr attr = {
		.path_mtu = options->mtu ? options->mtu : IBV_MTU_1024,
		.port_num = 1,
		.dest_qp_num = to->ib.qp_num,
		.ah_attr = { .is_global = 1, .port_num = 1 },
		.qp_access_flags = options->access,
		.timeout = options->timeout,
		.retry_cnt = options->retry_cnt,
		.rnr_retry = options->rnr_retry,
		.rq_psn = rq_psn,
		.sq_psn = sq_psn,
		.max_rd_atomic = options->rd_atomic ? options->rd_atomic : 4,
		.max_dest_rd_atomic = options->rd_atomic ? options->rd_atomic : 4,
		.min_rnr_timer = options->min_rnr_timer,
		.qkey = 0x11,
	};
	bool ud = qp->type == IBV_QPT_UD, rc = qp_is_reliable(qp);
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	static const uint8_t own[WIRE_GID_BYTES] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };

	memcpy(attr.ah_attr.grh.dgid.raw, own, sizeof(own));
	attr.qp_state = IBV_QPS_INIT;
	mask |= ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	assert_int_equal(qp_modify(qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTR;
	mask = IBV_QP_STATE;
	if (!ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (rc)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(qp_modify(qp, &attr, mask), 0);
	if (receives_only)
		return;
	attr.qp_state = IBV_QPS_RTS;
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (rc)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	assert_int_equal(qp_modify(qp, &attr, mask), 0);
}

void rig_connect(struct qp *a, struct qp *b, const struct rig_options *options)
{
	uint32_t back = (options->psn + 1000) & PSN_MASK;

	connect_one(a, b, options, options->psn, back, false);
	if (b != a)
		connect_one(b, a, options, back, options->psn, options->receives_only);
}

void rig_modify(struct qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	assert_int_equal(qp_modify(qp, &attr, IBV_QP_STATE), 0);
}

struct mr *rig_mr(struct rig *rig, void *addr, size_t length, uint32_t access)
{
	struct mr_spec spec = {
		.pd = rig->pd,
		.addr = addr,
		.length = length,
		.iova = (uintptr_t)addr,
		.access = access,
	};
	struct mr *mr;

	assert_int_equal(mr_create(&spec, &mr), 0);
	return mr;
}

void rig_post_send(struct qp *qp, struct ibv_send_wr *wr)
{
	lock_acquire(&qp->lock);
	assert_int_equal(sq_push(&qp->sq, wr), 0);
	if (qp_state(qp) == IBV_QPS_ERR)
		qp_flush(qp);
	else
		qp->path->issue(qp);
	lock_release(&qp->lock);
}

void rig_post_flush(struct qp *qp, uint64_t wr_id, uint64_t address, uint32_t rkey, uint32_t bytes,
		    uint32_t types, uint32_t level)
{
	struct wqe *wqe;

	lock_acquire(&qp->lock);
	assert_int_equal(sq_begin(&qp->sq, (enum ibv_wr_opcode)COMPAT_WR_FLUSH, wr_id, 0, &wqe), 0);
	wqe->remote_addr = address;
	wqe->rkey = rkey;
	wqe->length = bytes;
	wqe->operands = (struct operands){ types, level };
	assert_int_equal(sq_end(&qp->sq, wqe), 0);
	qp->path->issue(qp);
	lock_release(&qp->lock);
}

void rig_post_receive(struct qp *qp, uint64_t wr_id, struct ibv_sge *sge)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = sge ? 1 : 0 };

	assert_int_equal(rq_post(qp->rq, &wr, &bad), 0);
}

uint32_t rig_waiting(void)
{
	return wire_tail - wire_head;
}

struct packet rig_peek(uint32_t i)
{
	struct rig_packet *packet = &wire[(wire_head + i) % RIG_WIRE_MAX];
	struct packet decoded;

	assert_true(i < rig_waiting());
	assert_int_equal(packet_decode(packet->bytes, packet->length, &decoded), PACKET_GOOD);
	return decoded;
}

static bool step(bool more)
{
	struct rig_packet *packet = &wire[wire_head % RIG_WIRE_MAX];
	struct wire_arrival arrival;
	struct packet decoded;

	if (wire_head == wire_tail)
		return false;
	wire_head++;
	packet_decode(packet->bytes, packet->length, &decoded);
	if (rig_on_packet && !rig_on_packet(packet, &decoded))
		return true;
	arrival = (struct wire_arrival){ .flow = &packet->flow,
					 .bytes = packet->bytes,
					 .length = packet->length,
					 .when_ns = rig_now_ns,
					 .more = more,
					 .backlogged = rig_backlogged };
	roce_receive(&arrival);
	return true;
}

bool rig_step(void)
{
	return step(false);
}

bool rig_step_more(void)
{
	return step(true);
}

void rig_inject(struct qp *from, const struct packet *header, const void *payload)
{
	struct rig_packet *to = &wire[wire_tail++ % RIG_WIRE_MAX];
	uint32_t pad = -header->payload_bytes & 3;
	struct packet packet = *header;

	packet.pkey = PACKET_PKEY;
	packet.pad = (uint8_t)pad;
	packet.dest_qpn = from->attr.dest_qp_num;
	swap_ends(&to->flow, &roce_of(from)->flow);
	to->length = (uint16_t)packet_encode(&packet, to->bytes);
	if (header->payload_bytes)
		memcpy(to->bytes + to->length, payload, header->payload_bytes);
	memset(to->bytes + to->length + header->payload_bytes, 0, pad);
	to->length += header->payload_bytes + pad;
}

/* A few packets at a time, as a socket gives them. */
static void deliver_all(void)
{
	while (rig_waiting()) {
		for (unsigned i = 0; i < 16 && rig_waiting(); i++)
			step(i < 15 && rig_waiting() > 1);
		rig_now_ns += 1000;
		roce_flush();
	}
}

void rig_run(uint64_t until_ns)
{
	for (;;) {
		uint64_t next;

		deliver_all();
		next = roce_deadline_ns();
		if (next > until_ns)
			break;
		if (rig_now_ns < next)
			rig_now_ns = next;
		roce_run(rig_now_ns);
	}
	if (rig_now_ns < until_ns)
		rig_now_ns = until_ns;
}

struct ibv_wc rig_completion(struct rig *rig)
{
	struct ibv_wc wc;

	assert_int_equal(cq_pop(rig->cq, 1, &wc), 1);
	return wc;
}

bool rig_is_quiet(struct rig *rig)
{
	return cq_is_empty(rig->cq);
}
