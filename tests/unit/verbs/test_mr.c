/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions as a program makes them, through the verbs. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/adapter.h"
#include "../memory/harness.h"
#include "object/context.h"
#include "object/dm.h"
#include "object/mr.h"
#include "object/mw.h"
#include "verbs/ops.h"

static struct context context = { .verbs.context.cmd_fd = -1 };
static struct ibv_pd *pd;
static size_t page;
static bool foreign;

bool adapter_is_foreign(const struct context *c)
{
	return foreign;
}

uint32_t adapter_slot(void)
{
	return HARNESS_SLOT;
}

static int set_up(void **state)
{
	page = sysconf(_SC_PAGESIZE);
	harness_arena();
	pd = ibv_alloc_pd(&context.verbs.context);
	return pd ? 0 : -1;
}

static char *map(int protection)
{
	char *memory = mmap(NULL, 4 * page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* 0, or the errno of a registration that failed. */
static int try_register(void *addr, size_t length, unsigned access)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
	if (!mr)
		return errno ? errno : -1;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	return 0;
}

static void access_rules(void **state)
{
	const struct {
		int number;
		unsigned access;
		int error;
	} rows[] = {
		{ 1, 0, 0 },
		{ 2, IBV_ACCESS_LOCAL_WRITE, 0 },
		{ 3, IBV_ACCESS_REMOTE_READ, 0 },
		{ 4, IBV_ACCESS_REMOTE_WRITE, EINVAL },
		{ 5, IBV_ACCESS_REMOTE_ATOMIC, EINVAL },
		{ 6, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, EINVAL },
		{ 7, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE,
		  0 },
		{ 8, IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE, 0 },
		{ 9, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE, 0 },
		{ 10, IBV_ACCESS_ON_DEMAND, 0 },
		{ 11, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB, 0 },
		{ 12, 1 << 9, EINVAL },
		{ 13, 1 << 19, EINVAL },
		{ 14, IBV_ACCESS_RELAXED_ORDERING, 0 },
		{ 15, 1 << 29, 0 }, /* optional, unknown */
		{ 16, 1u << 31, EINVAL },
	};
	char *memory = map(PROT_READ | PROT_WRITE);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int error = try_register(memory, page, rows[i].access);

		if (error != rows[i].error)
			fail_msg("row %d: errno %d", rows[i].number, error);
	}
	munmap(memory, 4 * page);
}

