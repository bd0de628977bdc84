/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sim - RC, UC and UD between QPs of one process over a virtual network, from a seed.
 *
 *     sim --seeds FROM-TO     prints how many passed; ends at the first that does not
 *     sim --seed N [-v]       repeats one, with a line per packet
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fail.h"
#include "net.h"
#include "oracle.h"
#include "plan.h"
#include "traffic.h"
#include "roce/roce.h"
#include "world.h"

#define STEPS_MAX   2000000
#define TIME_MAX_NS 600000000000ull /* of virtual time, for everything */
#define QUIET_NS    60000000000ull  /* until the last timer has fired */

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#ifdef VERBATIM_CHECK
/* on average: of QPs that have a part in a step the transport checks its state itself */
#define STEPS_BETWEEN 8

/* Also checks QPs without a part in the step. */
static void check_ends(const struct plan *plan)
{
	if (!check_sometimes(STEPS_BETWEEN))
		return;
	for (unsigned i = 0; i < plan->end_count; i++) {
		struct qp *qp = plan->ends[i].qp;

		lock_acquire(&qp->lock);
		roce_check(qp);
		lock_release(&qp->lock);
	}
}
#endif

/*
 * Handles the next event of the network, the transport or, if `traffic`, the traffic. False: there
 * is none.
 */
static bool step(struct plan *plan, bool traffic, struct random *random)
{
	uint64_t post_ns = traffic ? traffic_next_ns(plan) : NET_NEVER;
	uint64_t next = smaller(smaller(net_next_ns(), roce_deadline_ns()), post_ns);

	if (next == NET_NEVER)
		return false;
	net_advance(next);
	if (random_chance(random, 700))
		plan_raise_versions(plan);
	if (post_ns <= net_now())
		traffic_run(plan);
	if (net_next_ns() <= net_now())
		net_deliver(random_range(random, 1, WIRE_BURST));
	if (roce_deadline_ns() <= net_now())
		roce_run(net_now());
	if (random_chance(random, 600))
		oracle_poll();
	CHECK(check_ends(plan));
	return true;
}

static void show_ends(const struct plan *plan)
{
	for (unsigned i = 0; i < plan->end_count; i++) {
		const struct end *end = &plan->ends[i];

		printf("end %u: state %d, of %u requests %u posted, %u done; of %u receives %u "
		       "posted, %u done\n",
		       i, qp_state(end->qp), end->op_count, end->next_post, end->next_done,
		       end->receive_count, end->next_receive_post, end->next_receive_done);
	}
}

static void check_limits(const struct plan *plan, uint64_t steps, uint64_t limit_ns)
{
	if (steps > STEPS_MAX || net_now() > limit_ns)
		show_ends(plan);
	if (steps > STEPS_MAX)
		sim_fail("no end after %d steps", STEPS_MAX);
	if (net_now() > limit_ns)
		sim_fail("no end after %.1f virtual seconds", (double)limit_ns / 1e9);
}

static const char *mishap_name(enum mishap mishap)
{
	static const char *const names[MISHAPS] = {
		"none",		 "bad rkey",   "other PD",	"range",	"no write right",
		"no read right", "unaligned",  "receive short", "receive lkey", "local lkey",
		"read lkey",	 "no receive", "self to ERR",	"peer to ERR",
	};

	return names[mishap];
}

static void describe(const struct plan *plan)
{
	const struct net_weather *weather = &plan->weather;

	printf("loss %u duplication %u reordering %u damage %u lateness %u full %u marks %u "
	       "(permille), delay %" PRIu64 " ns + %" PRIu64 ", MTU %u\n",
	       weather->loss, weather->duplication, weather->reordering, weather->damage,
	       weather->lateness, weather->full, weather->marks, weather->delay_ns,
	       weather->jitter_ns, 128u << plan->mtu);
	for (unsigned i = 0; i < plan->end_count; i++) {
		const struct end *end = &plan->ends[i];

		printf("end %u: QP %06x type %d, %u requests (queue %u), %u receives (queue %u), "
		       "mishap: %s at request %u\n",
		       i, end->qp->ib.qp_num, end->qp->type, end->op_count, end->cap.max_send_wr,
		       end->receive_count, end->cap.max_recv_wr, mishap_name(end->mishap),
		       end->mishap_op);
		for (unsigned j = 0; j < end->op_count; j++)
			printf("    %u: opcode %d flags %x length %u expected %d\n", j,
			       end->ops[j].opcode, end->ops[j].flags, end->ops[j].length,
			       end->ops[j].expected);
	}
}

