/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/eventfd.h"
#include "fail.h"
#include "net.h"
#include "base/compat.h"
#include "memory/hazard.h"
#include "memory/memory.h"
#include "packet/icrc.h"
#include "roce/roce.h"
#include "ud_path.h"

#define FILLER	0x5c
#define GAP_MAX 96
#define MESSAGE 65536u
#define ALL_RIGHTS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | COMPAT_ACCESS_FLUSH_GLOBAL)

struct world world;

static void deadline(uint64_t ns)
{
	(void)ns; /* the loop asks roce_deadline_ns */
}

static void group_visit(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg), void *arg)
{
}

static const struct roce_env env = {
	.now = net_now,
	.send = net_send,
	.sends_gso = net_sends_gso,
	.resolve = net_resolve,
	.answer = net_answer,
	.deadline = deadline,
	.group_visit = group_visit,
};

static void *map(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		sim_fail("no memory");
	return memory;
}

static void require(int ret, const char *what)
{
	if (ret)
		sim_fail("%s: %d", what, ret);
}

static struct mr *make_mr(struct pd *pd, size_t bytes, uint32_t access)
{
	struct mr_spec spec = {
		.pd = pd,
		.addr = world.memory,
		.length = bytes,
		.iova = (uintptr_t)world.memory,
		.access = access,
	};
	struct mr *mr;

	require(mr_create(&spec, &mr), "mr_create");
	return mr;
}

void world_create(void)
{
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = WORLD_CQE };
	struct context *context = calloc(1, sizeof(*context));
	void *arena = map(ARENA_BYTES);

	icrc_init();
	hazard_init(arena, WORLD_SLOT);
	memory_init(WORLD_SLOT);
	require(key_table_init(arena), "key_table_init");
	require(qp_table_init(arena, WORLD_SLOT), "qp_table_init");
	roce_init(&env);

	context->verbs.context.num_comp_vectors = 1;
	context->verbs.context.async_fd = eventfd_create();
	lock_init(&context->async_lock);
	list_init(&context->async_pending);
	world.context = context;
	require(pd_create(&context->verbs.context, &world.pd), "pd_create");
	require(pd_create(&context->verbs.context, &world.other_pd), "pd_create");
	require(cq_create(context, &cq_attr, &world.send_cq), "cq_create");
	require(cq_create(context, &cq_attr, &world.recv_cq), "cq_create");
	require(xrcd_open(context, -1, O_CREAT, &world.xrcd), "xrcd_open");

	world.memory = map(WORLD_BYTES);
	world.shadow = map(WORLD_BYTES);
	memset(world.memory, FILLER, WORLD_BYTES);
	memset(world.shadow, FILLER, WORLD_BYTES);
	world.mr = make_mr(world.pd, WORLD_BYTES, ALL_RIGHTS);
	world.mr_unwritable =
		make_mr(world.pd, WORLD_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	world.mr_unreadable =
		make_mr(world.pd, WORLD_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	world.mr_small = make_mr(world.pd, WORLD_SMALL_BYTES, ALL_RIGHTS);
	world.mr_other_pd = make_mr(world.other_pd, WORLD_BYTES, ALL_RIGHTS);
	world.taken = WORLD_SMALL_BYTES;
}

void world_clear(void)
{
	memset(world.memory, FILLER, world.taken);
	memset(world.shadow, FILLER, world.taken);
	world.taken = WORLD_SMALL_BYTES;
}

uint32_t world_take(struct random *random, uint32_t bytes, uint32_t align)
{
	uint32_t at = (world.taken + align - 1) & ~(align - 1);

	if (bytes > WORLD_BYTES - GAP_MAX || at > WORLD_BYTES - GAP_MAX - bytes)
		sim_fail("the plan needs more than %u bytes of memory", WORLD_BYTES);
	world.taken = at + bytes + random_range(random, 1, GAP_MAX);
	return at;
}

void world_expect(uint32_t at, uint32_t bytes, uint64_t pattern)
{
	pattern_fill(world.shadow + at, bytes, pattern);
}

void world_put(uint32_t at, uint32_t bytes, uint64_t pattern)
{
	pattern_fill(world.shadow + at, bytes, pattern);
	memcpy(world.memory + at, world.shadow + at, bytes);
}

void world_expect_word(uint32_t at, uint64_t word)
{
	memcpy(world.shadow + at, &word, sizeof(word));
}

void world_trust(uint32_t at, uint32_t bytes)
{
	memcpy(world.shadow + at, world.memory + at, bytes);
}

static const char *pattern_bytes(uint32_t bytes, uint64_t pattern)
{
	static char made[MESSAGE];

	if (bytes > sizeof(made))
		sim_fail("a message of %u bytes was planned", bytes);
	pattern_fill(made, bytes, pattern);
	return made;
}

bool world_holds(uint32_t at, uint32_t bytes, uint64_t pattern, uint32_t from)
{
	return memcmp(world.memory + at, pattern_bytes(from + bytes, pattern) + from, bytes) == 0;
}

bool world_holds_partly(uint32_t at, uint32_t bytes, uint64_t pattern)
{
	const char *new = pattern_bytes(bytes, pattern);

	for (uint32_t i = 0; i < bytes; i++)
		if (world.memory[at + i] != new[i] && world.memory[at + i] != world.shadow[at + i])
			return false;
	world_trust(at, bytes);
	return true;
}

int64_t world_compare(void)
{
	if (memcmp(world.memory, world.shadow, world.taken) == 0)
		return -1;
	for (uint32_t i = 0; i < world.taken; i++)
		if (world.memory[i] != world.shadow[i])
			return i;
	return -1;
}

struct qp *world_qp(enum ibv_qp_type type, const struct ibv_qp_cap *cap, bool sig_all,
		    struct srq *srq)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.send_cq = &world.send_cq->ib,
		.recv_cq = &world.recv_cq->ib,
		.sq_sig_all = sig_all,
		.srq = srq ? &srq->ib : NULL,
		.xrcd = &world.xrcd->ib,
		.cap = *cap,
	};
	struct qp *qp;

	require(qp_create(world.context, type == IBV_QPT_XRC_RECV ? NULL : world.pd, &attr,
			  type == IBV_QPT_UD ? &ud_path : &roce_path, &qp),
		"qp_create");
	return qp;
}

void world_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	require(qp_modify(qp, attr, mask), "qp_modify");
}

void world_to_error(struct qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	world_modify(qp, &attr, IBV_QP_STATE);
}
