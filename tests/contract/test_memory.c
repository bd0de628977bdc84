/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions, and addresses that turn out to be bad: rules 6 and 8 of the contract. */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"
#include "rnic.h"

#define TARGET	  65536u
#define BUFFER	  (1u << 20)
#define ON_DEMAND (ACCESS_ALL | IBV_ACCESS_ON_DEMAND)

static struct ibv_mr *try_register(struct side *side, void *addr, size_t length, int access)
{
	errno = 0;
	return ibv_reg_mr(side->pd, addr, length, access);
}

static void rule_06_remote_write_needs_local_write(struct pair *pair)
{
	struct side *side = side_open(WITH());
	static const int bad[] = { IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC,
				   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
				   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ };
	static const int good[] = { 0, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, ACCESS_ALL };

	for (int i = 0; i < 4; i++) {
		REQUIRE(!try_register(side, side->buf, 4096, bad[i]), "access 0x%x", bad[i]);
		REQUIRE(errno == EINVAL, "access 0x%x: errno %d", bad[i], errno);
	}
	for (int i = 0; i < 5; i++) {
		struct ibv_mr *mr = try_register(side, side->buf + 3, 4096, good[i]);

		REQUIRE(mr, "access 0x%x: %s", good[i], strerror(errno));
		REQUIRE(mr->addr == side->buf + 3 && mr->length == 4096 && mr->pd == side->pd &&
				mr->context == side->context,
			"members of ibv_mr");
		REQUIRE(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
}

/* It permits only messages without data. */
static void rule_06_length_zero(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_region region;

	pair_connect(pair, WITH());
	region = add_region(b, (struct op_region){ .offset = TARGET, .access = ACCESS_ALL });
	fill(b, 0, BUFFER, 0);
	post_send(a, 0,
		  REQUEST(.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .rkey = region.rkey,
			  .remote = b->addr + TARGET));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	post_send(a, 0, WRITE(b, TARGET, .wr_id = 2, .length = 1, .rkey = region.rkey));
	expect(a, SENDS, 2, IBV_WC_REM_ACCESS_ERR);
	expect_bytes(b, 0, BUFFER, 0);
}

/* A region that cannot be: the address range has no memory. */
static void rule_06_unmapped_range_is_refused(struct pair *pair)
{
	struct side *side = side_open(WITH());
	char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	REQUIRE(memory != MAP_FAILED && munmap(memory + 4096, 4096) == 0, "mmap");
	mr = try_register(side, memory, 8192, ACCESS_ALL);
	/* Adapters pin, and so refuse; one that does not pin may find out later. */
	REQUIRE(mr || errno == EFAULT || errno == EINVAL || errno == ENOMEM, "errno %d", errno);
}

/*
 * Remote addresses count from 0. Not every rdma-core lets it through ibv_reg_mr: EINVAL is a skip.
 */
static void rule_06_zero_based(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_region region = { .offset = TARGET,
				    .length = 4096,
				    .access = ACCESS_ALL | IBV_ACCESS_ZERO_BASED };

	pair_connect(pair, WITH());
	RUN(b, op_register, &region);
	if (region.error)
		skip_because("ZERO_BASED: %s", strerror(region.error));
	fill(b, 0, BUFFER, 0);
	fill(a, 0, 64, 5);
	post_send(a, 0,
		  REQUEST(.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .rkey = region.rkey, .remote = 0,
			  .length = 64));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(b, TARGET, 64, 5);
	post_send(a, 0,
		  REQUEST(.wr_id = 2, .opcode = IBV_WR_RDMA_READ, .rkey = region.rkey,
			  .remote = 4096 - 64, .length = 64, .offset = 4096));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect_bytes(a, 4096, 64, 0);
	post_send(a, 0,
		  REQUEST(.wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .rkey = region.rkey,
			  .remote = b->addr + TARGET, .length = 64));
	expect(a, SENDS, 3, IBV_WC_REM_ACCESS_ERR);
}

struct op_iova {
	uint64_t offset, length, iova;
	uint32_t rkey, lkey;
	int error;
};

static void op_register_iova(struct side *side, void *argument)
{
	struct op_iova *op = argument;
	struct ibv_mr *mr =
		ibv_reg_mr_iova(side->pd, side->buf + op->offset, op->length, op->iova, ACCESS_ALL);

	op->error = mr ? 0 : errno;
	op->rkey = mr ? mr->rkey : 0;
	op->lkey = mr ? mr->lkey : 0;
}

/* Both the remote address and that of an SGE are the program's own choice then. */
static void rule_06_own_addresses(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_iova theirs = { .offset = TARGET, .length = 4096, .iova = 0x70000 };
	struct op_iova ours = { .offset = 8192, .length = 4096, .iova = 0x120000 + 8192 };

	pair_connect(pair, WITH());
	RUN(b, op_register_iova, &theirs);
	RUN(a, op_register_iova, &ours);
	REQUIRE(theirs.error == 0 && ours.error == 0, "ibv_reg_mr_iova: %s",
		strerror(theirs.error));
	fill(a, 8192, 256, 6);
	fill(b, 0, BUFFER, 0);
	post_send(a, 0,
		  REQUEST(.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .rkey = theirs.rkey,
			  .remote = theirs.iova + 16, .num_sge = 1,
			  .sge = { { ours.iova, 256, ours.lkey } }));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(b, TARGET + 16, 256, 6);
	expect_bytes(b, 0, TARGET + 16, 0);
}

struct op_reregister {
	int flags;
	uint64_t offset, length;
	int access;
	bool other_pd;
	uint32_t rkey;
	int result;
};

static void op_reregister(struct side *side, void *argument)
{
	struct op_reregister *op = argument;

	op->result =
		ibv_rereg_mr(side->region[0], op->flags, op->other_pd ? side->other_pd : side->pd,
			     side->buf + op->offset, op->length, op->access);
	op->rkey = side->region[0]->rkey;
}

static void expect_write(struct pair *pair, int qp, uint64_t at, uint32_t rkey,
			 enum ibv_wc_status status)
{
	fill(&pair->a, 0, 64, 7);
	fill(&pair->b, 0, BUFFER, 0);
	post_send(&pair->a, qp, WRITE(&pair->b, at, .wr_id = 1, .length = 64, .rkey = rkey));
	expect(&pair->a, SENDS, 1, status);
	expect_bytes(&pair->b, at, 64, status == IBV_WC_SUCCESS ? 7 : 0);
}

static struct op_reregister reregister(struct end *end, struct op_reregister op)
{
	RUN(end, op_reregister, &op);
	if (op.result == IBV_REREG_MR_ERR_CMD && (errno == EOPNOTSUPP || errno == ENOSYS))
		skip_because("ibv_rereg_mr: %s", strerror(errno));
	return op;
}

static void rule_06_rereg_three_forms(struct pair *pair)
{
	struct end *b = &pair->b;
	struct op_reregister op;
	struct op_region region;

	pair_connect(pair, WITH(.qps = 4));
	region = add_region(b, (struct op_region){ .offset = TARGET,
						   .length = 4096,
						   .access = IBV_ACCESS_LOCAL_WRITE });
	expect_write(pair, 0, TARGET, region.rkey, IBV_WC_REM_ACCESS_ERR);

	op = reregister(b, (struct op_reregister){ .flags = IBV_REREG_MR_CHANGE_ACCESS,
						   .access = ACCESS_ALL });
	REQUIRE(op.result == 0, "CHANGE_ACCESS: %d", op.result);
	expect_write(pair, 1, TARGET, op.rkey, IBV_WC_SUCCESS);

	op = reregister(b, (struct op_reregister){ .flags = IBV_REREG_MR_CHANGE_TRANSLATION,
						   .offset = 2 * TARGET,
						   .length = 8192 });
	REQUIRE(op.result == 0, "CHANGE_TRANSLATION: %d", op.result);
	expect_write(pair, 1, 2 * TARGET + 8192 - 64, op.rkey, IBV_WC_SUCCESS);
	expect_write(pair, 2, TARGET, op.rkey, IBV_WC_REM_ACCESS_ERR);

	op = reregister(
		b, (struct op_reregister){ .flags = IBV_REREG_MR_CHANGE_PD, .other_pd = true });
	REQUIRE(op.result == 0, "CHANGE_PD: %d", op.result);
	expect_write(pair, 3, 2 * TARGET, op.rkey, IBV_WC_REM_ACCESS_ERR);
	op = reregister(b, (struct op_reregister){ .flags = IBV_REREG_MR_CHANGE_PD |
							    IBV_REREG_MR_CHANGE_ACCESS |
							    IBV_REREG_MR_CHANGE_TRANSLATION,
						   .offset = TARGET,
						   .length = 4096,
						   .access = ACCESS_ALL });
	REQUIRE(op.result == 0, "all three: %d", op.result);
	expect_write(pair, 1, TARGET, op.rkey, IBV_WC_SUCCESS);
}

/* Its own codes: with ERR_INPUT the region is as it was. */
static void rule_06_rereg_errors(struct pair *pair)
{
	struct end *b = &pair->b;
	struct op_reregister op;
	struct op_region region;

	pair_connect(pair, WITH());
	region = add_region(
		b, (struct op_region){ .offset = TARGET, .length = 4096, .access = ACCESS_ALL });
	op = reregister(b, (struct op_reregister){ .flags = 1 << 20 });
	REQUIRE(op.result == IBV_REREG_MR_ERR_INPUT, "unknown flags: %d", op.result);
	op = reregister(b, (struct op_reregister){ .flags = IBV_REREG_MR_CHANGE_TRANSLATION,
						   .offset = TARGET,
						   .length = 0 });
	REQUIRE(op.result == IBV_REREG_MR_ERR_INPUT, "length 0: %d", op.result);
	expect_write(pair, 0, TARGET, region.rkey, IBV_WC_SUCCESS);
}

/* From here on: bad addresses behind good keys. No process may get a signal; see runner.c. */

static uint32_t mapped_target(struct end *end, int access, struct op_memory *memory)
{
	struct op_region region;

	*memory = (struct op_memory){ .length = 65536, .seed = 9 };
	RUN(end, op_map, memory);
	REQUIRE(memory->error == 0, "mmap: %s", strerror(memory->error));
	region = (struct op_region){ .addr = memory->addr,
				     .length = memory->length,
				     .access = access };
	RUN(end, op_register, &region);
	if (region.error)
		skip_because("cannot register: %s", strerror(region.error));
	return region.rkey;
}

static void unmap(struct end *end, struct op_memory memory)
{
	RUN(end, op_unmap, &memory);
	REQUIRE(memory.error == 0, "munmap: %s", strerror(memory.error));
}

/* Some error of the remote side: the IBA does not say which. */
static void expect_remote_error(struct end *end, uint64_t wr_id)
{
	struct op_poll op = { .which = SENDS, .timeout_ms = WAIT_MS };

	RUN(end, op_poll, &op);
	REQUIRE(op.result == 1 && op.wc.wr_id == wr_id, "no completion of request %d", (int)wr_id);
	REQUIRE(op.wc.status == IBV_WC_REM_ACCESS_ERR || op.wc.status == IBV_WC_REM_OP_ERR,
		"status %s", ibv_wc_status_str(op.wc.status));
}

static void expect_bad_target(struct pair *pair, uint64_t addr, uint32_t rkey)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
	} rows[] = { { IBV_WR_RDMA_WRITE, 8 },
		     { IBV_WR_RDMA_WRITE, 65536 },
		     { IBV_WR_RDMA_READ, 8 },
		     { IBV_WR_RDMA_READ, 65536 },
		     { IBV_WR_ATOMIC_FETCH_AND_ADD, 8 },
		     { IBV_WR_ATOMIC_CMP_AND_SWP, 8 } };

	for (int qp = 0; qp < 6; qp++) {
		post_send(&pair->a, qp,
			  REQUEST(.wr_id = 1, .opcode = rows[qp].opcode, .remote = addr,
				  .rkey = rkey, .length = rows[qp].length));
		expect_remote_error(&pair->a, 1);
		expect_state(&pair->a, qp, IBV_QPS_ERR);
	}
	expect_working(pair, 6);
}

