/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport with any packets, any posted requests, and QPs in any state: it accesses no memory
 * without a valid key, each request ends once, and memory use stays bounded.
 *
 * The input is a program: each step posts, delivers what the QPs sent each other, forges a packet,
 * lets time pass, or moves a QP to another state. Forged packets mostly name an existing QP, a PSN
 * near the expected one and a valid key, which chance would not find.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compat.h"
#include "fail.h"
#include "net.h"
#include "object/ah.h"
#include "packet/packet.h"
#include "roce/roce.h"
#include "verbs/post.h"
#include "verbs/ops.h"
#include "world.h"

#define QPS	     8 /* RC, RC, UC, UC, UD, UD, XRC_SEND, XRC_RECV: each two are connected */
#define XRC_RECV     7 /* takes receives from two SRQs of two PDs */
#define SRQS	     2
#define STEPS_MAX    400
#define OPEN_BYTES   65536 /* of the memory, under mr_open */
#define CLOSED_BYTES 65536 /* after them: no key that the input knows allows access */
#define PSN	     0xfffff0u
#define QKEY	     0x11
#define SETTLE_NS    100000000000ull
#define SETTLE_STEPS 200000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	const uint8_t *at;
	size_t left;
} input;

static struct mr *mr_open;

struct side {
	struct qp *qp;
	struct ibv_ah *ah;
	unsigned sends, receives; /* posted and not completed */
};

static struct side sides[QPS];
static struct srq *srqs[SRQS];

static uint8_t take(void)
{
	if (!input.left)
		return 0;
	input.left--;
	return *input.at++;
}

static uint32_t take32(void)
{
	uint32_t value = take();

	value = value << 8 | take();
	value = value << 8 | take();
	return value << 8 | take();
}

/* Mostly small numbers, and numbers near powers of two. */
static uint32_t take_length(void)
{
	uint8_t kind = take();

	if (kind < 128)
		return kind;
	if (kind < 250)
		return (kind & 31u) * 256 + take() % 3 - 1;
	return take32();
}

static enum ibv_qp_type type_of(unsigned number)
{
	return number < 2	    ? IBV_QPT_RC
	       : number < 4	    ? IBV_QPT_UC
	       : number < 6	    ? IBV_QPT_UD
	       : number == XRC_RECV ? IBV_QPT_XRC_RECV
				    : IBV_QPT_XRC_SEND;
}

static void nobody_cares(uint32_t qpn)
{
}

static void nobody_looks(const uint8_t *bytes, uint32_t length)
{
}

static const struct net_observer observer = {
	.sent = nobody_looks,
	.lost = nobody_cares,
	.delivered = nobody_looks,
};