static void memory_has_to_be_there(void **state)
{
	char *memory = map(PROT_READ | PROT_WRITE), *readable = map(PROT_READ);
	char *nothing = map(PROT_NONE);

	munmap(memory + 2 * page, page);
	assert_int_equal(try_register(memory, 2 * page, IBV_ACCESS_LOCAL_WRITE), 0);
	assert_int_equal(try_register(memory, 4 * page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	assert_int_equal(try_register(memory, 2 * page + 1, 0), EFAULT);
	assert_int_equal(try_register(memory + 2 * page, 1, 0), EFAULT);
	assert_int_equal(try_register(memory + 2 * page, 0, 0), 0);
	assert_int_equal(try_register(memory, 4 * page, IBV_ACCESS_ON_DEMAND), 0);
	assert_int_equal(try_register(readable, page, 0), 0);
	assert_int_equal(try_register(readable, page, IBV_ACCESS_REMOTE_READ), 0);
	assert_int_equal(try_register(readable, page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	assert_int_equal(try_register(nothing, page, 0), EFAULT);
	assert_int_equal(try_register(memory, SIZE_MAX - 10, 0), EINVAL);
	assert_int_equal(try_register((void *)16, 16, 0), EFAULT);
	munmap(memory, 4 * page);
	munmap(readable, 4 * page);
	munmap(nothing, 4 * page);
}

static void files_can_be_registered(void **state)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	char *memory;

	assert_int_equal(ftruncate(fd, page), 0);
	memory = mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, fd, 0);
	assert_int_equal(try_register(memory, page, 0), 0);
	assert_int_equal(try_register(memory, 2 * page, 0), EFAULT); /* behind its end */
	munmap(memory, 2 * page);
	close(fd);
}

static void the_whole_address_space_is_on_demand(void **state)
{
	assert_int_equal(try_register(NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND), 0);
	assert_int_equal(try_register(NULL, SIZE_MAX, 0), EINVAL);
	assert_int_equal(try_register(NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL);
}

static enum key_verdict look(struct ibv_mr *mr, uint64_t addr, uint64_t length, unsigned access,
			     uint64_t *host)
{
	uint32_t flags;

	return key_check(key_table(), mr->rkey, pd_of(mr->pd)->number, 0, addr, length, access,
			 host, &flags);
}

static void addresses_of_each_kind(void **state)
{
	char *memory = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *plain, *zero, *shifted;
	uint64_t host = 0;

	plain = ibv_reg_mr_iova2(pd, memory, 64, (uintptr_t)memory, 0);
	zero = ibv_reg_mr_iova2(pd, memory, 64, (uintptr_t)memory, IBV_ACCESS_ZERO_BASED);
	shifted = ibv_reg_mr_iova2(pd, memory, 64, 0x70000000, 0);
	assert_non_null(plain);
	assert_non_null(zero);
	assert_non_null(shifted);
	assert_int_equal(plain->lkey, plain->rkey);
	assert_ptr_equal(plain->addr, memory);
	assert_int_equal(plain->length, 64);
	assert_int_equal(look(plain, (uintptr_t)memory + 8, 8, 0, &host), KEY_OK);
	assert_true(host == (uintptr_t)memory + 8);
	assert_int_equal(look(zero, 8, 56, 0, &host), KEY_OK);
	assert_true(host == (uintptr_t)memory + 8);
	assert_int_equal(look(zero, 8, 57, 0, &host), KEY_BAD_RANGE);
	assert_int_equal(look(shifted, 0x70000008, 8, 0, &host), KEY_OK);
	assert_true(host == (uintptr_t)memory + 8);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(plain), 0);
	assert_int_equal(ibv_dereg_mr(zero), 0);
	assert_int_equal(ibv_dereg_mr(shifted), 0);
	munmap(memory, 4 * page);
}

#define BAD IBV_REREG_MR_ERR_INPUT /* rdma-core refuses */
#define CMD IBV_REREG_MR_ERR_CMD   /* the kernel refuses */

static void rereg_refuses_and_leaves_the_region(void **state)
{
	static struct context other = { .verbs.context.cmd_fd = -1 };
	struct ibv_pd *foreign_pd = ibv_alloc_pd(&other.verbs.context);
	char *memory = map(PROT_READ | PROT_WRITE), *readable = map(PROT_READ);
	const struct {
		int number, flags;
		struct ibv_pd *pd;
		void *addr;
		size_t length;
		int access, result, error;
	} rows[] = {
		{ 1, 0, NULL, NULL, 0, 0, CMD, EINVAL },
		{ 2, 8, NULL, NULL, 0, 0, BAD, EINVAL },
		{ 3, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0, BAD, EINVAL },
		{ 4, IBV_REREG_MR_CHANGE_PD, foreign_pd, NULL, 0, 0, CMD, EINVAL },
		{ 5, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 64, 0, BAD, EINVAL },
		{ 6, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 0, 0, BAD, EINVAL },
		{ 7, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 64, 1, BAD, EINVAL },
		{ 8, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)16, 64, 0, CMD, EFAULT },
		{ 9, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, readable, 64, 0, CMD, EFAULT },
		{ 10, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, CMD,
		  EINVAL },
		{ 11, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1 << 9, CMD, EINVAL },
	};
	struct ibv_mr *mr;
	uint64_t host;

	mr = ibv_reg_mr_iova2(pd, memory, 64, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int ret;

		errno = 0;
		ret = ibv_rereg_mr(mr, rows[i].flags, rows[i].pd, rows[i].addr, rows[i].length,
				   rows[i].access);
		if (ret != rows[i].result || errno != rows[i].error)
			fail_msg("row %d: %d, errno %d", rows[i].number, ret, errno);
		assert_int_equal(look(mr, (uintptr_t)memory, 64, IBV_ACCESS_LOCAL_WRITE, &host),
				 KEY_OK);
	}
	atomic_store(&mr_of(mr)->windows, 1);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), CMD);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	atomic_store(&mr_of(mr)->windows, 0);
	mr->handle ^= 1;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), CMD);
	assert_int_equal(errno, ENOENT);
	mr->handle ^= 1;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(foreign_pd), 0);
	munmap(memory, 4 * page);
	munmap(readable, 4 * page);
}