static void rule_06_target_unmapped(struct pair *pair)
{
	struct op_memory memory;
	uint32_t rkey;

	pair_connect(pair, WITH(.qps = 7));
	rkey = mapped_target(&pair->b, ACCESS_ALL, &memory);
	unmap(&pair->b, memory);
	expect_bad_target(pair, memory.addr, rkey);
}

/* A peer used it before it was unmapped, and must not use cached state of it again. */
static void rule_06_target_unmapped_after_use(struct pair *pair)
{
	struct op_memory memory;
	uint32_t rkey;

	pair_connect(pair, WITH(.qps = 7));
	rkey = mapped_target(&pair->b, ACCESS_ALL, &memory);
	post_send(&pair->a, 6,
		  REQUEST(.wr_id = 1, .opcode = IBV_WR_RDMA_READ, .length = 65536,
			  .remote = memory.addr, .rkey = rkey));
	expect(&pair->a, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(&pair->a, 0, 65536, 9);
	unmap(&pair->b, memory);
	expect_bad_target(pair, memory.addr, rkey);
}

static void rule_06_on_demand_target_unmapped(struct pair *pair)
{
	struct op_memory memory;
	uint32_t rkey;

	pair_connect(pair, WITH(.qps = 7));
	rkey = mapped_target(&pair->b, ON_DEMAND, &memory);
	unmap(&pair->b, memory);
	expect_bad_target(pair, memory.addr, rkey);
}

/*
 * An adapter has pinned a normal region, so munmap does not matter to it; without pinning the
 * result of local use is left open here. On-demand regions give an error.
 */
static void rule_06_on_demand_receive_buffer_unmapped(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_memory memory;
	uint32_t key;

	pair_connect(pair, WITH(.qps = 3));
	key = mapped_target(b, ON_DEMAND, &memory);
	unmap(b, memory);
	for (int qp = 0; qp < 2; qp++) {
		post_receive(
			b, qp,
			RECEIVE(.wr_id = 50, .num_sge = 1, .sge = { { memory.addr, 65536, key } }));
		post_send(a, qp, SEND(.wr_id = 1, .length = qp ? 65536 : 8));
		expect(a, SENDS, 1, IBV_WC_REM_OP_ERR);
		expect(b, RECEIVES, 50, IBV_WC_LOC_PROT_ERR);
		expect_state(b, qp, IBV_QPS_ERR);
	}
	expect_working(pair, 2);
}

static void rule_06_on_demand_source_unmapped(struct pair *pair)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						      IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	struct end *a = &pair->a, *b = &pair->b;
	struct op_memory memory;
	uint32_t key;

	pair_connect(pair, WITH(.qps = 6));
	key = mapped_target(a, ON_DEMAND, &memory);
	unmap(a, memory);
	for (int qp = 0; qp < 5; qp++) {
		post_receive(b, qp, RECEIVE(.wr_id = 50, .length = 65536));
		post_send(a, qp,
			  REQUEST(.wr_id = 1, .opcode = opcodes[qp], TO(b, 0), .num_sge = 1,
				  .sge = { { memory.addr, qp % 2 ? 65536 : 8, key } }));
		expect(a, SENDS, 1, IBV_WC_LOC_PROT_ERR);
		expect_state(a, qp, IBV_QPS_ERR);
		expect_none(b, RECEIVES);
	}
	expect_working(pair, 5);
}

