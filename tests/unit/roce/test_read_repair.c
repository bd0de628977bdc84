/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selective repeat of responses, at the requester: it keeps what is behind a lost one, and asks for
 * that alone; what fills the gap is of the original execution, or it goes back.
 */
#include "read_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "execute/copies.h"
#include "packet/kept.h"
#include "roce/read_repair.h"
#include "roce/responder.h"

#define STEPS_MAX 10000 /* of a loop until something happens */

/* The first loss shows that there are no copies, the second makes it go back at once. */
static void test_first_losses(void **state)
{
	lose_response[3] = lose_response[19] = lose_response[35] = 1;
	for (uint64_t i = 0; i < 3; i++) {
		pair_post_at(IBV_WR_RDMA_READ, (uint32_t)i * 16 * MTU, 16 * MTU, i, 0);
		run_us(900);
		expect(i, i + 1);
		assert_int_equal(asked, i < 2 ? 1 : 2);
		assert_int_equal(counted(COUNTER_WENT_BACK), i < 2 ? i + 1 : 2);
	}
	check_order(48 * MTU);
	assert_true(roce_of(a)->read_repair.trusted);
	assert_int_equal(counted(COUNTER_PROBES), 0);
}

/* One response is lost: that one comes again, as it was, and nothing else; the window knows. */
static void test_single_loss(void **state)
{
	uint32_t size;

	get_acquainted();
	size = roce_of(a)->window.size;
	lose_response[1 + 5] = 1;
	post_reads(2, 10);
	run_us(900);
	expect(1, 3);
	check_order(20 * MTU);
	assert_int_equal(asked, 1);
	assert_int_equal(asked_packets, 1);
	assert_int_equal(responses[1 + 5], 2);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(responses[1 + i], i == 5 ? 2 : 1);
	assert_int_equal(counted(COUNTER_WENT_BACK), 0);
	assert_int_equal(counted(COUNTER_KEPT), 14);
	assert_in_range(roce_of(a)->window.size, size - 1, roce_of(a)->window.max);
	assert_false(kept_any(roce_of(a)->read_repair.kept));
	assert_false(roce_of(a)->read_repair.open);
}

/* Several gaps, one from one READ to the next: a request for each row and READ. PSNs wrap. */
static void test_several_losses(void **state)
{
	static const unsigned lost[] = { 2, 8, 9, 10, 11, 17, 25 };

	get_acquainted();
	for (unsigned i = 0; i < sizeof(lost) / sizeof(*lost); i++)
		lose_response[1 + lost[i]] = 1;
	post_reads(3, 10);
	run_us(900);
	expect(1, 4);
	check_order(30 * MTU);
	assert_int_equal(asked, 5);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(responses[1 + i], 1 + lose_response[1 + i]);
	assert_int_equal(counted(COUNTER_WENT_BACK), 0);
}

/* What is kept is not on its way: as many packets more are. */
static void test_window_of_kept(void **state)
{
	get_acquainted();
	roce_of(a)->window.size = roce_of(a)->window.threshold = 20;
	lose_response[1 + 5] = 2;
	post_reads(20, 10);
	for (unsigned i = 0; i < 200; i++) {
		if (!rig_step())
			roce_flush();
	}
	assert_true(roce_of(a)->read_repair.open);
	assert_true(responses[60]); /* 16 pieces of 4 packets may be outstanding */
	run_us(900);
	expect(1, 21);
	check_order(200 * MTU);
}

/* The answer is lost, too: a timer asks again for all that is missing. */
static void test_lost_again(void **state)
{
	get_acquainted();
	lose_response[1 + 3] = lose_response[1 + 7] = lose_response[1 + 12] = 2;
	post_reads(2, 10);
	run_us(200);
	expect(1, 3);
	check_order(20 * MTU);
	assert_in_range(asked, 5, 6);
	assert_int_equal(counted(COUNTER_WENT_BACK) + counted(COUNTER_PROBES), 0);
}

/* Some losses at random, and READs that other requests are between. */
static void lose_at_random(unsigned one_in)
{
	srand(7);
	for (unsigned i = 1; i < MANY; i++) {
		lose_response[i] = rand() % one_in ? 0 : 1 + rand() % 2;
		lose_request[i] = rand() % one_in ? 0 : 1;
	}
}

