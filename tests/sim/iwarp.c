/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP sim - the iWARP engine on a virtual byte stream that cuts at any byte, from a seed.
 *
 *     iwarp_sim --seeds FROM-TO     prints how many passed; ends at the first that does not
 *     iwarp_sim --seed N -v         repeats one, with a line per step
 *
 * Both ends post SENDs, WRITEs (with immediate data), READs and atomics, each with places of its
 * own in both regions. In a third of the seeds a mishap ends the connection. The oracle: requests
 * and receives complete once and in order; data is there whenever a completion says so; after the
 * first completion with error there is no success; nothing is stored outside of the places.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/iwarp/rig.h"
#include "random.h"

#define OPS   32 /* of an end */
#define PLACE 16384u
#define FIRST_SIDE                                                                                 \
	(OPS * PLACE) /* below: places of the end's own requests; above: of the peer's             \
		       */
#define FILLER	  0xee
#define STEPS_MAX 200000
#define STALL	  20000 /* steps: a damaged length may have the receiver wait for ever */
#define BAD_KEY	  0x00beef00u
#define ALL	  (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

enum mishap {
	MISHAP_NONE,
	MISHAP_RKEY,	   /* a WRITE, READ or atomic with a bad key */
	MISHAP_LKEY,	   /* a request with a bad key */
	MISHAP_SHORT,	   /* a receive is too short */
	MISHAP_NO_RECEIVE, /* there is none */
	MISHAP_DISCONNECT, /* an end disconnects; what it posted still arrives */
	MISHAP_TO_ERR,	   /* an end modifies its QP to ERR */
	MISHAP_BROKEN,	   /* the stream breaks */
	MISHAP_GIVEN_UP,   /* an end gives up the stream: its limit of time is over */
	MISHAP_DAMAGE,	   /* a bit changes on the way; CRCs are on */
	MISHAPS,
};

struct op {
	enum ibv_wr_opcode opcode;
	uint32_t bytes, flags;
	bool posted, completed, has_receive, received;
	enum ibv_wc_status status;
	uint64_t before; /* of an atomic: the word at the peer */
};

struct side {
	struct op ops[OPS];
	unsigned count, next_post, next_done, next_received; /* received: at the peer */
	bool failed, receive_failed;
};

static struct side sides[2];
static enum mishap mishap;
static unsigned mishap_end, mishap_op;
static uint64_t seed, last_seed;
static bool verbose;
static struct {
	uint64_t requests, failed, bytes, terminated;
} totals;

static uint8_t *own_place(unsigned end, unsigned op)
{
	return rig[end].memory + (size_t)op * PLACE;
}

static uint8_t *peer_place(unsigned end, unsigned op)
{
	return rig[!end].memory + FIRST_SIDE + (size_t)op * PLACE;
}

static bool is_atomic(const struct op *op)
{
	return op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static uint64_t pattern_of(unsigned end, unsigned op)
{
	return seed * 1000 + end * 100 + op + 1;
}

static bool holds(const uint8_t *at, unsigned end, unsigned op, uint32_t bytes)
{
	uint8_t expected[PLACE];

	pattern_fill(expected, bytes, pattern_of(end, op));
	return !memcmp(at, expected, bytes);
}

static bool is_filler(const uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != FILLER)
			return false;
	return true;
}

