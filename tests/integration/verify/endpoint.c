/* SPDX-License-Identifier: BSD-2-Clause */
#include "endpoint.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "meet.h"

#define WAIT_NS INT64_C(20000000000)
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_context *endpoint_open_device(void)
{
	const char *name = getenv("VERIFY_DEVICE");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	if (!list || !list[0])
		fail("no device");
	for (int i = 0; list[i] && !context; i++) {
		if (name && strcmp(name, ibv_get_device_name(list[i])) != 0)
			continue;
		context = ibv_open_device(list[i]);
		if (!context)
			fail("ibv_open_device(%s): %s", ibv_get_device_name(list[i]),
			     strerror(errno));
	}
	if (!context)
		fail("no device '%s'", name);
	ibv_free_device_list(list);
	return context;
}

/* The region's rights; the QP has the remote ones that its service allows. */
static int access_of(const struct options *options)
{
	return ACCESS | (options->operation == OP_WRITE_FLUSH ? ENDPOINT_ACCESS_FLUSH : 0);
}

static void create_qp(struct endpoint *e)
{
	const struct options *options = e->options;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = e->send_cq,
		.recv_cq = e->recv_cq,
		.cap = { .max_send_wr = options->depth * op_requests(options->operation),
			 .max_recv_wr = options->depth,
			 .max_send_sge = ENDPOINT_PIECES_MAX,
			 .max_recv_sge = ENDPOINT_PIECES_MAX + 1,
			 .max_inline_data = options->use_inline ? 64 : 0 },
		.qp_type = options->service,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = e->pd,
	};

	if (options->use_wr_api) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
		if (options->service != IBV_QPT_UD)
			init.send_ops_flags |=
				IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
		if (options->service == IBV_QPT_RC)
			init.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ |
					       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
					       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
		if (options->operation == OP_ATOMIC_WRITE)
			init.send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_WRITE;
		if (options->operation == OP_WRITE_FLUSH)
			init.send_ops_flags |= ENDPOINT_WITH_FLUSH;
	}
	e->qp = ibv_create_qp_ex(e->context, &init);
	if (!e->qp)
		fail("ibv_create_qp_ex: %s", strerror(errno));
	if (init.cap.max_send_wr < options->depth || init.cap.max_recv_wr < options->depth)
		fail("ibv_create_qp_ex granted less than asked for");
	e->inline_max = init.cap.max_inline_data;
	if (options->use_wr_api)
		e->qp_ex = ibv_qp_to_qp_ex(e->qp);
}

static void modify(struct endpoint *e, struct ibv_qp_attr *attr, int mask, const char *state)
{
	int error = ibv_modify_qp(e->qp, attr, mask);

	if (error)
		fail("ibv_modify_qp to %s: %s", state, strerror(error));
}

static struct ibv_ah_attr address_of(const struct endpoint *e)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.dlid = e->theirs.lid,
		.grh = { .dgid = e->theirs.gid,
			 .sgid_index = (uint8_t)e->options->gid_index,
			 .hop_limit = 64 },
	};
}