static void run_many(void)
{
	for (unsigned i = 0; i < 20; i++)
		pair_post_at(IBV_WR_RDMA_READ, i * 10 * MTU, 10 * MTU, i + 1, 0);
	run_us(3000000);
	expect(1, 21);
	check_order(200 * MTU);
}

static void test_many_losses(void **state)
{
	get_acquainted();
	lose_at_random(8);
	run_many();
}

/* The end that knows nothing of it costs a request now and then, and the order stays. */
static void test_foreign_responder(void **state)
{
	foreign = true;
	lose_at_random(8);
	run_many();
	assert_in_range(asked, 1, 8);
	assert_false(roce_of(a)->read_repair.trusted);
	assert_null(roce_of(b)->copies);
}

/* So does the end that marks whatever it sends: from its first response on it is known. */
static void test_responder_that_marks_all(void **state)
{
	foreign = marks_all = true;
	lose_at_random(8);
	run_many();
	assert_int_equal(asked, 0);
	assert_true(roce_of(a)->read_repair.distrusted);
}

/* A response that another one overtook closes the gap, unless it was asked for. */
static void test_reordering(void **state)
{
	struct packet late;
	uint8_t data[MTU];

	get_acquainted();
	for (int round = 0; round < 2; round++) {
		uint32_t first = 1 + (uint32_t)round * 10;

		lose_response[first + 4] = 1;
		pair_post_at(IBV_WR_RDMA_READ, (uint32_t)round * 10 * MTU, 10 * MTU,
			     (uint64_t)round, 0);
		rig_step();
		roce_flush();
		late = rig_peek(4);
		memcpy(data, late.payload, MTU);
		late.payload_bytes = MTU;
		for (int i = 0; i < 10; i++)
			rig_step();
		assert_true(roce_of(a)->read_repair.pending);
		if (round) {
			roce_flush(); /* asks */
			lose_request[first + 4] = UINT32_MAX;
			rig_step();
			lose_request[first + 4] = 0;
		}
		rig_inject(b, &late, data);
		run_us(900);
		expect((uint64_t)round, (uint64_t)round + 1);
		assert_int_equal(counted(COUNTER_WENT_BACK), round);
	}
	check_order(20 * MTU);
	assert_int_equal(counted(COUNTER_PROBES), 0);
}

/* Eight READs of one packet are through after so long, without going back. */
static void expect_reads_within(uint64_t ns)
{
	uint64_t end = rig_now_ns + ns;

	post_reads(8, 1);
	while (rig_now_ns < end)
		run_us(1);
	expect(1, 9);
	check_order(8 * MTU);
	assert_int_equal(counted(COUNTER_WENT_BACK) + counted(COUNTER_PROBES), 0);
}

/* Lost READ requests, with others behind them: a round trip each. */
static void test_lost_requests(void **state)
{
	get_acquainted();
	lose_request[1] = lose_request[3] = lose_request[5] = 1;
	expect_reads_within(40000);
}

/* And with none behind them: one time-out for all, and no probe. */
static void test_lost_last_requests(void **state)
{
	get_acquainted();
	for (unsigned i = 0; i < 8; i++)
		lose_request[1 + i] = 1;
	expect_reads_within(250000);
	assert_int_equal(asked, 8);
}

/* Atomics and WRITEs between READs, one FENCE: in order, and executed once. */
static void test_other_requests(void **state)
{
	uint64_t *word = (uint64_t *)(there + 64 * MTU), *result = (uint64_t *)(here + 64 * MTU);

	rig_on_packet = NULL;
	get_acquainted();
	rig_on_packet = on_packet;
	lose_response[1 + 2] = lose_response[4] = lose_response[9] = 1;
	pair_post_at(IBV_WR_RDMA_READ, 0, 3 * MTU, 1, 0);	      /* 1 to 3 */
	pair_post_at(IBV_WR_ATOMIC_FETCH_AND_ADD, 64 * MTU, 8, 2, 0); /* 4 */
	pair_post_at(IBV_WR_RDMA_WRITE, 100 * MTU, 2 * MTU, 3, 0);    /* 5, 6 */
	pair_post_at(IBV_WR_RDMA_READ, 3 * MTU, 3 * MTU, 4, 0);	      /* 7 to 9 */
	pair_post_at(IBV_WR_RDMA_WRITE, 102 * MTU, 2 * MTU, 5, 0); /* 10, 11: their ACK is kept */
	run_us(900);
	expect(1, 6);
	check_order(6 * MTU);
	assert_int_equal(*result >> 32, (uint32_t)*result); /* of one version, before the 1 */
	assert_true(*word >= *result);
	assert_int_equal(counted(COUNTER_WENT_BACK) + counted(COUNTER_PROBES), 0);
	assert_int_equal(asked, 3);
}

