/* SPDX-License-Identifier: BSD-2-Clause */
/* The smaller verbs, as their manual pages have them: rule 9 of the contract. */
#include <stdlib.h>
#include <time.h>

#include "expect.h"

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What ibv_query_ece offers can be set; another vendor's options cannot, and bits are checked. */
static void rule_09_ece(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_qp *qp = side_create_qp(side, WITH());
	struct ibv_ece ece, other = { .vendor_id = 0x02c9, .options = 1 };
	int result = ibv_query_ece(qp, &ece);

	if (result == EOPNOTSUPP)
		skip_because("ibv_query_ece: not supported");
	REQUIRE(result == 0 && ece.vendor_id && ece.comp_mask == 0, "ibv_query_ece: %d", result);
	REQUIRE(ibv_set_ece(qp, &ece) == 0, "ibv_set_ece of what was queried");
	if (ece.vendor_id != other.vendor_id)
		REQUIRE(ibv_set_ece(qp, &other) != 0, "options of another vendor");
	ece.comp_mask = 1u << 31;
	REQUIRE(ibv_set_ece(qp, &ece) != 0, "unknown comp_mask");
}

static void rule_09_data_in_order(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_qp *qp = side_create_qp(side, WITH());
	int result = ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0);

	REQUIRE(result == 0 || result == 1, "%d", result);
}

static void rule_09_pkey_index(struct pair *pair)
{
	struct ibv_context *context = side_open_device();
	__be16 pkey;

	REQUIRE(ibv_query_pkey(context, 1, 0, &pkey) == 0, "ibv_query_pkey");
	REQUIRE(ibv_get_pkey_index(context, 1, pkey) == 0, "the index of the P_Key at 0");
	REQUIRE(ibv_get_pkey_index(context, 1, 0x1234) < 0, "the index of no P_Key");
	REQUIRE(ibv_get_pkey_index(context, 9, pkey) < 0, "port 9");
}

/* The raw clock runs in hca_core_clock, and completions carry its time. */
static void rule_09_clocks(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_cq_init_attr_ex init = {
		.cqe = 16,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_SL |
			    IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_DLID_PATH_BITS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_values_ex before = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK }, after = before;
	struct ibv_poll_cq_attr poll = { .comp_mask = 0 };
	struct ibv_device_attr_ex device;
	uint64_t wall_before, wall_after, stamp, wall, first, last;
	struct options options = *WITH(.qps = 0);
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;

	pair_make(pair, &options);
	REQUIRE(ibv_query_device_ex(a->side->context, NULL, &device) == 0, "ibv_query_device_ex");
	if (!device.completion_timestamp_mask)
		skip_because("no time stamps");
	REQUIRE(device.hca_core_clock, "hca_core_clock");
	cq = ibv_create_cq_ex(a->side->context, &init);
	REQUIRE(cq, "ibv_create_cq_ex: %s", strerror(errno));
	a->side->cq[SENDS] = ibv_cq_ex_to_cq(cq);
	qp = side_create_qp(a->side, WITH());
	a->side->qp[0] = qp;
	a->side->options.qps = 1;
	a->qpn[0] = qp->qp_num;
	b->side->qp[0] = side_create_qp(b->side, WITH());
	b->side->options.qps = 1;
	b->qpn[0] = b->side->qp[0]->qp_num;
	end_ready(a, b, 0);
	end_ready(b, a, 0);

	REQUIRE(ibv_query_rt_values_ex(a->side->context, &before) == 0, "ibv_query_rt_values_ex");
	REQUIRE(before.comp_mask == IBV_VALUES_MASK_RAW_CLOCK, "comp_mask 0x%x", before.comp_mask);
	wall_before = clock_ns(CLOCK_REALTIME);
	post_send(a, 0, WRITE(b, 0, .wr_id = 7, .length = 64));
	while (ibv_start_poll(cq, &poll) == ENOENT)
		;
	stamp = ibv_wc_read_completion_ts(cq);
	wall = ibv_wc_read_completion_wallclock_ns(cq);
	REQUIRE(cq->wr_id == 7 && cq->status == IBV_WC_SUCCESS, "status %d", cq->status);
	REQUIRE(ibv_wc_read_sl(cq) == 0 && ibv_wc_read_dlid_path_bits(cq) == 0, "sl or path bits");
	ibv_end_poll(cq);
	wall_after = clock_ns(CLOCK_REALTIME);
	ibv_query_rt_values_ex(a->side->context, &after);
	first = (uint64_t)before.raw_clock.tv_sec * 1000000000u +
		(uint64_t)before.raw_clock.tv_nsec;
	last = (uint64_t)after.raw_clock.tv_sec * 1000000000u + (uint64_t)after.raw_clock.tv_nsec;
	REQUIRE(stamp >= first && stamp <= last, "%llu is not between %llu and %llu",
		(unsigned long long)stamp, (unsigned long long)first, (unsigned long long)last);
	REQUIRE(wall + 1000000 >= wall_before && wall <= wall_after + 1000000,
		"the wall clock is off by %lld ns", (long long)(wall - wall_before));
}