static void move_to_init(struct endpoint *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (e->options->service == IBV_QPT_UD) {
		attr.qkey = ENDPOINT_QKEY;
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = e->options->service == IBV_QPT_RC
					       ? access_of(e->options) & ~IBV_ACCESS_LOCAL_WRITE
					       : IBV_ACCESS_REMOTE_WRITE;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	modify(e, &attr, mask, "INIT");
}

void endpoint_open(struct endpoint *e, const struct options *options, size_t bytes)
{
	*e = (struct endpoint){ .options = options, .bytes = bytes };
	e->context = endpoint_open_device();
	if (ibv_query_device(e->context, &e->device) || ibv_query_port(e->context, 1, &e->port))
		fail("query: %s", strerror(errno));
	e->pd = ibv_alloc_pd(e->context);
	e->channel = ibv_create_comp_channel(e->context);
	if (!e->pd || !e->channel)
		fail("ibv_alloc_pd, ibv_create_comp_channel: %s", strerror(errno));
	e->send_cq =
		ibv_create_cq(e->context, (int)(options->depth * op_requests(options->operation)),
			      NULL, e->channel, 0);
	e->recv_cq = ibv_create_cq(e->context, (int)options->depth, NULL, e->channel, 0);
	if (!e->send_cq || !e->recv_cq)
		fail("ibv_create_cq: %s", strerror(errno));
	e->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (e->memory == MAP_FAILED)
		fail("mmap of %zu bytes: %s", bytes, strerror(errno));
	e->mr = ibv_reg_mr(e->pd, e->memory, bytes, access_of(options));
	if (!e->mr)
		fail("ibv_reg_mr of %zu bytes: %s", bytes, strerror(errno));
	create_qp(e);
	move_to_init(e);
}

static uint8_t read_depth(int of_device)
{
	return (uint8_t)(of_device < 16 ? of_device : 16);
}

static void move_to_rtr(struct endpoint *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = e->port.active_mtu,
		.dest_qp_num = e->theirs.qpn,
		.rq_psn = e->theirs.psn,
		.max_dest_rd_atomic = read_depth(e->device.max_qp_rd_atom),
		.min_rnr_timer = 12,
		.ah_attr = address_of(e),
	};
	int mask = IBV_QP_STATE;

	if (e->options->service != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (e->options->service == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	modify(e, &attr, mask, "RTR");
}

static void move_to_rts(struct endpoint *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = e->ours.psn,
		.timeout = 16,
		.retry_cnt = 6, /* rxe retries for ever with 7 */
		.rnr_retry = 7,
		.max_rd_atomic = read_depth(e->device.max_qp_init_rd_atom),
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (e->options->service == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	modify(e, &attr, mask, "RTS");
}

void endpoint_connect(struct endpoint *e)
{
	struct ibv_ah_attr address;

	e->ours.qpn = e->qp->qp_num;
	e->ours.psn = (uint32_t)(e->options->seed * 7919 + (e->options->host ? 1 : 0)) & 0xffffff;
	e->ours.rkey = e->mr->rkey;
	e->ours.addr = (uintptr_t)e->memory;
	e->ours.lid = e->port.lid;
	if (ibv_query_gid(e->context, 1, e->options->gid_index, &e->ours.gid))
		fail("ibv_query_gid: %s", strerror(errno));
	e->fd = meet(e->options);
	meet_exchange(e->fd, &e->ours, &e->theirs, sizeof(e->ours));
	move_to_rtr(e);
	move_to_rts(e);
	if (e->options->service == IBV_QPT_UD) {
		address = address_of(e);
		e->ah = ibv_create_ah(e->pd, &address);
		if (!e->ah)
			fail("ibv_create_ah: %s", strerror(errno));
	}
	meet_barrier(e->fd);
}

/* Sleeps until there is an event on the channel. May return early. */
static void sleep_for_event(struct endpoint *e)
{
	struct pollfd waited = { .fd = e->channel->fd, .events = POLLIN };
	struct ibv_cq *of;
	void *context;

	if (poll(&waited, 1, (int)(WAIT_NS / 1000000)) <= 0)
		return;
	if (ibv_get_cq_event(e->channel, &of, &context))
		fail("ibv_get_cq_event: %s", strerror(errno));
	if (of != e->send_cq && of != e->recv_cq)
		fail("an event of an unknown CQ");
	ibv_ack_cq_events(of, 1);
}

void endpoint_wait(struct endpoint *e, struct ibv_cq *cq, struct ibv_wc *wc)
{
	int64_t deadline = now_ns() + WAIT_NS;
	bool armed = false;

	for (unsigned turn = 0;; turn++) {
		int count = ibv_poll_cq(cq, 1, wc);

		if (count < 0)
			fail("ibv_poll_cq: %d", count);
		if (count > 0)
			return;
		if (turn % 256 == 255 && now_ns() > deadline)
			fail("no completion within 20 s (%s)",
			     cq == e->send_cq ? "send" : "receive");
		if (!e->options->use_events)
			continue;
		if (armed) {
			sleep_for_event(e);
			if (now_ns() > deadline)
				fail("no event within 20 s");
		} else if (ibv_req_notify_cq(cq, 0)) {
			fail("ibv_req_notify_cq: %s", strerror(errno));
		}
		armed = !armed; /* completions before arming give no event: poll once more */
	}
}

void endpoint_wait_success(struct endpoint *e, struct ibv_cq *cq, struct ibv_wc *wc)
{
	endpoint_wait(e, cq, wc);
	if (wc->status != IBV_WC_SUCCESS)
		fail("completion of %s %llu: %s (vendor_err %u)",
		     cq == e->send_cq ? "send" : "receive", (unsigned long long)wc->wr_id,
		     ibv_wc_status_str(wc->status), wc->vendor_err);
}

static void check_destroyed(int error, const char *what)
{
	if (error)
		fail("%s: %s", what, strerror(error));
}

void endpoint_close(struct endpoint *e)
{
	if (e->ah)
		check_destroyed(ibv_destroy_ah(e->ah), "ibv_destroy_ah");
	check_destroyed(ibv_destroy_qp(e->qp), "ibv_destroy_qp");
	check_destroyed(ibv_dereg_mr(e->mr), "ibv_dereg_mr");
	check_destroyed(ibv_destroy_cq(e->send_cq), "ibv_destroy_cq");
	check_destroyed(ibv_destroy_cq(e->recv_cq), "ibv_destroy_cq");
	check_destroyed(ibv_destroy_comp_channel(e->channel), "ibv_destroy_comp_channel");
	check_destroyed(ibv_dealloc_pd(e->pd), "ibv_dealloc_pd");
	check_destroyed(ibv_close_device(e->context), "ibv_close_device");
	munmap(e->memory, e->bytes);
	close(e->fd);
}