/* What is kept and copied does not outlive the connection. */
static void test_end_of_connection(void **state)
{
	get_acquainted();
	lose_response[1] = 1;
	post_reads(2, 10);
	rig_step();
	rig_step();
	roce_flush();
	while (rig_waiting() > 1)
		rig_step();
	assert_true(kept_any(roce_of(a)->read_repair.kept));
	assert_non_null(roce_of(b)->copies);
	rig_modify(a, IBV_QPS_ERR);
	rig_modify(b, IBV_QPS_RESET);
	assert_null(roce_of(a)->read_repair.kept);
	assert_null(roce_of(b)->copies);
	pair_expect(1, IBV_WC_WR_FLUSH_ERR);
	pair_expect(2, IBV_WC_WR_FLUSH_ERR);
}

/* The network brings a READ request twice: it is executed anew, behind later ones. */
static void duplicate(bool trusted)
{
	const struct packet again = {
		.opcode = READ_REQUEST,
		.psn = psn(11),
		.va = (uintptr_t)there + 10 * MTU,
		.rkey = there_mr->ib.rkey,
		.length = 10 * MTU,
	};

	get_acquainted();
	roce_of(a)->read_repair.trusted = trusted;
	lose_response[1] = lose_response[15] = 1;
	post_reads(3, 10);
	for (int i = 0; i < 3; i++)
		rig_step();
	roce_flush();
	assert_int_equal(rig_waiting(), 30);
	rig_inject(a, &again, NULL);
	for (int i = 0; i < 30; i++)
		rig_step();
	if (trusted) { /* the answer is in the same batch of packets */
		rig_step();
		responder_flush(roce_of(b));
		while (rig_waiting())
			rig_step();
	}
	run_us(3000);
	expect(1, 4);
	check_order(30 * MTU);
}

static void test_duplicate_untrusted(void **state)
{
	duplicate(false);
}

static void test_duplicate_trusted(void **state)
{
	duplicate(true);
}

/* A WRITE is overtaken. It comes before it is repaired, and what is missing then is a response. */
static void test_overtaken_request(void **state)
{
	struct packet late;
	uint8_t data[MTU];

	get_acquainted();
	roce_of(a)->read_repair.trusted = false;
	lose_request[1] = 1;
	lose_response[2] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 200 * MTU, MTU, 1, 0); /* 1 */
	pair_post_at(IBV_WR_RDMA_READ, 0, 10 * MTU, 2, 0);     /* 2 to 11 */
	pair_post_at(IBV_WR_RDMA_READ, 10 * MTU, 10 * MTU, 3, 0);
	assert_int_equal(rig_waiting(), 3);
	late = rig_peek(0);
	memcpy(data, late.payload, MTU);
	late.payload_bytes = MTU;
	for (int i = 0; i < 3; i++)
		rig_step();	     /* lost; kept; kept */
	responder_flush(roce_of(b)); /* NAK */
	rig_inject(a, &late, data);
	assert_int_equal(rig_waiting(), 2);
	rig_step(); /* a: NAK */
	assert_true(roce_of(a)->repair.pending);
	rig_step(); /* b: the WRITE, and the READs behind it */
	responder_flush(roce_of(b));
	assert_int_equal(rig_waiting(), 20);
	for (int i = 0; i < 20; i++)
		rig_step();
	assert_true(roce_of(a)->repair.pending);
	roce_flush();
	assert_true(roce_of(a)->read_repair.open);
	assert_false(roce_of(a)->repair.open);
	assert_int_equal(rig_waiting(), 1); /* does not go back, but asks */
	run_us(3000);
	expect(1, 4);
	check_order(20 * MTU);
}