static void connect_qp(unsigned number)
{
	struct side *side = &sides[number];
	bool rc = qp_is_reliable(side->qp), ud = type_of(number) == IBV_QPT_UD;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_256,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC | COMPAT_ACCESS_FLUSH_GLOBAL,
		.dest_qp_num = sides[number ^ 1].qp->ib.qp_num,
		.sq_psn = PSN,
		.rq_psn = PSN,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .sgid_index = (uint8_t)number,
				      .dgid = net_gid(number ^ 1) } },
		.max_rd_atomic = 2,
		.max_dest_rd_atomic = 2,
		.min_rnr_timer = 1,
		.timeout = 10,
		.retry_cnt = 2,
		.rnr_retry = 2,
	};

	world_modify(side->qp, &attr,
		     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	world_modify(
		side->qp, &attr,
		IBV_QP_STATE |
			(ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
			(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	attr.qp_state = IBV_QPS_RTS;
	world_modify(side->qp, &attr,
		     IBV_QP_STATE | IBV_QP_SQ_PSN |
			     (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					      IBV_QP_MAX_QP_RD_ATOMIC
				 : 0));
	if (ud && !side->ah) {
		union ibv_gid gid = net_gid(number);
		struct ah *ah;

		side->qp->attr.path_mtu = IBV_MTU_256;
		if (ah_create(world.pd, &attr.ah_attr, &gid, false, &ah))
			sim_fail("ah_create");
		side->ah = &ah->ib;
	}
}

static struct srq *make_srq(struct pd *pd)
{
	struct ibv_srq_attr attr = { .max_wr = 8, .max_sge = 2 };
	struct srq *srq;

	if (srq_create(world.context, pd, NULL, &attr, &srq) ||
	    xrc_add_srq(world.xrcd, srq, world.recv_cq))
		sim_fail("an XRC SRQ");
	return srq;
}

static void create(void)
{
	static const struct ibv_qp_cap cap = { .max_send_wr = 8,
					       .max_recv_wr = 8,
					       .max_send_sge = 2,
					       .max_recv_sge = 2,
					       .max_inline_data = 64 };

	memset(sides, 0, sizeof(sides));
	srqs[0] = make_srq(world.pd);
	srqs[1] = make_srq(world.other_pd);
	for (unsigned i = 0; i < QPS; i++)
		sides[i].qp = world_qp(type_of(i), &cap, true, NULL);
	for (unsigned i = 0; i < QPS; i++)
		connect_qp(i);
}

static struct side *side_of(const struct ibv_wc *wc)
{
	for (unsigned i = 0; i < QPS; i++)
		if (sides[i].qp->ib.qp_num == wc->qp_num)
			return &sides[i];
	sim_fail("a completion of QP 0x%06x", wc->qp_num);
}

static void poll(void)
{
	struct ibv_wc wc;

	while (cq_pop(world.send_cq, 1, &wc) == 1)
		if (side_of(&wc)->sends-- == 0)
			sim_fail("a send completed twice");
	while (cq_pop(world.recv_cq, 1, &wc) == 1)
		if (side_of(&wc)->receives-- == 0)
			sim_fail("a receive completed twice");
}

/* Mostly valid. */
static struct ibv_sge take_sge(void)
{
	uint8_t how = take();

	return (struct ibv_sge){
		.addr = world_address((uint32_t)(how & 15) * 4096) + (how & 128 ? take() : 0),
		.length = take_length() % (2 * OPEN_BYTES),
		.lkey = mr_open->ib.lkey ^ (how & 64 ? take() : 0),
	};
}

/* Mostly of an existing SRQ. */
static uint32_t take_srqn(void)
{
	uint8_t how = take();

	return srqs[how & 1]->number ^ (how & 0xc0 ? 0 : take32() & 0xffffff);
}

static void post_flush(void)
{
	unsigned number = take() % QPS;
	struct side *side = &sides[number];
	struct qp *qp = side->qp;
	struct wqe *wqe;

	lock_acquire(&qp->lock);
	if (!post_check_state(qp) &&
	    !sq_begin(&qp->sq, (enum ibv_wr_opcode)COMPAT_WR_FLUSH, 0, 0, &wqe)) {
		wqe->remote_addr = world_address((uint32_t)(take() & 15) * 4096);
		wqe->rkey = mr_open->ib.rkey ^ (take() & 1);
		wqe->remote_srqn = take_srqn();
		wqe->length = take_length();
		wqe->operands = (struct operands){ 1 + take() % 3, take() & 1 };
		if (sq_end(&qp->sq, wqe) == 0) {
			side->sends++;
			post_done(qp, qp->sq.tail - 1);
		}
	}
	lock_release(&qp->lock);
}

static void post_send(void)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_SEND_WITH_INV,
		IBV_WR_ATOMIC_WRITE,
	};
	unsigned number = take() % QPS;
	struct side *side = &sides[number];
	uint8_t how = take();
	struct ibv_sge sge[2] = { take_sge(), { 0 } };
	struct ibv_send_wr *bad, wr = {
		.sg_list = sge,
		.num_sge = how & 16 ? 2 : 1,
		.opcode = opcodes[take() % 9],
		.send_flags = how & 8 ? IBV_SEND_FENCE : 0,
		.imm_data = how,
	};
	uint64_t address = world_address((uint32_t)(take() & 15) * 4096);
	uint32_t key = mr_open->ib.rkey ^ (how & 32 ? take() : 0);

	if (wr.num_sge == 2)
		sge[1] = take_sge();
	if (wr.opcode == IBV_WR_ATOMIC_WRITE) {
		wr.num_sge = 1;
		sge[0].length = 8;
	}
	if (type_of(number) == IBV_QPT_XRC_SEND)
		wr.qp_type.xrc.remote_srqn = take_srqn();
	if (how & 64 && sge[0].length <= 64 && wr.num_sge == 1 && !(how & 4))
		wr.send_flags |= IBV_SEND_INLINE;
	if (how & 128)
		address += take();
	if (type_of(number) == IBV_QPT_UD) {
		wr.wr.ud.ah = side->ah;
		wr.wr.ud.remote_qpn = sides[number ^ 1].qp->ib.qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = address;
		wr.wr.atomic.rkey = key;
	} else {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = key;
	}
	if (wr.send_flags & IBV_SEND_INLINE) /* inline data has to be readable, whatever its key */
		sge[0].addr = world_address(0);
	if (verbs_post_send(&side->qp->ib, &wr, &bad) == 0)
		side->sends++;
}

static void post_receive(void)
{
	unsigned number = take() % QPS;
	struct side *side = &sides[number];
	struct ibv_sge sge = take_sge();
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (number == XRC_RECV)
		side->receives += !verbs_post_srq_recv(&srqs[take() & 1]->ib, &wr, &bad);
	else if (verbs_post_recv(&side->qp->ib, &wr, &bad) == 0)
		side->receives++;
}

static void receive(unsigned number, bool foreign, const uint8_t *bytes, uint32_t length)
{
	union ibv_gid local = net_gid(number), remote = net_gid(foreign ? 77 : number ^ 1);
	struct wire_flow flow = { .traffic_class = take(), .hop_limit = 64 };
	struct wire_arrival arrival = { .flow = &flow, .length = length, .when_ns = net_now() };
	uint8_t *exact = malloc(length ? length : 1);

	memcpy(flow.local, local.raw, sizeof(flow.local));
	memcpy(flow.remote, remote.raw, sizeof(flow.remote));
	memcpy(exact, bytes, length);
	arrival.bytes = exact;
	roce_receive(&arrival);
	free(exact);
}

/* Sends a packet whose fields mostly fit together. */
static void forge(void)
{
	unsigned number = take() % QPS;
	uint8_t how = take(), header[PACKET_HEADER_BYTES], bytes[PACKET_HEADER_BYTES + 600];
	struct packet packet = {
		.opcode = take(),
		.solicited = how & 1,
		.ack_req = how & 2,
		.original = how & 128,
		.pkey = PACKET_PKEY,
		.dest_qpn = sides[number].qp->ib.qp_num,
		.psn = psn_of(PSN + take() - 64),
		.va = world_address((uint32_t)(take() & 15) * 4096) + (how & 4 ? take() : 0),
		.rkey = mr_open->ib.rkey ^ (how & 8 ? take() : 0),
		.length = take_length(),
		.syndrome = take(),
		.msn = take(),
		.qkey = QKEY,
		.src_qpn = sides[number ^ 1].qp->ib.qp_num,
		.xrc_srqn = take_srqn(),
		.flush_types = how >> 1 & 15,
		.flush_level = how & 1,
	};
	uint32_t payload = take_length() % 600 & ~3u;
	unsigned header_bytes;

	if (how & 16)
		packet.length = payload;
	if (how & 32)
		packet.pad = take() & 3;
	if (!packet_opcode(packet.opcode)->kind)
		return;
	if (!packet_opcode(packet.opcode)->payload)
		payload = 0;
	header_bytes = packet_encode(&packet, header);
	memcpy(bytes, header, header_bytes);
	memset(bytes + header_bytes, 0xf0, payload);
	receive(number, how & 64, bytes, header_bytes + payload);
}

static void forge_raw(void)
{
	uint8_t bytes[256];
	uint32_t length = take();

	for (uint32_t i = 0; i < length; i++)
		bytes[i] = take();
	receive(take() % QPS, false, bytes, length);
}

static void pass_time(void)
{
	net_advance(net_now() + (1000ull << take() % 18));
	if (roce_deadline_ns() <= net_now())
		roce_run(net_now());
}

static void to_reset(unsigned number)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct side *side = &sides[number];

	poll();
	world_modify(side->qp, &attr, IBV_QP_STATE);
	side->sends = 0; /* dropped; receives of an SRQ stay */
	if (number != XRC_RECV)
		side->receives = 0;
}