static void rereg_in_all_forms(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(&context.verbs.context);
	char *memory = map(PROT_READ | PROT_WRITE);
	const int all = IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS |
			IBV_REREG_MR_CHANGE_TRANSLATION;
	struct ibv_mr *mr = ibv_reg_mr_iova2(pd, memory, 64, (uintptr_t)memory, 0);
	uint64_t host, addr = (uintptr_t)memory;

	assert_int_equal(look(mr, addr, 64, IBV_ACCESS_LOCAL_WRITE, &host), KEY_BAD_ACCESS);
	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
		0);
	assert_int_equal(look(mr, addr, 64, IBV_ACCESS_LOCAL_WRITE, &host), KEY_OK);

	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + 32, 128, 0), 0);
	assert_int_equal(look(mr, addr, 64, 0, &host), KEY_BAD_RANGE);
	assert_int_equal(look(mr, addr + 32, 128, IBV_ACCESS_LOCAL_WRITE, &host), KEY_OK);
	assert_ptr_equal(mr->addr, memory + 32);
	assert_int_equal(mr->length, 128);

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_ptr_equal(mr->pd, other);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	assert_int_equal(look(mr, addr + 32, 128, 0, &host), KEY_OK);

	assert_int_equal(ibv_rereg_mr(mr, all, pd, memory, 16, 0), 0);
	assert_int_equal(look(mr, addr, 16, 0, &host), KEY_OK);
	assert_int_equal(look(mr, addr, 16, IBV_ACCESS_LOCAL_WRITE, &host), KEY_BAD_ACCESS);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(memory, 4 * page);
}

/* Within a page: its remote addresses begin at 0 all the same. */
static void rereg_of_a_zero_based_region(void **state)
{
	char *memory = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = ibv_reg_mr_iova2(pd, memory + 32, 64, (uintptr_t)memory + 32,
					     IBV_ACCESS_ZERO_BASED);
	uint64_t host;

	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE),
			 0);
	assert_int_equal(look(mr, 0, 64, IBV_ACCESS_LOCAL_WRITE, &host), KEY_OK);
	assert_true(host == (uintptr_t)memory + 32);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(memory, 4 * page);
}

