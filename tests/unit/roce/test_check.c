/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of roce/: send queue, timers, windows, responder, responses, bursts. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "../broken.h"
#include "packet/kept.h"
#include "roce/burst.h"
#include "roce/congestion.h"
#include "roce/read_repair.h"
#include "roce/repair.h"
#include "roce/responder.h"
#include "roce/response.h"
#include "roce/retransmit.h"
#include "roce/sendq.h"

#define BYTES  16384
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
static struct roce_qp *ta, *tb;

/* One message has arrived; a WRITE and a READ are in flight. */
static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	pair_connect(IBV_QPT_RC, &(struct rig_options){ .access = ACCESS,
							.mtu = IBV_MTU_1024,
							.timeout = 14,
							.retry_cnt = 7,
							.rnr_retry = 7,
							.rd_atomic = 4,
							.psn = 0xfffffd });
	ta = roce_of(a);
	tb = roce_of(b);
	pair_post(IBV_WR_RDMA_WRITE, 64, 1);
	rig_run(rig_now_ns);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_post(IBV_WR_RDMA_WRITE, 4096, 2);
	pair_post(IBV_WR_RDMA_READ, 4096, 3);
	assert_int_equal(sendq_in_flight(ta), 8);
	return 0;
}

static int finish(void **state)
{
	rig_run(rig_now_ns);
	pair_expect(2, IBV_WC_SUCCESS);
	pair_expect(3, IBV_WC_SUCCESS);
	return pair_teardown(state);
}

static void test_send_queue(void **state)
{
	struct wqe *write = sq_wqe(&a->sq, a->sq.head);
	psn_t una = ta->una_psn, next = ta->next_psn;

	assert_broken(ta->una_psn = psn_add(next, 1), sendq_check(ta));
	assert_broken(ta->max_psn = una, sendq_check(ta));
	assert_broken(ta->next_psn = ta->max_psn = psn_add(una, 2 * ta->window.most + KEPT_PSNS),
		      sendq_check(ta));
	assert_broken(write->begun = 0, sendq_check(ta));
	assert_broken(write->end_psn = psn_add(next, 1), sendq_check(ta));
	assert_broken(write->end_psn = una, sendq_check(ta));
	assert_broken(ta->failure.pending = true, sendq_check(ta));
	assert_broken(ta->outstanding_tail += a->attr.max_rd_atomic, sendq_check(ta));
	assert_broken(ta->outstanding[0].end = psn_add(next, 1), sendq_check(ta));
	finish(state);
}

static void test_timers(void **state)
{
	assert_broken(ta->timer_ns = ta->probe_ns + 1, retransmit_check(ta));
	assert_broken(ta->probe_ns = 0, retransmit_check(ta));
	assert_broken(ta->state = REQUESTER_RNR_WAIT, retransmit_check(ta));
	finish(state);
}

static void test_windows(void **state)
{
	assert_broken(ta->window.size = 0, congestion_check(ta));
	assert_broken(ta->window.size = ta->window.max + 1, congestion_check(ta));
	assert_broken(ta->window.counted = ta->window.size, congestion_check(ta));
	/* without a window */
	assert_broken(ta->response_pace.bounded = true, congestion_check(ta));
	finish(state);
}

static void test_responder(void **state)
{
	while (tb->responses.head == tb->responses.tail) /* until it has executed the READ */
		assert_true(rig_step_more());
	assert_broken(tb->msn = 1 << 24, responder_check(tb));
	assert_broken(tb->held = 1, responder_check(tb)); /* no WRITE is under way */
	assert_broken((tb->in_message = true, tb->message_kind = OPERATION_READ),
		      responder_check(tb));
	assert_broken(tb->responses.tail += LIMIT_QP_RD_ATOM, response_check(tb));
	assert_broken(tb->responses.entries[0].left += 4096, response_check(tb));
	assert_broken(tb->expected_psn = tb->responses.entries[0].psn, response_check(tb));
	assert_broken(tb->nak.final = true, response_check(tb));
	roce_flush();
	finish(state);
}

/* A walk over all that is kept is made now and then only. */
static void check_all_kept(void)
{
	for (int i = 0; i < 100; i++)
		kept_check(tb->kept, tb->expected_psn, 0);
}

static void test_read_repair(void **state)
{
	struct read_repair *repair = &ta->read_repair;

	read_repair_check(ta);
	assert_broken(repair->pending = true, read_repair_check(ta));
	assert_broken(repair->run = 1, read_repair_check(ta));
	assert_broken(repair->tries = 100, read_repair_check(ta));
	assert_broken(repair->misses = 100, read_repair_check(ta));
	assert_broken((repair->open = true, repair->seen = psn_add(ta->max_psn, 1)),
		      read_repair_check(ta));
	assert_broken((repair->open = true, repair->anew = psn_add(ta->una_psn, 1)),
		      read_repair_check(ta));
	finish(state);
}

static void test_kept(void **state)
{
	static const uint8_t payload[1024];
	struct packet packet = { .opcode = 0x07,
				 .payload_bytes = sizeof(payload),
				 .psn = psn_of(20) };

	packet.payload = payload;
	kept_add(&tb->kept, tb->expected_psn, &packet);
	check_all_kept();
	assert_broken(tb->kept->bytes = KEPT_BYTES_MAX + 1,
		      kept_check(tb->kept, tb->expected_psn, 0));
	assert_broken(tb->kept->count = KEPT_PSNS + 1, kept_check(tb->kept, tb->expected_psn, 0));
	assert_broken(tb->kept->count++, check_all_kept());
	assert_broken(tb->kept->bytes--, check_all_kept());
	assert_broken(tb->kept->packets[20]->packet.psn = psn_of(21), check_all_kept());
	assert_broken(tb->kept->last = psn_of(19), check_all_kept());
	assert_broken(tb->expected_psn = psn_of(20), check_all_kept());
	kept_drop_all(tb->kept);
	finish(state);
}

static void test_repair(void **state)
{
	repair_check(ta);
	assert_broken(ta->repair.pending = true, repair_check(ta));
	assert_broken(ta->repair.run = REPAIR_RUN_MAX + 1, repair_check(ta));
	assert_broken(ta->repair.tries = REPAIR_TRIES + 1, repair_check(ta));
	assert_broken((ta->repair.open = true, ta->repair.end = ta->una_psn), repair_check(ta));
	assert_broken((ta->repair.open = true, ta->repair.end = psn_add(ta->max_psn, 1)),
		      repair_check(ta));
	finish(state);
}

static void test_burst(void **state)
{
	struct burst *burst = burst_get(&ta->flow);
	struct packet header = { .opcode = (uint8_t)packet_find_opcode(PACKET_RC, PACKET_ACK, true,
								       true, 0) };

	for (unsigned i = 0; i < 3; i++)
		burst_add(burst, &header);
	assert_broken(burst->count++, burst_check(burst));
	assert_broken(burst->batch.bytes++, burst_check(burst));
	assert_broken(burst->packets[1].payload_bytes += 4, burst_check(burst));
	assert_broken(burst->first_end = 3, burst_check(burst));
	burst_put(burst);
	finish(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_send_queue, setup),
		cmocka_unit_test_setup(test_timers, setup),
		cmocka_unit_test_setup(test_windows, setup),
		cmocka_unit_test_setup(test_responder, setup),
		cmocka_unit_test_setup(test_kept, setup),
		cmocka_unit_test_setup(test_read_repair, setup),
		cmocka_unit_test_setup(test_repair, setup),
		cmocka_unit_test_setup(test_burst, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