static void implicit_region(struct end *end, struct op_region *region)
{
	*region = (struct op_region){ .at_null = true, .length = SIZE_MAX, .access = ON_DEMAND };
	RUN(end, op_register, region);
	if (region->error)
		skip_because("implicit region: %s", strerror(region->error));
}

/* The region is all memory of the process, and no more. */
static void rule_06_implicit_region(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_region ours, theirs;
	struct op_memory memory;

	pair_connect(pair, WITH(.qps = 7));
	implicit_region(a, &ours);
	implicit_region(b, &theirs);
	fill(a, 0, 4096, 8);
	post_send(a, 6,
		  REQUEST(.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .remote = b->addr + TARGET,
			  .rkey = theirs.rkey, .num_sge = 1,
			  .sge = { { a->addr, 4096, ours.lkey } }));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(b, TARGET, 4096, 8);
	/* Memory that was mapped after the registration. */
	memory = (struct op_memory){ .length = 65536, .seed = 3 };
	RUN(b, op_map, &memory);
	post_send(a, 6,
		  REQUEST(.wr_id = 2, .opcode = IBV_WR_RDMA_READ, .remote = memory.addr,
			  .rkey = theirs.rkey, .length = 65536));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect_bytes(a, 0, 65536, 3);
	unmap(b, memory);
	expect_bad_target(pair, memory.addr, theirs.rkey);
}

