/* SPDX-License-Identifier: BSD-2-Clause */
/* Windows: binds that are refused, the rights of a key, and the end of a bind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../memory/harness.h"
#include "object/context.h"
#include "object/mr.h"
#include "object/mw.h"
#include "object/sq.h"

#define QPN   0x14001
#define OTHER 0x14002
#define RR    IBV_ACCESS_REMOTE_READ
#define RW    IBV_ACCESS_REMOTE_WRITE
#define BIND  IBV_ACCESS_MW_BIND
#define LW    IBV_ACCESS_LOCAL_WRITE

static struct context context;
static struct pd *pd, *other_pd;
static char memory[256];

static int set_up(void **state)
{
	harness_arena();
	return pd_create(&context.verbs.context, &pd) ||
	       pd_create(&context.verbs.context, &other_pd);
}

static struct mr *region(struct pd *of, uint32_t access)
{
	const struct mr_spec spec = {
		.pd = of,
		.addr = memory,
		.length = sizeof(memory),
		.iova = (uintptr_t)memory,
		.access = access,
	};
	struct mr *mr;

	assert_int_equal(mr_create(&spec, &mr), 0);
	return mr;
}

static struct mw *window(enum ibv_mw_type type)
{
	struct mw *mw;

	assert_int_equal(mw_create(pd, type, &mw), 0);
	return mw;
}

static struct ibv_mw_bind_info range(struct mr *mr, size_t offset, size_t length, unsigned access)
{
	return (struct ibv_mw_bind_info){ &mr->ib, (uintptr_t)memory + offset, length, access };
}

static enum cause bind(const struct mw *mw, uint32_t pd_number, uint32_t qpn, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	return mw_bind(mw->key, info->mr ? info->mr->lkey : 0, pd_number, qpn, rkey, info);
}

static enum key_verdict look(uint32_t key, uint32_t qpn, uint64_t addr, uint64_t length,
			     unsigned access)
{
	uint32_t flags;
	uint64_t host;

	return key_check(key_table(), key, pd->number, qpn, addr, length, access, &host, &flags);
}

static void what_a_bind_refuses(void **state)
{
	struct mr *good = region(pd, LW | BIND), *elsewhere = region(other_pd, LW | BIND);
	struct mr *no_bind = region(pd, LW), *read_only = region(pd, BIND);
	struct mr *zero = region(pd, LW | BIND | IBV_ACCESS_ZERO_BASED);
	struct mw *mw = window(IBV_MW_TYPE_2);
	const struct {
		int number;
		struct mr *mr;
		size_t offset, length;
		unsigned access;
		enum cause cause;
	} rows[] = {
		{ 1, elsewhere, 0, 8, RR, CAUSE_MW_PD },
		{ 2, no_bind, 0, 8, RR, CAUSE_MW_ACCESS },
		{ 3, read_only, 0, 8, RW, CAUSE_MW_ACCESS },
		{ 4, read_only, 0, 8, IBV_ACCESS_REMOTE_ATOMIC, CAUSE_MW_ACCESS },
		{ 5, zero, 0, 8, RR, CAUSE_MW_ACCESS },
		{ 6, good, 0, 257, RR, CAUSE_MW_RANGE },
		{ 7, good, 256, 1, RR, CAUSE_MW_RANGE },
		{ 8, good, -1, 8, RR, CAUSE_MW_RANGE },
		{ 9, good, 8, SIZE_MAX, RR, CAUSE_MW_RANGE },
		{ 10, good, 0, 8, BIND, CAUSE_MW_ACCESS },
	};
	struct ibv_mw_bind_info info = range(good, 0, 8, RR);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		info = range(rows[i].mr, rows[i].offset, rows[i].length, rows[i].access);
		if (bind(mw, pd->number, QPN, mw->ib.rkey, &info) != rows[i].cause)
			fail_msg("row %d", rows[i].number);
		assert_int_equal(atomic_load(&rows[i].mr->windows), 0);
	}
	info = range(good, 0, 8, RR);
	assert_int_equal(bind(mw, other_pd->number, QPN, mw->ib.rkey, &info), CAUSE_MW_PD);
	info = range(good, 0, 0, RR);
	assert_int_equal(bind(mw, pd->number, QPN, mw->ib.rkey, &info), CAUSE_MW_EMPTY);
	assert_int_equal(look(mw->ib.rkey, QPN, (uintptr_t)memory, 8, RR), KEY_BAD_UNKNOWN);
	mw_destroy(mw);
	mr_destroy(good);
	mr_destroy(elsewhere);
	mr_destroy(no_bind);
	mr_destroy(read_only);
	mr_destroy(zero);
}

static void type_2_is_of_one_qp_and_bound_once(void **state)
{
	struct mr *mr = region(pd, LW | BIND);
	struct mw *mw = window(IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = range(mr, 16, 32, RR | RW);
	uint32_t first = mw->ib.rkey, key = (first & ~0xffu) | 0x5a;
	uint64_t addr = (uintptr_t)memory + 16;

	/*
	 * of the wished key the low byte counts, as with adapters, and mw->rkey is the program's to
	 * set
	 */
	assert_int_equal(bind(mw, pd->number, QPN, key ^ 0xabcdef00, &info), CAUSE_NONE);
	assert_int_equal(mw->ib.rkey, first);
	assert_int_equal(look(key ^ 0xabcdef00, QPN, addr, 32, RW), KEY_BAD_UNKNOWN);
	assert_int_equal(look(key, QPN, addr, 32, RW), KEY_OK);
	assert_int_equal(look(key, QPN, addr, 33, RW), KEY_BAD_RANGE);
	assert_int_equal(look(key, OTHER, addr, 32, RW), KEY_BAD_QP);
	assert_int_equal(look(key, QPN, addr, 8, IBV_ACCESS_REMOTE_ATOMIC), KEY_BAD_ACCESS);
	assert_int_equal(look(key, QPN, addr, 8, 0), KEY_BAD_UNKNOWN); /* no L_Key */
	assert_int_equal(mr_destroy(mr), -EBUSY);
	assert_int_equal(bind(mw, pd->number, QPN, key + 1, &info), CAUSE_MW_BOUND);

	assert_int_equal(mw_invalidate(key, pd->number, OTHER), CAUSE_INVALIDATE_REFUSED);
	assert_int_equal(mw_invalidate(key, other_pd->number, QPN), CAUSE_INVALIDATE_REFUSED);
	assert_int_equal(mw_invalidate(key ^ 1, pd->number, QPN), CAUSE_INVALIDATE_REFUSED);
	assert_int_equal(mw_invalidate(mr->ib.rkey, pd->number, QPN), CAUSE_INVALIDATE_REFUSED);
	assert_int_equal(look(key, QPN, addr, 32, RW), KEY_OK);
	assert_int_equal(mw_invalidate(key, pd->number, QPN), CAUSE_NONE);
	assert_int_equal(look(key, QPN, addr, 32, RW), KEY_BAD_UNKNOWN);
	assert_int_equal(mw_invalidate(key, pd->number, QPN), CAUSE_INVALIDATE_REFUSED);

	assert_int_equal(bind(mw, pd->number, QPN, key + 1, &info), CAUSE_NONE);
	mw_unbind_qp(OTHER);
	assert_int_equal(look(key + 1, QPN, addr, 32, RW), KEY_OK);
	mw_unbind_qp(QPN);
	assert_int_equal(look(key + 1, QPN, addr, 32, RW), KEY_BAD_UNKNOWN);
	assert_int_equal(mr_destroy(mr), 0);
	assert_int_equal(pd_destroy(pd), -EBUSY);
	mw_destroy(mw);
}

