/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GRH_BYTES 40u
#define QKEY	  0x11111111u

/*
 * ibv_qp_attr.timeout. By wire only time-outs show that a process was killed: eight of 67 ms, or of
 * so many times as long as processes may wait for a processor.
 */
static uint8_t timeout_of(const struct worker *worker)
{
	const char *path = getenv("VERBATIM_PATH");
	uint8_t timeout = 14;

	if (!path || strcmp(path, "wire") != 0)
		return 18;
	for (unsigned int n = worker->settings->patience; n > 1; n /= 2)
		timeout++;
	return timeout;
}

static char *allocate(struct worker *worker, size_t length)
{
	char *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(worker, memory != MAP_FAILED, "mmap of %zu bytes: %s", length, strerror(errno));
	return memory;
}

static struct ibv_mr *make_region(struct worker *worker, size_t length, int access)
{
	char *memory = allocate(worker, length);
	struct ibv_mr *mr = ibv_reg_mr(worker->pd, memory, length, access);

	CHECK(worker, mr, "ibv_reg_mr: %s", strerror(errno));
	return mr;
}

static void make_memory(struct worker *worker)
{
	unsigned int procs = worker->settings->procs;
	size_t rings = (size_t)RING_BYTES * procs;
	size_t buffers = (size_t)SEND_BYTES_MAX * RECEIVES * procs;
	size_t uc = 2 * 2 * (size_t)UC_DEPTH * UC_BYTES;
	size_t ud = 2 * DATAGRAM_DEPTH * (size_t)(DATAGRAM_BYTES + GRH_BYTES);
	char *next;

	worker->local = make_region(worker, rings + buffers + uc + ud, IBV_ACCESS_LOCAL_WRITE);
	worker->target = make_region(worker, (size_t)plan_slots_bytes() * procs,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	worker->source = make_region(worker, SOURCE_BYTES, IBV_ACCESS_REMOTE_READ);
	worker->words = make_region(worker, 8 * WORDS * (PROCS_MAX + 1),
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	memset(worker->target->addr, CANARY, worker->target->length);
	pattern_fill(worker->source->addr, SOURCE_BYTES, worker->settings->seed + worker->self, 0);
	next = worker->local->addr;
	for (unsigned int i = 0; i < procs; i++, next += RING_BYTES)
		worker->link[i].ring = next;
	worker->buffers = next;
	memset(next, CANARY, buffers);
	next += buffers;
	worker->uc_buffers = next;
	next += uc / 2;
	for (int i = 0; i < 2; i++, next += UC_DEPTH * UC_BYTES)
		worker->uc[i].out = next;
	worker->ud_out = next;
	worker->ud_buffers = next + ud / 2;
	worker->srq_posted = calloc((size_t)RECEIVES * procs, sizeof(bool));
	for (unsigned int i = 0; i < procs; i++)
		worker->ud_seen[i] = calloc(worker->settings->ops + 1, 1);
}

static struct ibv_qp *make_qp(struct worker *worker, enum ibv_qp_type type, uint32_t sends,
			      uint32_t receives)
{
	struct ibv_qp_init_attr init = {
		.send_cq = worker->sends,
		.recv_cq = worker->receives,
		.srq = type == IBV_QPT_RC ? worker->srq : NULL,
		.cap = { .max_send_wr = sends,
			 .max_recv_wr = receives,
			 .max_send_sge = STEP_SGES_MAX,
			 .max_recv_sge = 2,
			 .max_inline_data = INLINE_BYTES },
		.qp_type = type,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qkey = QKEY,
				    .qp_access_flags = IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_ATOMIC };
	struct ibv_qp *qp = ibv_create_qp(worker->pd, &init);
	int error;

	CHECK(worker, qp, "ibv_create_qp: %s", strerror(errno));
	error = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	CHECK(worker, error == 0, "INIT: %s", strerror(error));
	return qp;
}

static void open_device(struct worker *worker)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	CHECK(worker, list && count > 0, "no device: %s", strerror(errno));
	worker->context = ibv_open_device(list[0]);
	CHECK(worker, worker->context, "ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(list);
}

void setup_objects(struct worker *worker)
{
	unsigned int procs = worker->settings->procs;
	struct seat *seat = worker->seat;
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = RECEIVES * procs, .max_sge = 2 } };
	struct ibv_port_attr port;

	open_device(worker);
	worker->pd = ibv_alloc_pd(worker->context);
	CHECK(worker, worker->pd, "ibv_alloc_pd");
	if (worker->by_events) {
		worker->channel = ibv_create_comp_channel(worker->context);
		CHECK(worker, worker->channel, "ibv_create_comp_channel");
	}
	worker->sends =
		ibv_create_cq(worker->context, (int)(DEPTH * procs + 2 * UC_DEPTH + DATAGRAM_DEPTH),
			      NULL, worker->channel, 0);
	worker->receives = ibv_create_cq(worker->context,
					 (int)(RECEIVES * procs + 2 * UC_DEPTH + DATAGRAM_DEPTH),
					 NULL, worker->channel, 0);
	CHECK(worker, worker->sends && worker->receives, "ibv_create_cq: %s", strerror(errno));
	if (worker->use_srq) {
		worker->srq = ibv_create_srq(worker->pd, &srq);
		CHECK(worker, worker->srq, "ibv_create_srq: %s", strerror(errno));
	}
	make_memory(worker);
	for (unsigned int i = 0; i < procs; i++) {
		struct link *link = &worker->link[i];

		link->peer = i;
		pthread_mutex_init(&link->lock, NULL);
		if (i == worker->self)
			continue;
		link->qp = make_qp(worker, IBV_QPT_RC, DEPTH, RECEIVES);
		seat->qpn[i] = link->qp->qp_num;
	}
	for (unsigned int i = 0; i < 2; i++) {
		worker->uc[i].peer = (worker->self + (i == 0 ? 1 : procs - 1)) % procs;
		worker->uc[i].qp = make_qp(worker, IBV_QPT_UC, UC_DEPTH, UC_DEPTH);
		seat->uc_qpn[i] = worker->uc[i].qp->qp_num;
	}
	worker->ud = make_qp(worker, IBV_QPT_UD, DATAGRAM_DEPTH, DATAGRAM_DEPTH);
	seat->ud_qpn = worker->ud->qp_num;
	CHECK(worker, ibv_query_port(worker->context, 1, &port) == 0, "ibv_query_port");
	CHECK(worker, ibv_query_gid(worker->context, 1, 0, &seat->gid) == 0, "ibv_query_gid");
	seat->lid = port.lid;
	seat->target = (uintptr_t)worker->target->addr;
	seat->source = (uintptr_t)worker->source->addr;
	seat->words = (uintptr_t)worker->words->addr;
	seat->target_rkey = worker->target->rkey;
	seat->source_rkey = worker->source->rkey;
	seat->words_rkey = worker->words->rkey;
}