static void rule_06_implicit_region_at_null(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 7));
	implicit_region(&pair->b, &region);
	expect_bad_target(pair, 0x1000, region.rkey);
}

static void rule_06_implicit_source_at_null(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 3));
	implicit_region(&pair->a, &region);
	for (int qp = 0; qp < 2; qp++) {
		post_send(&pair->a, qp,
			  WRITE(&pair->b, 0, .wr_id = 1, .num_sge = 1,
				.sge = { { 0x1000, qp ? 65536 : 8, region.lkey } }));
		expect(&pair->a, SENDS, 1, IBV_WC_LOC_PROT_ERR);
	}
	expect_working(pair, 2);
}

/* A read-only page cannot be written to, whatever the key permits. */
static void op_protect(struct side *side, void *argument)
{
	struct op_memory *op = argument;

	op->error = mprotect((void *)(uintptr_t)op->addr, op->length, PROT_READ) ? errno : 0;
}

static void rule_06_target_became_read_only(struct pair *pair)
{
	struct op_memory memory;
	uint32_t rkey;

	pair_connect(pair, WITH(.qps = 4));
	rkey = mapped_target(&pair->b, ON_DEMAND, &memory);
	RUN(&pair->b, op_protect, &memory);
	post_send(&pair->a, 3,
		  REQUEST(.wr_id = 3, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .remote = memory.addr,
			  .rkey = rkey, .length = 8));
	expect_remote_error(&pair->a, 3);
	for (int qp = 0; qp < 2; qp++) {
		post_send(&pair->a, qp,
			  REQUEST(.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .remote = memory.addr,
				  .rkey = rkey, .length = qp ? 65536 : 8));
		expect_remote_error(&pair->a, 1);
	}
	post_send(&pair->a, 2,
		  REQUEST(.wr_id = 2, .opcode = IBV_WR_RDMA_READ, .length = 64,
			  .remote = memory.addr, .rkey = rkey));
	expect(&pair->a, SENDS, 2, IBV_WC_SUCCESS);
	expect_bytes(&pair->a, 0, 64, 9);
}