/* An end that knows nothing of the bits, but answers with those of the request. */
static void test_responder_that_echoes(void **state)
{
	foreign = echoes = true;
	lose_response[4] = 1;
	post_reads(3, 10);
	run_us(3000);
	expect(1, 4);
	assert_null(roce_of(b)->copies);
	assert_false(roce_of(a)->read_repair.trusted);
	check_order(30 * MTU);
}

static void inject_response(const struct packet *packet, const uint8_t *data)
{
	struct packet late = *packet;

	late.payload_bytes = MTU;
	rig_inject(b, &late, data);
}

/* Lets all that waits be lost: so many requests, by PSN. */
static unsigned lose_all(unsigned counts[MANY])
{
	unsigned waiting = rig_waiting();

	memset(counts, 0, MANY * sizeof(*counts));
	for (uint32_t i = 0; i < waiting; i++)
		counts[index_of(rig_peek(i).psn)]++;
	for (unsigned i = 0; i < MANY; i++)
		lose_request[i] = UINT32_MAX;
	while (rig_waiting())
		rig_step();
	return waiting;
}

/* More gaps than a burst takes requests for; and all are asked for again, each once. */
static void test_many_rows(void **state)
{
	static unsigned counts[MANY];
	static uint8_t data[MTU];
	struct packet response = { .opcode = 0x0e /* READ response, MIDDLE */ };

	get_acquainted();
	roce_of(a)->window.size = roce_of(a)->window.max;
	post_reads(7, 20);
	assert_int_equal(lose_all(counts), 7);
	for (unsigned i = 2; i <= 140; i += 2) {
		response.psn = psn(i);
		inject_response(&response, data);
		rig_step();
	}
	for (int round = 0; round < 2; round++) {
		roce_flush();
		roce_flush();
		assert_int_equal(lose_all(counts), 70);
		for (unsigned i = 1; i <= 140; i += 2)
			assert_int_equal(counts[i], 1);
		assert_true(read_repair_again(roce_of(a)));
	}
}

/* A copy comes late, after the requester went back and has newer responses. */
static void test_late_copy(void **state)
{
	struct packet overtaken, copy;
	uint8_t overtaken_data[MTU], copy_data[MTU];

	get_acquainted();
	lose_response[1 + 3] = lose_response[1 + 7] = 2;
	post_reads(2, 10);
	rig_step();
	rig_step();
	roce_flush();
	overtaken = rig_peek(3);
	memcpy(overtaken_data, overtaken.payload, MTU);
	while (rig_waiting())
		rig_step();
	roce_flush(); /* asks */
	for (unsigned i = 0;
	     !responses[1] || rig_waiting() != 2 || rig_peek(0).opcode == READ_REQUEST; i++) {
		assert_in_range(i, 0, STEPS_MAX);
		rig_step();
		responder_flush(roce_of(b));
	}
	copy = rig_peek(1);
	assert_true(copy.original && copy.psn.number == psn(1 + 7).number);
	memcpy(copy_data, copy.payload, MTU);
	rig_step();
	rig_step();
	inject_response(&overtaken, overtaken_data); /* it was asked for: goes back */
	rig_step();
	assert_int_equal(counted(COUNTER_WENT_BACK), 1);
	roce_flush();
	while (rig_waiting() && roce_of(a)->una_psn.number != psn(1 + 7).number) {
		rig_step();
		responder_flush(roce_of(b));
	}
	lose_response[1 + 7] = UINT32_MAX; /* all that is on the way, or */
	while (rig_waiting())
		rig_step();
	lose_response[1 + 7] = 0;
	inject_response(&copy, copy_data);
	run_us(3000);
	expect(1, 3);
	check_order(20 * MTU);
}

/*
 * The requester went back. Of the repeated requests one is lost, of which there are copies yet: a
 * loss there makes it go back again.
 */
static bool trust_when_repeated(struct rig_packet *packet, struct packet *decoded)
{
	if (decoded->dest_qpn == b->ib.qp_num && requests[1])
		roce_of(a)->read_repair.trusted = true;
	return on_packet(packet, decoded);
}