static struct ibv_ah_attr address_of(const struct seat *seat)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.grh = { .dgid = seat->gid, .hop_limit = 64 },
		.dlid = seat->lid,
		.port_num = 1,
	};
}

static void connect_qp(struct worker *worker, struct ibv_qp *qp, const struct seat *to,
		       uint32_t qpn)
{
	bool rc = qp->qp_type == IBV_QPT_RC, ud = qp->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = qpn,
				   .rq_psn = 0x800000,
				   .max_dest_rd_atomic = 4,
				   .min_rnr_timer = 5 };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .sq_psn = 0x800000,
				   .timeout = timeout_of(worker),
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 4 };
	int error;

	rtr.ah_attr = address_of(to);
	error = ibv_modify_qp(
		qp, &rtr,
		IBV_QP_STATE |
			(ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
			(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	CHECK(worker, error == 0, "RTR: %s", strerror(error));
	error = ibv_modify_qp(qp, &rts,
			      IBV_QP_STATE | IBV_QP_SQ_PSN |
				      (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						       IBV_QP_MAX_QP_RD_ATOMIC
					  : 0));
	CHECK(worker, error == 0, "RTS: %s", strerror(error));
}

void setup_connect(struct worker *worker)
{
	const struct seat *seats = worker->board->seat;

	for (unsigned int i = 0; i < worker->settings->procs; i++) {
		struct ibv_ah_attr to = address_of(&seats[i]);

		worker->ah[i] = ibv_create_ah(worker->pd, &to);
		CHECK(worker, worker->ah[i], "ibv_create_ah: %s", strerror(errno));
		if (i == worker->self)
			continue;
		connect_qp(worker, worker->link[i].qp, &seats[i], seats[i].qpn[worker->self]);
		for (uint32_t n = 0; n < RECEIVES && !worker->use_srq; n++)
			traffic_receive(worker, &worker->link[i]);
	}
	for (uint32_t n = 0; n < RECEIVES * worker->settings->procs && worker->use_srq; n++)
		traffic_receive_srq(worker, n);
	for (unsigned int i = 0; i < 2; i++) {
		const struct seat *peer = &seats[worker->uc[i].peer];

		for (uint32_t n = 0; n < UC_DEPTH; n++)
			traffic_receive_uc(worker, i, n);
		connect_qp(worker, worker->uc[i].qp, peer, peer->uc_qpn[1 - i]);
	}
	for (uint32_t n = 0; n < DATAGRAM_DEPTH; n++)
		traffic_receive_ud(worker, n);
	connect_qp(worker, worker->ud, worker->seat, 0);
}

static void destroyed(struct worker *worker, const char *what, int error)
{
	CHECK(worker, error == 0, "%s: %s", what, strerror(error));
}

void setup_destroy(struct worker *worker)
{
	for (unsigned int i = 0; i < worker->settings->procs; i++) {
		if (worker->link[i].qp)
			destroyed(worker, "ibv_destroy_qp", ibv_destroy_qp(worker->link[i].qp));
		destroyed(worker, "ibv_destroy_ah", ibv_destroy_ah(worker->ah[i]));
	}
	for (int i = 0; i < 2; i++)
		destroyed(worker, "ibv_destroy_qp", ibv_destroy_qp(worker->uc[i].qp));
	destroyed(worker, "ibv_destroy_qp", ibv_destroy_qp(worker->ud));
	if (worker->srq)
		destroyed(worker, "ibv_destroy_srq", ibv_destroy_srq(worker->srq));
	destroyed(worker, "ibv_destroy_cq", ibv_destroy_cq(worker->sends));
	destroyed(worker, "ibv_destroy_cq", ibv_destroy_cq(worker->receives));
	if (worker->channel)
		destroyed(worker, "ibv_destroy_comp_channel",
			  ibv_destroy_comp_channel(worker->channel));
	destroyed(worker, "ibv_dereg_mr", ibv_dereg_mr(worker->local));
	destroyed(worker, "ibv_dereg_mr", ibv_dereg_mr(worker->target));
	destroyed(worker, "ibv_dereg_mr", ibv_dereg_mr(worker->source));
	destroyed(worker, "ibv_dereg_mr", ibv_dereg_mr(worker->words));
	destroyed(worker, "ibv_dealloc_pd", ibv_dealloc_pd(worker->pd));
	destroyed(worker, "ibv_close_device", ibv_close_device(worker->context));
}