/* Deregistering waits for copies under way; none writes to the memory afterwards. */
static void rule_06_deregistered_under_load(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.qps = 8, .size = 4 << 20));
	for (int qp = 0; qp < 8; qp++) {
		struct op_region region;
		struct op_poll op = { .which = SENDS, .timeout_ms = WAIT_MS };
		bool failed = false;

		region = add_region(
			b,
			(struct op_region){ .slot = qp, .length = 4 << 20, .access = ACCESS_ALL });
		for (uint64_t i = 0; i < 30; i++)
			post_send(a, qp,
				  WRITE(b, 0, .wr_id = i, .length = 4 << 20, .rkey = region.rkey));
		drop_region(b, qp);
		fill(b, 0, 4 << 20, 0);
		for (uint64_t i = 0; i < 30; i++) {
			RUN(a, op_poll, &op);
			REQUIRE(op.result == 1 && op.wc.wr_id == i, "completion %d", (int)i);
			/* by iWARP the refused one may have completed before: IBV_EVENT_QP_FATAL */
			REQUIRE(op.wc.status == (failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS) ||
					(!failed && op.wc.status == IBV_WC_REM_ACCESS_ERR) ||
					(over_iwarp() && op.wc.status == IBV_WC_WR_FLUSH_ERR),
				"%s", ibv_wc_status_str(op.wc.status));
			failed = op.wc.status != IBV_WC_SUCCESS;
		}
		expect_bytes(b, 0, 4 << 20, 0);
	}
}