static void null_regions(void **state)
{
	struct ibv_mr *mr = verbs_alloc_null_mr(pd);
	uint32_t flags = 0;
	uint64_t host;

	assert_non_null(mr);
	assert_int_equal(key_check(key_table(), mr->lkey, pd_of(pd)->number, 0, 12345, 1 << 30,
				   IBV_ACCESS_LOCAL_WRITE, &host, &flags),
			 KEY_OK);
	assert_true(flags & KEY_NULL);
	assert_int_equal(look(mr, 0, 8, IBV_ACCESS_REMOTE_READ, &host), KEY_BAD_ACCESS);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), BAD);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void advice(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(&context.verbs.context);
	char *memory = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr, *plain, *readable;
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = page };
	const int read = IBV_ADVISE_MR_ADVICE_PREFETCH, write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;

	mr = ibv_reg_mr_iova2(pd, NULL, SIZE_MAX, 0, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
	readable = ibv_reg_mr_iova2(pd, NULL, SIZE_MAX, 0, IBV_ACCESS_ON_DEMAND);
	plain = ibv_reg_mr_iova2(pd, memory, page, (uintptr_t)memory, 0);
	sge.lkey = mr->lkey;
	assert_int_equal(verbs_advise_mr(pd, read, 0, &sge, 1), 0);
	assert_int_equal(verbs_advise_mr(pd, write, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
	assert_int_equal(verbs_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1),
			 0);
	assert_int_equal(verbs_advise_mr(pd, 99, 0, &sge, 1), ENOTSUP);
	assert_int_equal(verbs_advise_mr(pd, read, 2, &sge, 1), EINVAL);
	assert_int_equal(verbs_advise_mr(pd, read, 0, &sge, 0), EINVAL);
	assert_int_equal(verbs_advise_mr(other, read, 0, &sge, 1), EPERM);
	sge.lkey = readable->lkey;
	assert_int_equal(verbs_advise_mr(pd, write, 0, &sge, 1), EPERM);
	sge.lkey = plain->lkey;
	assert_int_equal(verbs_advise_mr(pd, read, 0, &sge, 1), EINVAL);
	sge.lkey = mr->lkey ^ 1;
	assert_int_equal(verbs_advise_mr(pd, read, 0, &sge, 1), EFAULT);
	sge.lkey = mr->lkey;
	munmap(memory, 4 * page);
	assert_int_equal(verbs_advise_mr(pd, read, 0, &sge, 1), EFAULT);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(readable);
	ibv_dereg_mr(plain);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void device_memory(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	const unsigned access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
	char word[8] = "abcdefg", back[8];
	struct ibv_dm *dm, *rest;
	struct ibv_mr *mr;
	uint64_t host;

	dm = verbs_alloc_dm(&context.verbs.context, &attr);
	assert_non_null(dm);
	assert_int_equal(dm->memcpy_to_dm(dm, 4088, word, 8), 0);
	assert_int_equal(dm->memcpy_from_dm(back, dm, 4088, 8), 0);
	assert_memory_equal(word, back, 8);
	assert_int_equal(dm->memcpy_to_dm(dm, 1, word, 4), EINVAL);
	assert_int_equal(dm->memcpy_to_dm(dm, 4, word, 3), EINVAL);
	assert_int_equal(dm->memcpy_to_dm(dm, 4092, word, 8), EINVAL);
	assert_int_equal(dm->memcpy_to_dm(dm, UINT64_MAX - 3, word, 8), EINVAL);

	assert_null(verbs_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE));
	assert_null(verbs_reg_dm_mr(pd, dm, 4000, 97, access));
	mr = verbs_reg_dm_mr(pd, dm, 64, 128, access);
	assert_non_null(mr);
	assert_int_equal(look(mr, 0, 128, IBV_ACCESS_LOCAL_WRITE, &host), KEY_OK);
	assert_true(host == (uintptr_t)dm_of(dm)->memory + 64);
	assert_int_equal(verbs_free_dm(dm), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);

	attr.length = DM_BYTES_MAX - 4096 + 1;
	assert_null(verbs_alloc_dm(&context.verbs.context, &attr));
	assert_int_equal(errno, ENOMEM);
	attr.length--;
	attr.log_align_req = 16;
	rest = verbs_alloc_dm(&context.verbs.context, &attr);
	assert_non_null(rest);
	assert_int_equal((uintptr_t)dm_of(rest)->memory & 0xffff, 0);
	assert_int_equal(verbs_free_dm(rest), 0);
	assert_int_equal(verbs_free_dm(dm), 0);
	attr.comp_mask = 1;
	assert_null(verbs_alloc_dm(&context.verbs.context, &attr));
	assert_int_equal(atomic_load(&context.dm_bytes), 0);
}

static void parent_domains(void **state)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = verbs_alloc_td(&context.verbs.context, &td_attr);
	struct ibv_pd *base = ibv_alloc_pd(&context.verbs.context), *parent;
	struct ibv_parent_domain_init_attr attr = { .pd = base, .td = td };

	parent = verbs_alloc_parent_domain(&context.verbs.context, &attr);
	assert_non_null(parent);
	assert_int_equal(pd_of(parent)->number, pd_of(base)->number);
	assert_int_equal(ibv_dealloc_pd(base), EBUSY);
	assert_int_equal(verbs_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(verbs_dealloc_td(td), 0);
	assert_int_equal(ibv_dealloc_pd(base), 0);
	attr.comp_mask = 1 << 5;
	assert_null(verbs_alloc_parent_domain(&context.verbs.context, &attr));
	attr = (struct ibv_parent_domain_init_attr){ 0 };
	assert_null(verbs_alloc_parent_domain(&context.verbs.context, &attr));
}

/* In the child of a fork: the parent's regions are freed, and new ones refused, without harm. */
static void regions_of_a_parent_process(void **state)
{
	char memory[64];
	struct ibv_mr *mr = ibv_reg_mr_iova2(pd, memory, 64, (uintptr_t)memory, 0);

	assert_non_null(mr);
	hazard_reset_after_fork();
	key_table_reset_after_fork();
	mw_reset_after_fork();
	foreign = true;
	assert_int_equal(try_register(memory, 64, 0), EINVAL);
	foreign = false;
	assert_int_equal(try_register(memory, 64, 0), EINVAL); /* no table */
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), CMD);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	harness_arena();
	assert_int_equal(try_register(memory, 64, 0), 0);
}

static int tear_down(void **state)
{
	return ibv_dealloc_pd(pd) || atomic_load(&context.objects);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(access_rules),
		cmocka_unit_test(memory_has_to_be_there),
		cmocka_unit_test(files_can_be_registered),
		cmocka_unit_test(the_whole_address_space_is_on_demand),
		cmocka_unit_test(addresses_of_each_kind),
		cmocka_unit_test(rereg_refuses_and_leaves_the_region),
		cmocka_unit_test(rereg_in_all_forms),
		cmocka_unit_test(rereg_of_a_zero_based_region),
		cmocka_unit_test(null_regions),
		cmocka_unit_test(advice),
		cmocka_unit_test(device_memory),
		cmocka_unit_test(parent_domains),
		cmocka_unit_test(regions_of_a_parent_process),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