static void change_state(void)
{
	unsigned number = take() % QPS;
	struct ibv_qp_attr attr = { 0 };

	switch (take() % 4) {
	case 0:
		world_to_error(sides[number].qp);
		break;
	case 1: /* or not, where that is no legal move */
		attr.qp_state =
			qp_state(sides[number].qp) == IBV_QPS_SQD ? IBV_QPS_RTS : IBV_QPS_SQD;
		qp_modify(sides[number].qp, &attr, IBV_QP_STATE);
		break;
	default:
		to_reset(number);
		connect_qp(number);
		break;
	}
}

static void step(void)
{
	switch (take() % 10) {
	case 0:
	case 1:
		if (take() % 8)
			post_send();
		else
			post_flush();
		break;
	case 2:
		post_receive();
		break;
	case 3:
	case 4:
	case 5:
		forge();
		break;
	case 6:
		forge_raw();
		break;
	case 7:
		if (net_next_ns() != NET_NEVER)
			net_advance(net_next_ns());
		net_deliver(take());
		break;
	case 8:
		pass_time();
		break;
	default:
		if (take() & 1)
			change_state();
		else
			poll();
		break;
	}
	if (take() & 1)
		roce_flush();
}

/*
 * Runs until nothing happens any more. A QP in SQD, or a QP with forged answers, may wait for ever.
 */