/* A CQ that ignores its overrun raises nothing, and goes on. */
static void rule_09_ignore_overrun(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_cq_init_attr_ex init = {
		.cqe = 4,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_cq_ex *cq;
	struct ibv_wc wc[16];
	int got;

	pair_make(pair, WITH(.qps = 0));
	cq = ibv_create_cq_ex(a->side->context, &init);
	REQUIRE(cq, "ibv_create_cq_ex: %s", strerror(errno));
	a->side->cq[SENDS] = ibv_cq_ex_to_cq(cq);
	for (struct end *end = a; end; end = end == a ? b : NULL) {
		end->side->qp[0] = side_create_qp(end->side, WITH());
		end->side->options.qps = 1;
		end->qpn[0] = end->side->qp[0]->qp_num;
	}
	end_ready(a, b, 0);
	end_ready(b, a, 0);
	for (uint64_t i = 0; i < 12; i++)
		post_send(a, 0, WRITE(b, 0, .wr_id = i, .length = 8));
	for (uint64_t i = 0; i < 12; i++)
		poke(b, 8 * i, 0);
	sleep_ms(QUIET_MS);
	expect_no_async(a);
	do
		got = ibv_poll_cq(a->side->cq[SENDS], 16, wc);
	while (got == 0);
	REQUIRE(got > 0 && got <= 4, "%d completions of a CQ of 4", got);
	post_send(a, 0, WRITE(b, 0, .wr_id = 99, .length = 8));
	do
		got = ibv_poll_cq(a->side->cq[SENDS], 1, wc);
	while (got == 0);
	REQUIRE(got == 1 && wc[0].status == IBV_WC_SUCCESS, "the CQ is of no use any more");
}

static void rule_09_moderation(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					   .moderate = { .cq_count = 8, .cq_period = 100 } };
	struct ibv_device_attr_ex device;

	REQUIRE(ibv_query_device_ex(side->context, NULL, &device) == 0, "ibv_query_device_ex");
	if (!device.cq_mod_caps.max_cq_count)
		skip_because("no moderation");
	REQUIRE(ibv_modify_cq(side->cq[SENDS], &attr) == 0, "ibv_modify_cq");
	attr.attr_mask = 1u << 20;
	REQUIRE(ibv_modify_cq(side->cq[SENDS], &attr) != 0, "unknown attr_mask");
}

/* The null MR reads as zeroes and swallows what is written, wherever it is addressed. */
static void rule_06_null_region(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_mr *null;

	pair_connect(pair, WITH());
	null = ibv_alloc_null_mr(a->side->pd);
	if (!null && errno == EOPNOTSUPP)
		skip_because("no null MR");
	REQUIRE(null, "ibv_alloc_null_mr: %s", strerror(errno));
	fill(b, 0, 4096, 5);
	fill(a, 0, 4096, 6);
	post_send(a, 0,
		  WRITE(b, 0, .wr_id = 1, .num_sge = 2,
			.sge = { { 0x5000, 64, null->lkey }, { a->addr, 64, a->lkey } }));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < 64; i += 8)
		REQUIRE(peek(b, i) == 0, "byte %d is not zero", i);
	fill(b, 0, 4096, 5);
	fill(a, 0, 4096, 0);
	post_send(a, 0,
		  READ(b, 0, .wr_id = 2, .num_sge = 2,
		       .sge = { { 0, 64, null->lkey }, { a->addr + 64, 64, a->lkey } }));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect_bytes(a, 0, 64, 0);
	REQUIRE(memcmp(a->side->buf + 64, b->side->buf + 64, 64) == 0, "what followed the null MR");
	REQUIRE(ibv_dereg_mr(null) == 0, "ibv_dereg_mr");
}

/* ibv_reg_mr_iova: SGEs name the address that was given. It has the memory's offset in the page. */
static void rule_06_iova(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_mr *mr;

	pair_connect(pair, WITH());
	fill(a, 0, 8192, 3);
	fill(b, 0, 8192, 0);
	mr = ibv_reg_mr_iova(a->side->pd, a->side->buf + 4096, 4096, 0x701000,
			     IBV_ACCESS_LOCAL_WRITE);
	REQUIRE(mr, "ibv_reg_mr_iova: %s", strerror(errno));
	post_send(a, 0,
		  WRITE(b, 4096, .wr_id = 1, .num_sge = 1,
			.sge = { { 0x701000 + 16, 128, mr->lkey } }));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	REQUIRE(memcmp(b->side->buf + 4096, a->side->buf + 4096 + 16, 128) == 0,
		"other bytes came");
	post_send(a, 0,
		  WRITE(b, 4096, .wr_id = 2, .num_sge = 1,
			.sge = { { 0x701000 - 8, 16, mr->lkey } }));
	expect(a, SENDS, 2, IBV_WC_LOC_PROT_ERR);
	REQUIRE(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	mr = ibv_reg_mr_iova(a->side->pd, a->side->buf + 100, 64, 0x700000 + 100, 0);
	REQUIRE(mr, "within a page: %s", strerror(errno));
	REQUIRE(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	REQUIRE(!ibv_reg_mr_iova(a->side->pd, a->side->buf + 64, 64, 0x700000, 0) &&
			errno == EINVAL,
		"another offset in the page");
	REQUIRE(!ibv_reg_mr_iova(a->side->pd, a->side->buf, 4096, UINT64_MAX - 4095, 0),
		"a range beyond the last address");
}

static const struct test tests[] = {
	HERE(rule_09_ece),	   HERE(rule_09_data_in_order),	 HERE(rule_09_pkey_index),
	HERE(rule_09_clocks),	   HERE(rule_09_ignore_overrun), HERE(rule_09_moderation),
	HERE(rule_06_null_region), HERE(rule_06_iova),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