/* Counts over all seeds, which show that they do something. */
static struct {
	uint64_t requests, failed, packets, lost, damaged, undetected;
	uint64_t one_by_one, queued_marked, queued_lost;
} totals;

static void add_totals(const struct plan *plan)
{
	for (unsigned i = 0; i < plan->end_count; i++) {
		totals.requests += plan->ends[i].op_count;
		for (unsigned j = 0; j < plan->ends[i].op_count; j++)
			totals.failed += plan->ends[i].ops[j].state == OP_FAILED;
	}
	totals.packets += net_counts.sent;
	totals.lost += net_counts.lost;
	totals.damaged += net_counts.damaged;
	totals.undetected += net_counts.undetected;
	totals.one_by_one += net_counts.one_by_one;
	totals.queued_marked += net_counts.queued_marked;
	totals.queued_lost += net_counts.queued_lost;
}

static void run_seed(uint64_t seed)
{
	static struct plan plan;
	struct random random = { seed ^ 0x5eed };
	uint64_t steps = 0;

	sim_begin(seed);
	plan_make(&plan, seed);
	oracle_start(&plan);
	if (net_verbose)
		describe(&plan);
	while (!traffic_is_done(&plan)) {
		if (!step(&plan, true, &random)) {
			oracle_poll();
			if (!traffic_is_done(&plan) && traffic_next_ns(&plan) == NET_NEVER) {
				show_ends(&plan);
				sim_fail("nothing will happen any more, and requests are left");
			}
		}
		check_limits(&plan, ++steps, TIME_MAX_NS);
	}
	oracle_poll();
	/* Late packets and timers have no effect, and come to an end. */
	for (uint64_t limit_ns = net_now() + QUIET_NS; step(&plan, false, &random);)
		check_limits(&plan, ++steps, limit_ns);
	oracle_finish();
	add_totals(&plan);
	plan_drop(&plan);
	net_stop();
}

static int usage(void)
{
	fprintf(stderr, "usage: sim --seeds FROM-TO | sim --seed N [-v]\n");
	return 2;
}

int main(int argc, char **argv)
{
	uint64_t from, to;

	if (argc < 3)
		return usage();
	if (strcmp(argv[1], "--seed") == 0 && sscanf(argv[2], "%" SCNu64, &from) == 1)
		to = from;
	else if (strcmp(argv[1], "--seeds") != 0 ||
		 sscanf(argv[2], "%" SCNu64 "-%" SCNu64, &from, &to) != 2)
		return usage();
	net_verbose = argc > 3 && strcmp(argv[3], "-v") == 0;
	world_create();
	for (uint64_t seed = from; seed <= to; seed++)
		run_seed(seed);
	if (totals.undetected > 5 + totals.damaged / 5000)
		sim_fail("of %" PRIu64 " damaged packets %" PRIu64 " passed the ICRC",
			 totals.damaged, totals.undetected);
	if (to - from > 1000 && (!totals.one_by_one || !totals.queued_marked))
		sim_fail("no GSO batches were given up, or no router was busy, in so many seeds");
	printf("%" PRIu64 " packets one by one; routers marked %" PRIu64 " and lost %" PRIu64 "\n",
	       totals.one_by_one, totals.queued_marked, totals.queued_lost);
	printf("%" PRIu64 " seeds: %" PRIu64 " requests, %" PRIu64
	       " of them failed as they should; "
	       "%" PRIu64 " packets, %" PRIu64 " lost, %" PRIu64 " damaged\n",
	       to - from + 1, totals.requests, totals.failed, totals.packets, totals.lost,
	       totals.damaged);
	return 0;
}