static void test_loss_behind_going_back(void **state)
{
	get_acquainted();
	roce_of(a)->read_repair.trusted = false;
	lose_response[1] = lose_response[2] = lose_response[3] = 1;
	post_reads(3, 1);
	while (rig_waiting())
		rig_step();
	roce_flush();
	while (rig_waiting())
		rig_step();
	assert_int_equal(requests[3], 1);
	lose_request[2] = 2; /* that of going back */
	rig_on_packet = trust_when_repeated;
	run_us(3000);
	expect(1, 4);
	check_order(3 * MTU);
	assert_int_equal(counted(COUNTER_PROBES), 1);
	assert_true(counted(COUNTER_WENT_BACK) >= 1);
	assert_int_equal(requests[2], 3);
	assert_int_equal(asked, 0);
}

/* Answers that are no responses are kept as well, and have their effect at their turn. */
static void behind_a_gap(enum ibv_wr_opcode opcode, uint32_t offset, bool with_key)
{
	get_acquainted();
	lose_response[1 + 4] = 2;
	pair_post_at(IBV_WR_RDMA_READ, 0, 10 * MTU, 1, 0);
	there_mr->ib.rkey ^= !with_key;
	pair_post_at(opcode, offset, MTU, 2, 0);
	there_mr->ib.rkey ^= !with_key;
	rig_step();
	rig_step();
	roce_flush();
	while (rig_waiting())
		rig_step();
}

static void test_rnr_nak_behind_a_gap(void **state)
{
	struct ibv_sge sge = { (uintptr_t)there + 128 * MTU, MTU, there_mr->ib.lkey };

	behind_a_gap(IBV_WR_SEND, 0, true);
	assert_non_null(roce_of(a)->read_repair.ack);
	assert_int_equal(counted(COUNTER_RCVD_RNR_ERR), 0);
	run_us(400);
	expect(1, 2);
	assert_true(counted(COUNTER_RCVD_RNR_ERR) >= 1);
	rig_post_receive(b, 3, &sge);
	run_us(3000);
	assert_int_equal(rig_completion(&rig).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_completion(&rig).status, IBV_WC_SUCCESS);
	check_order(10 * MTU);
	assert_int_equal(counted(COUNTER_PROBES), 0);
}

/* The responder's QP has failed, and answers no more: nothing stays kept. */
static void test_refusal_behind_a_gap(void **state)
{
	behind_a_gap(IBV_WR_RDMA_WRITE, 0, false);
	run_us(10000);
	pair_expect(1, IBV_WC_RETRY_EXC_ERR);
	pair_expect(2, IBV_WC_WR_FLUSH_ERR);
	assert_true(rig_is_quiet(&rig));
	assert_null(roce_of(a)->read_repair.kept);
	assert_null(roce_of(a)->read_repair.ack);
}

/* A QP that is drained repairs what is in flight. */
static void test_drained(void **state)
{
	behind_a_gap(IBV_WR_RDMA_READ, 10 * MTU, true);
	assert_true(roce_of(a)->read_repair.open);
	rig_modify(a, IBV_QPS_SQD);
	pair_post_at(IBV_WR_RDMA_READ, 20 * MTU, MTU, 3, 0);
	run_us(3000);
	expect(1, 3);
	check_order(11 * MTU);
	assert_int_equal(counted(COUNTER_WENT_BACK) + counted(COUNTER_PROBES), 0);
	rig_modify(a, IBV_QPS_RTS);
	run_us(100);
	expect(3, 4);
}

static bool lose_requests_with_bit(struct rig_packet *packet, struct packet *decoded)
{
	if (decoded->dest_qpn == b->ib.qp_num && decoded->original)
		return false;
	return on_packet(packet, decoded);
}

static void run_until_una(psn_t psn)
{
	for (unsigned i = 0; psn_before(roce_of(a)->una_psn, psn); i++) {
		assert_in_range(i, 0, STEPS_MAX);
		run_us(20);
	}
}

/* A responder, or a firewall, that drops requests with the bit: they are soon sent seldom. */
static void test_silence_at_the_bit(void **state)
{
	uint64_t begin = rig_now_ns;

	rig_on_packet = lose_requests_with_bit;
	for (unsigned i = 0; i < 20; i++) {
		lose_response[index_of(roce_of(a)->next_psn) + 3] = 1;
		post_reads(4, 10);
		run_until_una(psn(40 * (i + 1)));
		expect(1, 5);
	}
	/* in vain each time it would be 1280 us a loss; going back takes 100 to 200 */
	assert_true(rig_now_ns - begin < 10000000);
}