static void plan_op(struct random *random, struct op *op, bool extensions)
{
	static const enum ibv_wr_opcode opcodes_of_all[] = { IBV_WR_SEND,
							     IBV_WR_SEND,
							     IBV_WR_RDMA_WRITE,
							     IBV_WR_RDMA_READ,
							     IBV_WR_RDMA_READ,
							     IBV_WR_RDMA_WRITE_WITH_IMM,
							     IBV_WR_ATOMIC_FETCH_AND_ADD,
							     IBV_WR_ATOMIC_CMP_AND_SWP };
	uint32_t most = random_chance(random, 500) ? 100 : PLACE;

	*op = (struct op){ .opcode = opcodes_of_all[random_below(random, extensions ? 8 : 5)],
			   .bytes = random_below(random, most + 1),
			   .flags = IBV_SEND_SIGNALED };
	if (is_atomic(op))
		op->bytes = 8;
	if (random_chance(random, 100))
		op->flags |= IBV_SEND_FENCE;
	if (op->bytes <= 256 && op->opcode != IBV_WR_RDMA_READ && !is_atomic(op) &&
	    random_chance(random, 300))
		op->flags |= IBV_SEND_INLINE;
	op->has_receive = op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static struct iwarp_options plan_options(struct random *random)
{
	struct iwarp_options options = {
		.mpa = { .initiator = random_chance(random, 500),
			 .crc = mishap == MISHAP_DAMAGE || random_chance(random, 300),
			 .sends_markers = random_chance(random, 200),
			 .gets_markers = random_chance(random, 200),
			 .extensions = random_chance(random, 700),
			 .ird = (uint16_t)random_range(random, 1, LIMIT_QP_RD_ATOM),
			 .ord = (uint16_t)random_range(random, 1, LIMIT_QP_RD_ATOM),
			 .rtr = (enum mpa_rtr)random_below(random, 4) },
		.mulpdu = random_chance(random, 300) ? 65535 : random_range(random, 128, 20000),
	};

	return options;
}

/* Chooses the request of the mishap; without a fit one there is none. */
static void plan_mishap(struct random *random)
{
	struct side *side;
	const struct op *op;

	mishap_end = random_below(random, 2);
	side = &sides[mishap_end];
	mishap_op = random_below(random, side->count);
	op = &side->ops[mishap_op];
	if ((mishap == MISHAP_RKEY && (op->opcode == IBV_WR_SEND || !op->bytes)) ||
	    (mishap == MISHAP_LKEY && (!op->bytes || op->flags & IBV_SEND_INLINE)) ||
	    (mishap == MISHAP_SHORT && (op->opcode != IBV_WR_SEND || !op->bytes)) ||
	    (mishap == MISHAP_NO_RECEIVE && !op->has_receive))
		mishap = MISHAP_NONE;
	if (mishap == MISHAP_NO_RECEIVE) /* it would take the receive of a later one */
		side->count = mishap_op + 1;
}

static void plan(struct random *random)
{
	struct iwarp_options options;

	mishap = random_chance(random, 350)
			 ? (enum mishap)random_range(random, MISHAP_NONE + 1, MISHAPS - 1)
			 : MISHAP_NONE;
	options = plan_options(random);
	memset(sides, 0, sizeof(sides));
	for (unsigned end = 0; end < 2; end++) {
		sides[end].count = random_range(random, 1, OPS);
		for (unsigned i = 0; i < sides[end].count; i++)
			plan_op(random, &sides[end].ops[i], options.mpa.extensions);
	}
	plan_mishap(random);
	memset(rig[0].memory, FILLER, RIG_BYTES);
	memset(rig[1].memory, FILLER, RIG_BYTES);
	rig_connect(&options);
	if (verbose)
		printf("mishap %d of end %u at %u; crc %d markers %d %d rtr %d mulpdu %u ird %u "
		       "ord %u\n",
		       mishap, mishap_end, mishap_op, options.mpa.crc, options.mpa.sends_markers,
		       options.mpa.gets_markers, options.mpa.rtr, options.mulpdu, options.mpa.ird,
		       options.mpa.ord);
}

static bool is_mishap(enum mishap which, unsigned end, unsigned op)
{
	return mishap == which && mishap_end == end && mishap_op == op;
}

static void post_receive(unsigned end, unsigned number)
{
	const struct op *op = &sides[end].ops[number];
	struct rig_end *to = &rig[!end];
	uint32_t bytes = op->opcode == IBV_WR_SEND ? op->bytes : 0;
	uint32_t first = bytes / 3;
	struct ibv_sge sges[2];
	struct ibv_recv_wr *bad, wr = { .wr_id = number, .sg_list = sges, .num_sge = 2 };

	if (is_mishap(MISHAP_SHORT, end, number))
		bytes--;
	sges[0] = (struct ibv_sge){ (uintptr_t)peer_place(end, number), first, to->mr->ib.lkey };
	sges[1] = (struct ibv_sge){ sges[0].addr + first, bytes - first, to->mr->ib.lkey };
	if (!is_mishap(MISHAP_NO_RECEIVE, end, number))
		assert_int_equal(rq_post(to->qp->rq, &wr, &bad), 0);
	lock_acquire(&to->qp->lock);
	if (qp_state(to->qp) == IBV_QPS_ERR)
		qp_flush(to->qp);
	lock_release(&to->qp->lock);
}

static void set_places(unsigned end, unsigned number, struct op *op)
{
	uint8_t *own = own_place(end, number), *peer = peer_place(end, number);

	if (is_atomic(op)) {
		op->before = pattern_of(end, number);
		memcpy(peer, &op->before, sizeof(op->before));
	} else {
		pattern_fill(op->opcode == IBV_WR_RDMA_READ ? peer : own, op->bytes,
			     pattern_of(end, number));
	}
}

static void post(unsigned end)
{
	struct side *side = &sides[end];
	unsigned number = side->next_post++;
	struct op *op = &side->ops[number];
	uint32_t first = op->flags & IBV_SEND_INLINE ? op->bytes : op->bytes / 2;
	uint32_t lkey = rig[end].mr->ib.lkey;
	struct ibv_sge sges[2] = {
		{ (uintptr_t)own_place(end, number), first, lkey },
		{ (uintptr_t)own_place(end, number) + first, op->bytes - first, lkey },
	};
	struct ibv_send_wr wr = {
		.wr_id = number,
		.opcode = op->opcode,
		.sg_list = sges,
		.num_sge = is_atomic(op) ? 1 : 2,
		.send_flags = op->flags,
		.imm_data = number,
		.wr.rdma = { .remote_addr = (uintptr_t)peer_place(end, number),
			     .rkey = is_mishap(MISHAP_RKEY, end, number) ? BAD_KEY
									 : rig[!end].mr->ib.rkey },
	};

	if (is_atomic(op)) {
		sges[0].length = 8;
		wr.wr.atomic.rkey = wr.wr.rdma.rkey;
		wr.wr.atomic.compare_add =
			op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? pattern_of(end, number) : 1;
		wr.wr.atomic.swap = pattern_of(end, number) + 1;
	}
	if (is_mishap(MISHAP_LKEY, end, number))
		sges[0].lkey = sges[1].lkey = BAD_KEY;
	if (op->has_receive)
		post_receive(end, number);
	set_places(end, number, op);
	op->posted = true;
	rig_post_wr(end, &wr);
}

/* The data of a request that succeeded is in its place. */
static void check_data(unsigned end, unsigned number, bool at_peer)
{
	const struct op *op = &sides[end].ops[number];
	uint64_t word;

	if (is_atomic(op)) {
		memcpy(&word, own_place(end, number), sizeof(word));
		assert_true(word == op->before);
		memcpy(&word, peer_place(end, number), sizeof(word));
		assert_true(word == op->before + 1);
		return;
	}
	if (op->opcode == IBV_WR_RDMA_READ)
		assert_true(holds(own_place(end, number), end, number, op->bytes));
	else if (at_peer)
		assert_true(holds(peer_place(end, number), end, number, op->bytes));
}

static void check_status(bool *failed, enum ibv_wc_status status)
{
	if (*failed)
		assert_int_equal(status, IBV_WC_WR_FLUSH_ERR);
	if (mishap == MISHAP_NONE)
		assert_int_equal(status, IBV_WC_SUCCESS);
	if (status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR)
		*failed = true;
	totals.failed += status != IBV_WC_SUCCESS;
}

/* The next request of the peer that takes a receive. */
static unsigned next_receive(struct side *side)
{
	while (side->next_received < side->count && !side->ops[side->next_received].has_receive)
		side->next_received++;
	return side->next_received++;
}

static void on_receive(unsigned end, const struct ibv_wc *wc)
{
	struct side *side = &sides[!end]; /* the sender */
	unsigned number = next_receive(side);
	const struct op *op = &side->ops[number];

	assert_int_equal(wc->wr_id, number);
	op = &side->ops[number];
	check_status(&side->receive_failed, wc->status);
	if (wc->status != IBV_WC_SUCCESS) {
		side->receive_failed = true;
		return;
	}
	assert_int_equal(wc->byte_len, op->bytes);
	if (op->opcode != IBV_WR_SEND)
		assert_int_equal(wc->imm_data, number);
	check_data(!end, number, true);
}

static void poll(unsigned end)
{
	struct side *side = &sides[end];
	struct ibv_wc wc;

	while (cq_pop(rig[end].cq, 1, &wc) == 1) {
		if (verbose)
			printf("end %u: completion %" PRIu64 " opcode %d status %d\n", end,
			       wc.wr_id, wc.opcode, wc.status);
		if (wc.opcode & IBV_WC_RECV) {
			on_receive(end, &wc);
			continue;
		}
		assert_int_equal(wc.wr_id, side->next_done);
		check_status(&side->failed, wc.status);
		if (wc.status != IBV_WC_SUCCESS)
			side->failed = true;
		else
			check_data(end, side->next_done, false);
		side->next_done++;
		totals.requests++;
	}
}

static uint32_t random_room(struct random *random)
{
	switch (random_below(random, 4)) {
	case 0:
		return random_below(random, 8);
	case 1:
		return random_below(random, 600);
	default:
		return random_below(random, 200000);
	}
}

static void strike(struct random *random)
{
	struct rig_end *end = &rig[mishap_end];
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	switch (mishap) {
	case MISHAP_DISCONNECT:
		lock_acquire(&end->qp->lock);
		iwarp_disconnect(end->qp);
		lock_release(&end->qp->lock);
		break;
	case MISHAP_TO_ERR:
		assert_int_equal(qp_modify(end->qp, &attr, IBV_QP_STATE), 0);
		break;
	case MISHAP_BROKEN:
		end->broken = end->peer->broken = true;
		break;
	case MISHAP_GIVEN_UP:
		lock_acquire(&end->qp->lock);
		iwarp_give_up(end->qp);
		lock_release(&end->qp->lock);
		assert_int_equal(end->ends, 1);
		break;
	case MISHAP_DAMAGE:
		if (end->head != end->tail)
			end->bytes[end->head +
				   random_below(random, (uint32_t)(end->tail - end->head))] ^=
				(uint8_t)(1u << random_below(random, 8));
		break;
	default:
		break;
	}
}

static bool is_over(unsigned end)
{
	return iwarp_end_of(rig[end].qp) != IWARP_END_NONE;
}

/* Nothing is left to come. */
static bool is_done(void)
{
	if (is_over(0) && is_over(1))
		return true;
	for (unsigned end = 0; end < 2; end++)
		if (sides[end].next_done < sides[end].count || rig[end].head != rig[end].tail ||
		    iwarp_wants_room(rig[end].qp))
			return false;
	return true;
}

static void step(struct random *random, uint32_t striking)
{
	unsigned end = random_below(random, 2);
	struct side *side = &sides[end];

	rig[end].room = random_room(random);
	rig[end].piece = random_chance(random, 700) ? 100000 : random_range(random, 1, 600);
	if (random_chance(random, 300) && side->next_post < side->count)
		post(end);
	if (random_chance(random, 500))
		rig_make_room(end);
	if (random_chance(random, 20))
		rig_open_gate(end);
	if (random_chance(random, 700) && !is_over(end))
		rig_read(end);
	if (random_chance(random, 400))
		poll(end);
	if (mishap >= MISHAP_DISCONNECT && random_chance(random, striking) && !is_over(mishap_end))
		strike(random);
}

/* All places that no request may have stored to are as they were. */
static void check_untouched(void)
{
	for (unsigned end = 0; end < 2; end++)
		for (unsigned i = 0; i < OPS; i++) {
			const struct op *op = &sides[end].ops[i];
			bool used = i < sides[end].count && op->posted;

			assert_true(is_filler(own_place(end, i) + (used ? op->bytes : 0),
					      PLACE - (used ? op->bytes : 0)));
			if (used && mishap == MISHAP_RKEY && is_mishap(MISHAP_RKEY, end, i) &&
			    op->opcode != IBV_WR_RDMA_READ && !is_atomic(op))
				used = false;
			assert_true(is_filler(peer_place(end, i) + (used ? op->bytes : 0),
					      PLACE - (used ? op->bytes : 0)));
		}
}

/* Requests that were posted complete, those of a QP in ERR at once. */
static void check_end(void)
{
	for (unsigned end = 0; end < 2; end++) {
		poll(end);
		if (mishap == MISHAP_NONE || is_over(end))
			assert_int_equal(sides[end].next_done, sides[end].next_post);
		if (mishap != MISHAP_NONE)
			continue;
		assert_int_equal(qp_state(rig[end].qp), IBV_QPS_RTS);
		for (unsigned i = 0; i < sides[end].count; i++)
			check_data(end, i, true);
	}
	check_untouched();
	assert_true(mishap != MISHAP_NONE || !rig_has_event());
}

/* Both ends come to an end, whoever begins. */
static void disconnect(unsigned end)
{
	lock_acquire(&rig[end].qp->lock);
	iwarp_disconnect(rig[end].qp);
	lock_release(&rig[end].qp->lock);
	for (unsigned i = 0; i < 2; i++) {
		rig[i].room = rig[i].piece = SIZE_MAX;
		/* who waits for ever is ended by the environment's timer */
		rig[i].broken |= mishap == MISHAP_DAMAGE;
	}
	rig_run();
	for (unsigned i = 0; i < 2; i++) {
		assert_true(is_over(i));
		assert_int_equal(rig[i].ends, 1);
		assert_int_equal(qp_state(rig[i].qp), IBV_QPS_ERR);
		totals.terminated += rig[i].end == IWARP_END_TERMINATED;
		totals.bytes += rig[i].tail;
	}
}

static void run_seed(void)
{
	struct random random = { seed };
	uint32_t striking;

	rig_create(ALL);
	plan(&random);
	striking = random_range(&random, 5, 100);
	for (int steps = 0; !is_done() && (mishap != MISHAP_DAMAGE || steps < STALL); steps++) {
		assert_in_range(steps, 0, STEPS_MAX);
		step(&random, striking);
	}
	check_end();
	disconnect(random_below(&random, 2));
	for (unsigned end = 0; end < 2; end++)
		poll(end);
	rig_destroy(NULL);
}

/* One test of cmocka, so that it says which assertion failed. */
static void run_seeds(void **state)
{
	for (; seed <= last_seed; seed++)
		run_seed();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(run_seeds) };
	uint64_t from;

	if (argc > 2 && !strcmp(argv[1], "--seed") && sscanf(argv[2], "%" SCNu64, &from) == 1) {
		last_seed = from;
	} else if (argc < 3 || strcmp(argv[1], "--seeds") ||
		   sscanf(argv[2], "%" SCNu64 "-%" SCNu64, &from, &last_seed) != 2) {
		fprintf(stderr, "usage: iwarp_sim --seeds FROM-TO | iwarp_sim --seed N [-v]\n");
		return 2;
	}
	verbose = argc > 3 && !strcmp(argv[3], "-v");
	seed = from;
	if (cmocka_run_group_tests(tests, NULL, NULL)) {
		fprintf(stderr, "repeat: iwarp_sim --seed %" PRIu64 " -v\n", seed);
		return 1;
	}
	printf("%" PRIu64 " seeds: %" PRIu64 " requests, %" PRIu64
	       " of them or their receives failed as they should; %" PRIu64 " bytes, %" PRIu64
	       " TERMINATEs arrived\n",
	       last_seed - from + 1, totals.requests, totals.failed, totals.bytes,
	       totals.terminated);
	return last_seed - from > 1000 && (!totals.failed || !totals.terminated);
}