/* Type 1 windows: a new key with each bind, none without. */
static void op_bind(struct side *side, void *argument)
{
	struct op_iova *op = argument;
	struct ibv_mw *mw = (struct ibv_mw *)(uintptr_t)op->iova;
	struct ibv_mw_bind bind = { .wr_id = 70,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { .mr = side->region[0],
						   .addr = (uintptr_t)side->buf + op->offset,
						   .length = op->length,
						   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
								      IBV_ACCESS_REMOTE_READ } };

	op->error = ibv_bind_mw(side->qp[0], mw, &bind);
	op->rkey = mw->rkey;
}

static void op_alloc_mw(struct side *side, void *argument)
{
	struct op_iova *op = argument;
	struct ibv_mw *mw = ibv_alloc_mw(side->pd, IBV_MW_TYPE_1);

	op->error = mw ? 0 : errno;
	op->iova = (uintptr_t)mw;
}

static void op_dereg_bound(struct side *side, void *argument)
{
	*(int *)argument = ibv_dereg_mr(side->region[0]);
}

static void rule_08_type_1_windows(struct pair *pair)
{
	struct end *b = &pair->b;
	struct op_iova op = { .offset = TARGET, .length = 4096 };
	uint32_t first;
	int result;

	pair_connect(pair, WITH(.qps = 4));
	RUN(b, op_alloc_mw, &op);
	if (op.error)
		skip_because("ibv_alloc_mw: %s", strerror(op.error));
	add_region(b, (struct op_region){ .offset = TARGET,
					  .length = 8192,
					  .access = ACCESS_ALL | IBV_ACCESS_MW_BIND });
	RUN(b, op_bind, &op);
	REQUIRE(op.error == 0, "ibv_bind_mw: %s", strerror(op.error));
	expect(b, SENDS, 70, IBV_WC_SUCCESS);
	first = op.rkey;
	expect_write(pair, 1, TARGET, first, IBV_WC_SUCCESS);
	RUN(b, op_dereg_bound, &result);
	REQUIRE(result == EBUSY, "deregistering a region with a window: %d", result);
	op.offset = TARGET + 4096;
	RUN(b, op_bind, &op);
	REQUIRE(op.error == 0 && op.rkey != first, "no new key");
	expect(b, SENDS, 70, IBV_WC_SUCCESS);
	expect_write(pair, 1, TARGET + 4096, op.rkey, IBV_WC_SUCCESS);
	expect_write(pair, 1, TARGET, first, IBV_WC_REM_ACCESS_ERR);
	op.length = 0;
	first = op.rkey;
	RUN(b, op_bind, &op);
	REQUIRE(op.error == 0, "a bind of no length: %s", strerror(op.error));
	expect(b, SENDS, 70, IBV_WC_SUCCESS);
	expect_write(pair, 2, TARGET + 4096, first, IBV_WC_REM_ACCESS_ERR);
	RUN(b, op_dereg_bound, &result);
	REQUIRE(result == 0, "deregistering: %d", result);
}