/* A request of a READ that is overtaken: what comes in order at last is no reason to go back. */
static void test_late_request(void **state)
{
	get_acquainted();
	for (unsigned round = 0; round < 4; round++) {
		struct packet late;

		lose_request[1 + 3 * round] = 1;
		post_reads(3, 1);
		if (!rig_waiting())
			roce_flush();
		late = rig_peek(0);
		for (unsigned i = 0; i < 3; i++)
			rig_step();
		responder_flush(roce_of(b)); /* a NAK */
		rig_inject(a, &late, NULL);
		run_us(3000);
		expect(1, 4);
		assert_int_equal(counted(COUNTER_WENT_BACK), 0);
		assert_true(roce_of(a)->read_repair.trusted);
	}
}

/* The copies of the first READs are gone, as if later ones had taken their room. */
static void evict_before(psn_t psn)
{
	struct copies *copies = roce_of(b)->copies;

	while (psn_before(copies->reads[copies->head % COPIES_PSNS].psn, psn))
		copies->from += copies->reads[copies->head++ % COPIES_PSNS].bytes;
}

/* Until the first packet that waits is a response with this PSN. */
static void run_until_response(psn_t psn)
{
	while (rig_waiting() &&
	       !(rig_peek(0).opcode != READ_REQUEST && psn_equal(rig_peek(0).psn, psn))) {
		rig_step();
		responder_flush(roce_of(b));
	}
}

/*
 * Responses to READs 1 and 2, of `packets` each, are lost, and READ 3 is kept. Both are asked for:
 * READ 2 is repeated from the copy, and the repetition is late; READ 1, whose copy is gone, is
 * executed anew, which makes the requester go back. The late copy must not come behind it.
 */
static void run_late_copy(uint32_t packets, bool after_probe)
{
	psn_t second = psn(1 + packets);
	struct packet copy;
	uint8_t data[MTU];

	get_acquainted();
	for (uint32_t i = 1; i < 1 + 2 * packets; i++)
		lose_response[i] = 1;
	post_reads(3, packets);
	for (unsigned i = 0;
	     !rig_waiting() || rig_peek(0).opcode != READ_REQUEST || !rig_peek(0).original; i++) {
		assert_in_range(i, 0, STEPS_MAX);
		if (rig_waiting())
			rig_step();
		roce_flush();
		responder_flush(roce_of(b));
	}
	roce_flush();
	evict_before(second);
	lose_request[1] = requests[1] + 1;
	run_until_response(second);
	copy = rig_peek(0);
	assert_true(copy.original);
	memcpy(data, copy.payload, MTU);
	for (uint32_t i = index_of(second); i < MANY; i++)
		lose_response[i] = UINT32_MAX;
	run_until_una(second);
	for (unsigned i = 0; after_probe && !roce_of(a)->backoff; i++) {
		assert_in_range(i, 0, STEPS_MAX);
		run_us(50);
	}
	inject_response(&copy, data);
	memset(lose_response, 0, sizeof(lose_response));
	memset(lose_request, 0, sizeof(lose_request));
	run_us(30000);
	expect(1, 4);
	check_order(3 * packets * MTU);
}

static void test_late_copy_behind_a_failed_repair(void **state)
{
	run_late_copy(1, false);
}

static void test_late_copy_behind_a_probe(void **state)
{
	run_late_copy(2, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, read_setup, pair_teardown)
		TEST(first_losses),
		TEST(silence_at_the_bit),
		TEST(late_request),
		TEST(late_copy_behind_a_failed_repair),
		TEST(late_copy_behind_a_probe),
		TEST(single_loss),
		TEST(several_losses),
		TEST(window_of_kept),
		TEST(lost_again),
		TEST(many_losses),
		TEST(foreign_responder),
		TEST(responder_that_marks_all),
		TEST(reordering),
		TEST(lost_requests),
		TEST(lost_last_requests),
		TEST(other_requests),
		TEST(end_of_connection),
		TEST(duplicate_untrusted),
		TEST(duplicate_trusted),
		TEST(overtaken_request),
		TEST(responder_that_echoes),
		TEST(many_rows),
		TEST(late_copy),
		TEST(loss_behind_going_back),
		TEST(rnr_nak_behind_a_gap),
		TEST(refusal_behind_a_gap),
		TEST(drained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
