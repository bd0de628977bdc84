/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct rig rig;
struct qp *a, *b;
struct mr *here_mr, *there_mr;
static void *from, *to;

void pair_regions(void *here, void *there, size_t bytes, uint32_t access)
{
	uint8_t *pattern = here;

	from = here;
	to = there;
	rig_create(&rig);
	for (size_t i = 0; i < bytes; i++)
		pattern[i] = (uint8_t)(i * 7 + i / 1000);
	memset(there, 0xee, bytes);
	here_mr = rig_mr(&rig, here, bytes, access);
	there_mr = rig_mr(&rig, there, bytes, access);
}

void pair_connect(enum ibv_qp_type type, const struct rig_options *options)
{
	a = rig_qp(&rig, type);
	b = rig_qp(&rig, type);
	rig_connect(a, b, options);
}

int pair_teardown(void **state)
{
	assert_int_equal(qp_destroy(a), 0);
	assert_int_equal(qp_destroy(b), 0);
	assert_int_equal(roce_deadline_ns(), TRANSPORT_NEVER);
	assert_int_equal(mr_destroy(here_mr), 0);
	assert_int_equal(mr_destroy(there_mr), 0);
	rig_destroy(&rig);
	return 0;
}

void pair_post_at(enum ibv_wr_opcode opcode, uint32_t offset, uint32_t bytes, uint64_t wr_id,
		  unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)from + offset, bytes, here_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = flags,
		.imm_data = PAIR_IMM,
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to + offset;
		wr.wr.atomic.rkey = there_mr->ib.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)to + offset;
		wr.wr.rdma.rkey = there_mr->ib.rkey;
	}
	rig_post_send(a, &wr);
}

void pair_post(enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t wr_id)
{
	pair_post_at(opcode, 0, bytes, wr_id, 0);
}

struct ibv_wc pair_expect(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = rig_completion(&rig);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}
