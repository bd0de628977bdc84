/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of shm/: the two sides of a link, QPs that wait on it, a QP's counts. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "../broken.h"
#include "shm/answer.h"
#include "shm/sendq.h"

#define FAR_SLOT 9

static struct rig rig;
static struct far far;
static char memory[64];
static struct mr *mr;
static struct qp *qp;

/* Two messages are in flight, one QP waits. */
static int setup(void **state)
{
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	mr = rig_mr(&rig, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	qp = rig_qp(&rig, IBV_QPT_RC);
	rig_connect(qp, &(struct rig_connection){
				.slot = FAR_SLOT, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 });
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_sge sge = { (uintptr_t)memory, sizeof(memory), mr->ib.lkey };
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

		rig_post_send(qp, &wr);
	}
	rig_progress(far.link);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mr_destroy(mr), 0);
	far_destroy(&far);
	rig_destroy(&rig);
	return 0;
}

static void test_sending_side(void **state)
{
	struct link *link = far.link;

	lock_acquire(&link->tx_lock);
	assert_broken(link->tx.head = link->tx.tail + 64, link_check_tx(link));
	assert_broken(link->tx.tail += RING_BYTES, link_check_tx(link));
	assert_broken(link->tx.tail++, link_check_tx(link));
	assert_broken(link->flight_tail += IN_FLIGHT_MAX, link_check_tx(link));
	assert_broken(link->in_flight[1].end = flight_position(link->tx.tail) + 1,
		      link_check_tx(link));
	assert_broken(link->in_flight[1].end = 0, link_check_tx(link)); /* not in order */
	lock_release(&link->tx_lock);
}

static void test_receiving_side(void **state)
{
	struct link *link = far.link;

	lock_acquire(&link->rx_lock);
	assert_broken(link->rx.released = link->rx.head + 64, link_check_rx(link));
	assert_broken(link->rx.head = link->rx_end + 64, link_check_rx(link));
	assert_broken(link->rx.acked = link->rx_end + 1, link_check_rx(link));
	assert_broken(link->executed = link->rx_end + 1, link_check_rx(link));
	assert_broken(link->rx.head = link->rx_end = RING_BYTES, link_check_rx(link));
	lock_release(&link->rx_lock);
}

static void test_waiting(void **state)
{
	struct link *link = far.link;
	struct shm_qp *lq = shm_of(qp);

	lock_acquire(&link->wait_lock);
	assert_broken(link->blocked_count++, link_check_waiting(link));
	assert_broken(list_add_tail(&link->answering, &lq->answering_node),
		      link_check_waiting(link));
	assert_broken(link->turned.next = &lq->blocked_node, link_check_waiting(link));
	lock_release(&link->wait_lock);
}

static void test_qp(void **state)
{
	struct shm_qp *lq = shm_of(qp);

	lock_acquire(&qp->lock);
	assert_int_equal(lq->unacked, 2);
	assert_broken(lq->unacked--, shm_sendq_check(lq));
	assert_broken(lq->reads++, shm_sendq_check(lq));
	assert_broken(lq->failure.pending = true, shm_sendq_check(lq));
	assert_broken(lq->response_tail += lq->response_slots + 1, shm_answer_check(lq));
	assert_broken(lq->response_limit = lq->response_slots + 1, shm_answer_check(lq));
	assert_broken(qp->sq.issue = qp->sq.tail + 1, shm_sendq_check(lq));
	lock_release(&qp->lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		TEST(sending_side),
		TEST(receiving_side),
		TEST(waiting),
		TEST(qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
