/* SPDX-License-Identifier: BSD-2-Clause */
#include "side.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "rnic.h"

#define ARRIVAL_MS 2000
#define COLD_LOOKS 5000 /* more than a port is looked at in vain before the kernel watches it */

struct side *side_create(void)
{
	return calloc(1, sizeof(struct side));
}

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Processor time of this thread, which a busy machine does not change. */
static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void sleep_ms(unsigned int ms)
{
	struct timespec time = { ms / 1000, (long)(ms % 1000) * 1000000 };

	while (nanosleep(&time, &time) < 0 && errno == EINTR)
		;
}

void after_miss(unsigned int misses)
{
	if (misses > COLD_LOOKS)
		usleep(50);
	else if (misses % 64 == 0)
		sched_yield();
}

struct ibv_context *side_open_device(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context;

	REQUIRE(list, "ibv_get_device_list: %s", strerror(errno));
	REQUIRE(count > 0, "there is no device");
	context = ibv_open_device(list[0]);
	REQUIRE(context, "ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(list);
	return context;
}

static void make_common(struct side *side, const struct options *options)
{
	side->options = *options;
	side->pd = ibv_alloc_pd(side->context);
	side->other_pd = ibv_alloc_pd(side->context);
	REQUIRE(side->pd && side->other_pd, "ibv_alloc_pd: %s", strerror(errno));
	if (options->channel) {
		side->channel = ibv_create_comp_channel(side->context);
		REQUIRE(side->channel, "ibv_create_comp_channel: %s", strerror(errno));
	}
	for (int i = 0; i < WHICH; i++) {
		if (i > 0 && options->one_cq) {
			side->cq[i] = side->cq[0];
			continue;
		}
		side->cq[i] = ibv_create_cq(side->context, options->cqe, side, side->channel, 0);
		REQUIRE(side->cq[i], "ibv_create_cq: %s", strerror(errno));
	}
	if (options->srq) {
		struct ibv_srq_init_attr attr = {
			.attr = { .max_wr = options->cap.max_recv_wr,
				  .max_sge = options->cap.max_recv_sge },
		};

		side->srq =
			ibv_create_srq(options->srq_of_other_pd ? side->other_pd : side->pd, &attr);
		REQUIRE(side->srq, "ibv_create_srq: %s", strerror(errno));
	}
	side->buf = mmap(NULL, options->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	REQUIRE(side->buf != MAP_FAILED, "mmap: %s", strerror(errno));
	side->mr = ibv_reg_mr(side->pd, side->buf, options->size, options->access);
	REQUIRE(side->mr, "ibv_reg_mr: %s", strerror(errno));
}

struct side *side_open(const struct options *options)
{
	struct side *side = side_create();

	side->context = side_open_device();
	make_common(side, options);
	return side;
}

struct ibv_qp *side_create_qp(struct side *side, const struct options *options)
{
	struct ibv_qp_init_attr init = {
		.send_cq = side->cq[SENDS],
		.recv_cq = side->cq[RECEIVES],
		.srq = side->srq,
		.cap = options->cap,
		.qp_type = options->type,
		.sq_sig_all = options->sig_all,
		.qp_context = side,
	};

	return ibv_create_qp(side->pd, &init);
}

void op_make(struct side *side, void *argument)
{
	struct op_make *op = argument;
	struct ibv_port_attr port;

	side->context = op->context ? op->context : side_open_device();
	make_common(side, &op->options);
	for (int i = 0; i < op->options.qps; i++) {
		side->qp[i] = side_create_qp(side, &op->options);
		REQUIRE(side->qp[i], "ibv_create_qp: %s", strerror(errno));
		op->end.qpn[i] = side->qp[i]->qp_num;
	}
	REQUIRE(ibv_query_port(side->context, 1, &port) == 0, "ibv_query_port");
	REQUIRE(ibv_query_gid(side->context, 1, 0, &op->end.gid) == 0, "ibv_query_gid");
	op->context = side->context;
	op->end.lid = port.lid;
	op->end.mtu = port.active_mtu;
	op->end.addr = (uintptr_t)side->buf;
	op->end.lkey = side->mr->lkey;
	op->end.rkey = side->mr->rkey;
}

static int move_to_init(struct side *side, const struct op_move *op)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = (unsigned int)side->options.qp_access,
		.qkey = QKEY,
	};
	bool ud = side->options.type == IBV_QPT_UD;

	return ibv_modify_qp(side->qp[op->qp], &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static struct ibv_ah_attr address(const struct op_move *op)
{
	return (struct ibv_ah_attr){
		.is_global = !op->lid, /* the LID alone reaches a port */
		.grh = { .dgid = op->gid, .sgid_index = 0, .hop_limit = 64 },
		.dlid = op->lid,
		.port_num = 1,
	};
}

static int move_to_rtr(struct side *side, const struct op_move *op)
{
	const struct options *options = &side->options;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = options->mtu,
		.dest_qp_num = op->qpn,
		.rq_psn = (uint32_t)(0x123456 + op->psn_offset),
		.max_dest_rd_atomic = options->rd_atomic,
		.min_rnr_timer = options->min_rnr_timer,
		.ah_attr = address(op),
	};
	int mask = IBV_QP_STATE;

	if (options->type == IBV_QPT_UD) {
		struct ibv_ah_attr to = address(op);

		if (!side->ah)
			side->ah = ibv_create_ah(side->pd, &to);
		if (!side->ah)
			return errno;
		return ibv_modify_qp(side->qp[op->qp], &attr, mask);
	}
	mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (options->type == IBV_QPT_RC || options->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(side->qp[op->qp], &attr, mask);
}

static int move_to_rts(struct side *side, const struct op_move *op)
{
	const struct options *options = &side->options;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0x123456,
		.timeout = options->timeout,
		.retry_cnt = options->retry_cnt,
		.rnr_retry = options->rnr_retry,
		.max_rd_atomic = options->rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (options->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT;
	if (options->type == IBV_QPT_RC || options->type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(side->qp[op->qp], &attr, mask);
}

void op_move(struct side *side, void *argument)
{
	struct op_move *op = argument;
	struct ibv_qp_attr attr = { .qp_state = op->to };

	switch (op->to) {
	case IBV_QPS_INIT:
		op->result = move_to_init(side, op);
		break;
	case IBV_QPS_RTR:
		op->result = move_to_rtr(side, op);
		break;
	case IBV_QPS_RTS:
		op->result = move_to_rts(side, op);
		break;
	default:
		op->result = ibv_modify_qp(side->qp[op->qp], &attr, IBV_QP_STATE);
		break;
	}
}

void op_modify(struct side *side, void *argument)
{
	struct op_modify *op = argument;

	op->result = ibv_modify_qp(side->qp[op->qp], &op->attr, op->mask);
}

void op_query(struct side *side, void *argument)
{
	struct op_query *op = argument;
	int mask = IBV_QP_STATE | IBV_QP_CAP | IBV_QP_ACCESS_FLAGS;

	REQUIRE(ibv_query_qp(side->qp[op->qp], &op->attr, mask, &op->init) == 0,
		"ibv_query_qp failed");
}

static int use_sges(struct side *side, struct ibv_sge *sge, int num_sge, uint32_t offset,
		    uint32_t length)
{
	if (num_sge > 0 || length == 0)
		return num_sge;
	sge[0] = (struct ibv_sge){ (uintptr_t)side->buf + offset, length, side->mr->lkey };
	return 1;
}

static void fill_remote(struct side *side, const struct request *request, struct ibv_send_wr *wr)
{
	wr->qp_type.xrc.remote_srqn = request->srqn;
	if (side->options.type == IBV_QPT_UD) {
		wr->wr.ud.ah = side->ah;
		wr->wr.ud.remote_qpn = request->qpn;
		wr->wr.ud.remote_qkey = request->qkey;
	} else if (request->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = request->remote;
		wr->wr.atomic.rkey = request->rkey;
		wr->wr.atomic.compare_add = request->compare_add;
		wr->wr.atomic.swap = request->swap;
	} else {
		wr->wr.rdma.remote_addr = request->remote;
		wr->wr.rdma.rkey = request->rkey;
	}
}

static int index_of_bad(const void *bad, const void *first, size_t stride, int count)
{
	size_t distance = (size_t)((const char *)bad - (const char *)first);

	if (!bad)
		return -1;
	if (bad < first || distance % stride || distance / stride >= (size_t)count)
		return -2;
	return (int)(distance / stride);
}

void op_post_send(struct side *side, void *argument)
{
	struct op_post_send *op = argument;
	struct ibv_send_wr wr[REQUESTS_MAX], *bad = NULL;
	uint64_t start;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < op->count; i++) {
		struct request *request = &op->request[i];

		wr[i].wr_id = request->wr_id;
		wr[i].next = i + 1 < op->count ? &wr[i + 1] : NULL;
		wr[i].sg_list = request->sge;
		wr[i].num_sge = use_sges(side, request->sge, request->num_sge, request->offset,
					 request->length);
		wr[i].opcode = request->opcode;
		wr[i].send_flags = request->flags;
		wr[i].imm_data = request->imm;
		fill_remote(side, request, &wr[i]);
	}
	start = now_us();
	op->result = ibv_post_send(side->qp[op->qp], wr, &bad);
	op->elapsed_us = now_us() - start;
	op->bad = index_of_bad(bad, wr, sizeof(wr[0]), op->count);
	/* The post has copied them, so they may change now. */
	memset(wr, 0xEE, sizeof(wr));
	for (int i = 0; i < op->count; i++)
		memset(op->request[i].sge, 0xEE, sizeof(op->request[i].sge));
}

void op_post_recv(struct side *side, void *argument)
{
	struct op_post_recv *op = argument;
	struct ibv_recv_wr wr[REQUESTS_MAX], *bad = NULL;

	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < op->count; i++) {
		struct receive *receive = &op->receive[i];

		wr[i].wr_id = receive->wr_id;
		wr[i].next = i + 1 < op->count ? &wr[i + 1] : NULL;
		wr[i].sg_list = receive->sge;
		wr[i].num_sge = use_sges(side, receive->sge, receive->num_sge, receive->offset,
					 receive->length);
	}
	if (op->qp < 0)
		op->result = ibv_post_srq_recv(side->srq, wr, &bad);
	else
		op->result = ibv_post_recv(side->qp[op->qp], wr, &bad);
	op->bad = index_of_bad(bad, wr, sizeof(wr[0]), op->count);
	memset(wr, 0xEE, sizeof(wr));
	for (int i = 0; i < op->count; i++)
		memset(op->receive[i].sge, 0xEE, sizeof(op->receive[i].sge));
}

void op_poll(struct side *side, void *argument)
{
	struct op_poll *op = argument;
	uint64_t end_ms = now_ms() + op->timeout_ms;
	unsigned misses = 0;

	do {
		op->result = ibv_poll_cq(side->cq[op->which], 1, &op->wc);
		if (op->result == 0)
			after_miss(++misses);
	} while (op->result == 0 && now_ms() < end_ms);
}

void op_async(struct side *side, void *argument)
{
	struct op_async *op = argument;
	struct pollfd ready = { .fd = side->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	op->type = -1;
	op->qpn = 0;
	op->of_srq = op->of_cq = false;
	if (poll(&ready, 1, (int)op->timeout_ms) <= 0)
		return;
	REQUIRE(ibv_get_async_event(side->context, &event) == 0, "ibv_get_async_event: %s",
		strerror(errno));
	op->type = event.event_type;
	switch (event.event_type) {
	case IBV_EVENT_CQ_ERR:
		op->of_cq = event.element.cq == side->cq[SENDS] ||
			    event.element.cq == side->cq[RECEIVES];
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		op->of_srq = event.element.srq == side->srq;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		op->qpn = event.element.qp->qp_num;
		break;
	default:
		break;
	}
	ibv_ack_async_event(&event);
}

/* Differs between seeds and between neighbouring pages and chunks. Seed 0 is a canary. */
uint8_t pattern(uint32_t seed, uint64_t i)
{
	if (seed == 0)
		return 0xC5;
	return (uint8_t)(seed * 61 + i * 7 + (i >> 8) * 13 + (i >> 16) * 29);
}

void op_fill(struct side *side, void *argument)
{
	struct op_bytes *op = argument;

	for (uint64_t i = 0; i < op->length; i++)
		side->buf[op->offset + i] = (char)pattern(op->seed, i);
}

static int64_t first_bad(const struct side *side, const struct op_bytes *op)
{
	const volatile uint8_t *at = (uint8_t *)side->buf + op->offset;

	for (uint64_t i = 0; i < op->length; i++)
		if (at[i] != pattern(op->seed, i))
			return (int64_t)i;
	return -1;
}

/* By iWARP a WRITE that has completed may still be on its way (RFC 5040 5.5). */
void op_verify(struct side *side, void *argument)
{
	struct op_bytes *op = argument;
	uint64_t end_ms = now_ms() + (over_iwarp() ? ARRIVAL_MS * (unsigned)patience() : 0);

	do {
		op->first_bad = first_bad(side, op);
	} while (op->first_bad >= 0 && now_ms() < end_ms);
}

void op_peek(struct side *side, void *argument)
{
	struct op_word *op = argument;
	volatile uint64_t *word = (volatile uint64_t *)(side->buf + op->offset);
	uint64_t end_ms = now_ms() + op->wait_ms;

	while (op->wait_ms && *word != op->value && now_ms() < end_ms)
		;
	memcpy(&op->value, side->buf + op->offset, sizeof(op->value));
}

void op_poke(struct side *side, void *argument)
{
	struct op_word *op = argument;

	memcpy(side->buf + op->offset, &op->value, sizeof(op->value));
}

void op_register(struct side *side, void *argument)
{
	struct op_region *op = argument;
	void *addr = op->addr || op->at_null ? (void *)(uintptr_t)op->addr : side->buf + op->offset;
	struct ibv_mr *mr =
		ibv_reg_mr(op->other_pd ? side->other_pd : side->pd, addr, op->length, op->access);

	op->error = mr ? 0 : errno;
	side->region[op->slot] = mr;
	op->lkey = mr ? mr->lkey : 0;
	op->rkey = mr ? mr->rkey : 0;
}

void op_deregister(struct side *side, void *argument)
{
	struct op_region *op = argument;
	struct ibv_mr **mr = op->slot < 0 ? &side->mr : &side->region[op->slot];

	op->error = ibv_dereg_mr(*mr);
	if (op->error == 0)
		*mr = NULL;
}

void op_map(struct side *side, void *argument)
{
	struct op_memory *op = argument;
	char *memory =
		mmap(NULL, op->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	op->error = memory == MAP_FAILED ? errno : 0;
	op->addr = (uintptr_t)memory;
	for (uint64_t i = 0; !op->error && i < op->length; i++)
		memory[i] = (char)pattern(op->seed, i);
}

void op_unmap(struct side *side, void *argument)
{
	struct op_memory *op = argument;

	op->error = munmap((void *)(uintptr_t)op->addr, op->length) ? errno : 0;
}

void op_destroy_qp(struct side *side, void *argument)
{
	struct op_destroy_qp *op = argument;

	op->result = ibv_destroy_qp(side->qp[op->qp]);
	if (op->result == 0)
		side->qp[op->qp] = NULL;
}