static void type_1_gets_a_new_key_with_each_bind(void **state)
{
	struct mr *mr = region(pd, LW | BIND), *second = region(pd, LW | BIND);
	struct mw *mw = window(IBV_MW_TYPE_1);
	struct ibv_mw_bind_info info = range(mr, 0, 64, RR);
	uint32_t first = ibv_inc_rkey(mw->ib.rkey), next = ibv_inc_rkey(first);
	uint64_t addr = (uintptr_t)memory;

	assert_int_equal(bind(mw, pd->number, QPN, first, &info), CAUSE_NONE);
	assert_int_equal(look(first, QPN, addr, 64, RR), KEY_OK);
	assert_int_equal(look(first, OTHER, addr, 64, RR), KEY_OK);
	assert_int_equal(mw_invalidate(first, pd->number, QPN), CAUSE_INVALIDATE_REFUSED);

	info = range(second, 8, 8, RR | IBV_ACCESS_ZERO_BASED);
	assert_int_equal(bind(mw, pd->number, QPN, next, &info), CAUSE_NONE);
	assert_int_equal(look(first, QPN, addr, 64, RR), KEY_BAD_UNKNOWN);
	assert_int_equal(look(next, QPN, 0, 8, RR), KEY_OK);
	assert_int_equal(mr_destroy(mr), 0);
	assert_int_equal(mr_destroy(second), -EBUSY);

	info = (struct ibv_mw_bind_info){ 0 };
	assert_int_equal(bind(mw, pd->number, QPN, ibv_inc_rkey(next), &info), CAUSE_NONE);
	assert_int_equal(look(next, QPN, 0, 8, RR), KEY_BAD_UNKNOWN);
	assert_int_equal(mr_destroy(second), 0);
	mw_destroy(mw);
}