static void settle(void)
{
	uint64_t limit_ns = net_now() + SETTLE_NS;

	for (unsigned steps = 0;; steps++) {
		uint64_t next = net_next_ns();

		if (roce_deadline_ns() < next)
			next = roce_deadline_ns();
		if (next == NET_NEVER || next > limit_ns)
			break;
		if (steps == SETTLE_STEPS)
			sim_fail("no end of it");
		net_advance(next);
		net_deliver(WIRE_BURST);
		if (roce_deadline_ns() <= net_now())
			roce_run(net_now());
		poll();
	}
}

static void check_closed(void)
{
	if (memcmp(world.memory + OPEN_BYTES, world.shadow + OPEN_BYTES, CLOSED_BYTES))
		sim_fail("memory is written that no key allows");
}

static void destroy(void)
{
	struct ibv_async_event event;

	for (unsigned i = 0; i < QPS; i++)
		world_to_error(sides[i].qp);
	roce_flush();
	poll();
	for (unsigned i = 0; i < QPS; i++)
		if (sides[i].sends || (sides[i].receives && i != XRC_RECV))
			sim_fail("QP %u: %u sends and %u receives never completed", i,
				 sides[i].sends, sides[i].receives);
	while (context_take_event(world.context, &event))
		qp_of(event.element.qp)->async_reported--;
	for (unsigned i = 0; i < QPS; i++) {
		if (qp_destroy(sides[i].qp))
			sim_fail("qp_destroy");
		if (sides[i].ah)
			ah_destroy(ah_of(sides[i].ah));
	}
	for (unsigned i = 0; i < SRQS; i++)
		if (xrc_destroy_srq(srqs[i]))
			sim_fail("xrc_destroy_srq");
}

static void prepare(void)
{
	struct mr_spec spec = {
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			  COMPAT_ACCESS_FLUSH_GLOBAL,
	};

	if (mr_open)
		return;
	net_is_bypassed = true;
	world_create();
	spec.pd = world.pd;
	spec.addr = world.memory;
	spec.iova = (uintptr_t)world.memory;
	spec.length = OPEN_BYTES;
	if (mr_create(&spec, &mr_open))
		sim_fail("mr_create");
	net_observe(&observer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct net_weather fair = { .delay_ns = 5000 };

	prepare();
	input.at = data;
	input.left = size;
	net_start(&fair, 1);
	create();
	for (unsigned i = 0; i < STEPS_MAX && input.left; i++)
		step();
	settle();
	check_closed();
	destroy();
	net_stop();
	return 0;
}