struct op_bad_bind {
	int none, foreign, zero_based; /* ibv_bind_mw's results */
	uint32_t rkey_before, rkey;
	int error; /* there are no windows, or no ZERO_BASED regions */
};

static int bind_to(struct side *side, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t length)
{
	struct ibv_mw_bind bind = { .wr_id = 71,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { .mr = mr,
						   .addr = length ? (uintptr_t)side->buf : 0,
						   .length = length,
						   .mw_access_flags = IBV_ACCESS_REMOTE_READ } };

	return ibv_bind_mw(side->qp[0], mw, &bind);
}

static void op_bad_bind(struct side *side, void *argument)
{
	struct op_bad_bind *op = argument;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	struct ibv_mw *mw = ibv_alloc_mw(side->pd, IBV_MW_TYPE_1);
	struct ibv_mr *foreign = ibv_reg_mr(side->other_pd, side->buf, 4096, access);
	struct ibv_mr *zero = ibv_reg_mr(side->pd, side->buf, 4096, access | IBV_ACCESS_ZERO_BASED);

	op->error = mw && foreign && zero ? 0 : errno;
	if (op->error)
		return;
	op->rkey_before = mw->rkey;
	op->none = bind_to(side, mw, NULL, 4096);
	op->foreign = bind_to(side, mw, foreign, 4096);
	op->zero_based = bind_to(side, mw, zero, 4096);
	op->rkey = mw->rkey;
	REQUIRE(ibv_dereg_mr(foreign) == 0 && ibv_dereg_mr(zero) == 0, "ibv_dereg_mr");
	REQUIRE(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
}

/* A bind whose arguments are wrong fails, as mlx5's does: window and QP are as before. */
static void rule_08_bad_binds_are_refused(struct pair *pair)
{
	struct op_bad_bind op = { 0 };

	pair_connect(pair, WITH());
	RUN(&pair->b, op_bad_bind, &op);
	if (op.error)
		skip_because("ibv_alloc_mw, ibv_reg_mr: %s", strerror(op.error));
	REQUIRE(op.none == EINVAL, "no region: %d", op.none);
	REQUIRE(op.foreign == EPERM, "another PD: %d", op.foreign);
	REQUIRE(op.zero_based == EINVAL, "ZERO_BASED: %d", op.zero_based);
	REQUIRE(op.rkey == op.rkey_before, "the window has a new key");
	expect_none(&pair->b, SENDS);
	expect_write(pair, 0, 0, pair->b.rkey, IBV_WC_SUCCESS);
}

static const struct test tests[] = {
	HERE(rule_06_remote_write_needs_local_write),
	PAIR(rule_06_length_zero),
	HERE(rule_06_unmapped_range_is_refused),
	PAIR(rule_06_zero_based),
	PAIR(rule_06_own_addresses),
	PAIR(rule_06_rereg_three_forms),
	PAIR(rule_06_rereg_errors),
	PAIR(rule_06_target_unmapped),
	PAIR(rule_06_target_unmapped_after_use),
	PAIR(rule_06_on_demand_target_unmapped),
	PAIR(rule_06_on_demand_receive_buffer_unmapped),
	PAIR(rule_06_on_demand_source_unmapped),
	PAIR(rule_06_implicit_region),
	PAIR(rule_06_implicit_region_at_null),
	PAIR(rule_06_implicit_source_at_null),
	PAIR(rule_06_target_became_read_only),
	PAIR_WITHIN(60, rule_06_deregistered_under_load),
	PAIR(rule_08_type_1_windows),
	PAIR(rule_08_bad_binds_are_refused),
};

int main(int argc, char **argv)
{
	/* peers would reach pages that have migrated and were unmapped then, as an adapter does */
	setenv("VERBATIM_MIGRATE", "never", 1);
	return RUN_TESTS(tests, argc, argv);
}