static void a_window_that_goes_lets_its_region_go(void **state)
{
	struct mr *mr = region(pd, LW | BIND);
	struct mw *mw = window(IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = range(mr, 0, 64, RR);
	uint32_t key = mw->ib.rkey;

	assert_int_equal(bind(mw, pd->number, QPN, key, &info), CAUSE_NONE);
	mw_destroy(mw);
	assert_int_equal(look(key, QPN, (uintptr_t)memory, 8, RR), KEY_BAD_UNKNOWN);
	assert_int_equal(mr_destroy(mr), 0);
}

/*
 * A hazard on the key, as of a thread in the middle of a copy; for ever, if its process is stopped.
 */
static struct arena_hazard *copy_by(uint32_t key)
{
	return hazard_set(HARNESS_SLOT, key);
}

static void a_bind_is_over_when_nobody_copies(void **state)
{
	struct mr *mr = region(pd, LW | BIND);
	struct mw *mw = window(IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = range(mr, 0, 64, RR);
	uint32_t key = mw->ib.rkey;
	struct arena_hazard *hazard;

	assert_int_equal(bind(mw, pd->number, QPN, key, &info), CAUSE_NONE);
	hazard = copy_by(key);
	assert_int_equal(mw_invalidate(key, pd->number, QPN), CAUSE_COPY_UNFINISHED);
	assert_int_equal(look(key, QPN, (uintptr_t)memory, 8, RR), KEY_BAD_UNKNOWN);
	assert_false(mw_is_over(key));
	assert_int_equal(bind(mw, pd->number, QPN, key + 1, &info), CAUSE_COPY_UNFINISHED);
	assert_int_equal(mw_destroy(mw), -EBUSY);
	assert_int_equal(mr_destroy(mr), -EBUSY);
	hazard_clear(hazard);
	assert_true(mw_is_over(key));
	assert_int_equal(bind(mw, pd->number, QPN, key + 1, &info), CAUSE_MW_GONE); /* dying */
	assert_int_equal(mr_destroy(mr), 0);
	assert_int_equal(mw_destroy(mw), 0);
}

/* A peer repeats its request. When that succeeds the key is dead, whatever was bound meanwhile. */
static void a_refused_invalidation_is_repeated(void **state)
{
	struct mr *mr = region(pd, LW | BIND);
	struct mw *mw = window(IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = range(mr, 0, 64, RR);
	uint32_t key = mw->ib.rkey, revoked = 0;
	struct arena_hazard *hazard;

	assert_int_equal(mw_invalidate_once(key, pd->number, QPN, &revoked),
			 CAUSE_INVALIDATE_REFUSED);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(bind(mw, pd->number, QPN, key, &info), CAUSE_NONE);
		hazard = copy_by(key);
		for (int tries = 0; tries < 3; tries++) {
			assert_int_equal(mw_invalidate_once(key, pd->number, QPN, &revoked),
					 CAUSE_COPY_UNFINISHED);
			assert_int_equal(revoked, key);
		}
		hazard_clear(hazard);
		if (again)
			assert_int_equal(bind(mw, pd->number, QPN, key, &info), CAUSE_NONE);
		assert_int_equal(mw_invalidate_once(key, pd->number, QPN, &revoked), CAUSE_NONE);
		assert_int_equal(revoked, 0);
		assert_int_equal(look(key, QPN, (uintptr_t)memory, 8, RR), KEY_BAD_UNKNOWN);
		assert_int_equal(mw_invalidate_once(key, pd->number, QPN, &revoked),
				 CAUSE_INVALIDATE_REFUSED);
	}
	assert_int_equal(mw_destroy(mw), 0);
	assert_int_equal(mr_destroy(mr), 0);
}

static void a_bind_that_replaces_another_waits_for_its_copies(void **state)
{
	struct mr *mr = region(pd, LW | BIND);
	struct mw *mw = window(IBV_MW_TYPE_1);
	struct ibv_mw_bind_info info = range(mr, 0, 64, RR);
	uint32_t first = ibv_inc_rkey(mw->ib.rkey), next = ibv_inc_rkey(first);
	struct arena_hazard *hazard;

	assert_int_equal(bind(mw, pd->number, QPN, first, &info), CAUSE_NONE);
	hazard = copy_by(first);
	assert_int_equal(bind(mw, pd->number, QPN, next, &info), CAUSE_COPY_UNFINISHED);
	assert_int_equal(look(first, QPN, (uintptr_t)memory, 8, RR), KEY_BAD_UNKNOWN);
	assert_int_equal(look(next, QPN, (uintptr_t)memory, 8, RR), KEY_BAD_UNKNOWN);
	assert_int_equal(atomic_load(&mr->windows), 0);
	hazard_clear(hazard);
	assert_int_equal(bind(mw, pd->number, QPN, next, &info), CAUSE_NONE);
	assert_int_equal(look(next, QPN, (uintptr_t)memory, 8, RR), KEY_OK);
	assert_int_equal(mw_destroy(mw), 0);
	assert_int_equal(mr_destroy(mr), 0);
}

static void a_region_whose_memory_is_copied_stays(void **state)
{
	struct mr *mr = region(pd, LW | BIND);
	struct arena_hazard *hazard = copy_by(mr->ib.rkey);

	assert_int_equal(mr_change(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW), -EBUSY);
	assert_int_equal(look(mr->ib.rkey, QPN, (uintptr_t)memory, 8, 0), KEY_OK); /* as it was */
	assert_int_equal(mr_destroy(mr), -EBUSY);
	assert_int_equal(look(mr->ib.rkey, QPN, (uintptr_t)memory, 8, 0), KEY_BAD_UNKNOWN);
	assert_int_equal(mr_change(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, LW), -EBUSY);
	hazard_clear(hazard);
	assert_int_equal(mr_destroy(mr), 0);
}

/* The program destroys window and region while a bind of them waits: the bind fails. */
static void a_bind_finds_what_is_gone_gone(void **state)
{
	struct mr *mr = region(pd, LW | BIND), *other = region(pd, LW | BIND);
	struct mw *mw = window(IBV_MW_TYPE_1);
	struct ibv_mw_bind_info info = range(mr, 0, 64, RR);
	uint32_t first = ibv_inc_rkey(mw->ib.rkey), next = ibv_inc_rkey(first);
	uint32_t window_key = mw->key, other_key = other->ib.lkey;
	struct arena_hazard *hazard;

	assert_int_equal(bind(mw, pd->number, QPN, first, &info), CAUSE_NONE);
	info = range(other, 0, 64, RR);
	hazard = copy_by(first);
	assert_int_equal(mw_bind(window_key, other_key, pd->number, QPN, next, &info),
			 CAUSE_COPY_UNFINISHED);
	assert_int_equal(mr_destroy(other), 0);
	assert_int_equal(mw_bind(window_key, other_key, pd->number, QPN, next, &info),
			 CAUSE_MW_GONE);
	hazard_clear(hazard);
	assert_int_equal(mw_bind(window_key, other_key, pd->number, QPN, next, &info),
			 CAUSE_MW_GONE);
	assert_int_equal(mw_destroy(mw), 0);
	assert_int_equal(mw_bind(window_key, other_key, pd->number, QPN, next, &info),
			 CAUSE_MW_GONE);
	assert_int_equal(mr_destroy(mr), 0);
}

static void windows_of_a_parent_process(void **state)
{
	struct mw *mw = window(IBV_MW_TYPE_2);

	hazard_reset_after_fork();
	key_table_reset_after_fork();
	mw_reset_after_fork();
	mw_unbind_qp(QPN);
	mw_destroy(mw);
	harness_arena();
	mw_destroy(window(IBV_MW_TYPE_2));
}

static int tear_down(void **state)
{
	return pd_destroy(pd) || pd_destroy(other_pd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_bind_refuses),
		cmocka_unit_test(type_2_is_of_one_qp_and_bound_once),
		cmocka_unit_test(type_1_gets_a_new_key_with_each_bind),
		cmocka_unit_test(a_window_that_goes_lets_its_region_go),
		cmocka_unit_test(a_bind_is_over_when_nobody_copies),
		cmocka_unit_test(a_refused_invalidation_is_repeated),
		cmocka_unit_test(a_bind_that_replaces_another_waits_for_its_copies),
		cmocka_unit_test(a_region_whose_memory_is_copied_stays),
		cmocka_unit_test(a_bind_finds_what_is_gone_gone),
		cmocka_unit_test(windows_of_a_parent_process),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
