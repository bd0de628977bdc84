/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The next process after a death gets the dead one's slot (daemon/slots.h), and QP numbers that
 * could have been the dead one's. A peer that has not had the notice of the death still connects
 * with the new owner.
 */
#include "harness.h"

#include <infiniband/verbs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"

#define ROUNDS 30

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint64_t word;
};

static void open_end(struct end *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0]);
	CHECK((e->context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK((e->pd = ibv_alloc_pd(e->context)));
	CHECK((e->cq = ibv_create_cq(e->context, 8, NULL, NULL, 0)));
	CHECK((e->mr = ibv_reg_mr(e->pd, &e->word, sizeof(e->word), IBV_ACCESS_LOCAL_WRITE)));
}

static uint32_t make_qp(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = { 4, 4, 1, 1, 8 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_sge sge = { (uintptr_t)&e->word, sizeof(e->word), e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK((e->qp = ibv_create_qp(e->pd, &init)));
	CHECK(!ibv_modify_qp(e->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_post_recv(e->qp, &wr, &bad));
	return e->qp->qp_num;
}

static void connect_to(struct end *e, uint32_t qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 1 },
	};

	CHECK(!ibv_query_gid(e->context, 1, 0, &attr.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(e->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.timeout = 18; /* the other end may have to wait for a processor */
	CHECK(!ibv_modify_qp(e->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void send_word(struct end *e)
{
	uint64_t word = 1;
	struct ibv_sge sge = { (uintptr_t)&word, sizeof(word), 0 };
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE },
			   *bad;

	CHECK(!ibv_post_send(e->qp, &wr, &bad));
}

/* Both words, of this end and the other, have come. */
static enum ibv_wc_status exchange(struct end *e)
{
	int64_t end_ms = now_ms() + PATIENCE_MS;
	struct ibv_wc wc;

	send_word(e);
	for (int i = 0; i < 2;) {
		int n = ibv_poll_cq(e->cq, 1, &wc);

		CHECK(n >= 0 && now_ms() < end_ms);
		if (n && wc.status)
			return wc.status;
		i += n;
	}
	return IBV_WC_SUCCESS;
}

/* Connects with the given peers, and reports the status, until it gets 0. */
static void survivor(int fd)
{
	struct end e = { 0 };
	uint64_t qpn;

	open_end(&e);
	for (;;) {
		say(fd, make_qp(&e));
		qpn = hear(fd);
		if (!qpn)
			return;
		connect_to(&e, (uint32_t)qpn);
		say(fd, 0);
		hear(fd);
		say(fd, exchange(&e));
		CHECK(!ibv_destroy_qp(e.qp));
	}
}

/* One connection; then it waits for its death. */
static void mortal(int fd)
{
	struct end e = { 0 };

	open_end(&e);
	say(fd, make_qp(&e));
	connect_to(&e, (uint32_t)hear(fd));
	say(fd, 0);
	hear(fd);
	CHECK(exchange(&e) == IBV_WC_SUCCESS);
	hear(fd);
}

static void suspend(pid_t pid)
{
	int status;

	CHECK(!kill(pid, SIGSTOP));
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

/*
 * The survivor is stopped while one peer dies and the next comes, so that it learns of the death
 * and of the new owner at the same moment.
 */
static void test_connects_with_the_new_owner(void **state)
{
	struct worker here, there;
	unsigned reused = 0;
	uint32_t slot = 0;
	uint64_t qpn;

	setenv("VERBATIM_DEVICES", "lo", 1);
	worker_start(&here, survivor);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t own = hear(here.fd);

		if (round)
			suspend(here.pid);
		if (round)
			worker_kill(&there);
		worker_start(&there, mortal);
		qpn = hear(there.fd);
		reused += qpn >> ARENA_QP_BITS == slot;
		slot = (uint32_t)(qpn >> ARENA_QP_BITS);
		say(there.fd, own);
		say(here.fd, qpn);
		if (round)
			CHECK(!kill(here.pid, SIGCONT));
		/* Together: what comes before RTR is sent again after the time-out only. */
		hear(here.fd);
		hear(there.fd);
		say(here.fd, 0);
		say(there.fd, 0);
		assert_int_equal(hear(here.fd), IBV_WC_SUCCESS);
	}
	assert_int_equal(reused, ROUNDS - 1);
	hear(here.fd);
	say(here.fd, 0);
	worker_end(&here);
	worker_kill(&there);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_connects_with_the_new_owner, harness_setup,
						harness_teardown),
	};

	signal(SIGCHLD, SIG_DFL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
