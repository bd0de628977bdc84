/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/eventfd.h"
#include "memory/hazard.h"
#include "shm/progress.h"
#include "shm/shm.h"

#define SLOTS	  16
#define OTHER_PID 1 /* not this process; not used, because the links cannot copy */

uint64_t rig_deadline_ns;
uint32_t rig_deadlines, rig_kicks;
bool rig_is_asked;
void (*rig_meanwhile)(void);

static struct link *links[SLOTS];

static struct link *find_link(uint32_t slot, bool *asked)
{
	struct link *link = slot < SLOTS ? links[slot] : NULL;

	void (*meanwhile)(void) = rig_meanwhile;

	*asked = !link && rig_is_asked;
	if (link)
		link_get(link);
	rig_meanwhile = NULL;
	if (meanwhile)
		meanwhile();
	return link;
}

static int group_members(const union ibv_gid *gid, uint32_t *slots, int max, bool *asked)
{
	*asked = rig_is_asked;
	return 0;
}

static void group_visit(const union ibv_gid *gid, void (*visit)(uint32_t qpn, void *arg), void *arg)
{
}

static bool peer_is_local(const struct qp *qp)
{
	return true;
}

static void kick(void)
{
	rig_kicks++;
}

static void deadline(uint64_t ns)
{
	rig_deadline_ns = ns;
	rig_deadlines++;
}

static const struct shm_env env = {
	.find_link = find_link,
	.group_members = group_members,
	.group_visit = group_visit,
	.peer_is_local = peer_is_local,
	.kick = kick,
	.deadline = deadline,
	.slot = RIG_SLOT,
};

/* Its pages are taken when they are written. */
static int shared_memory(const char *name, size_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

static void *map(int fd, size_t bytes, int protection)
{
	void *memory = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

void rig_create(struct rig *rig)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4096 };
	struct context *context = calloc(1, sizeof(*context));
	int fd = shared_memory("arena", ARENA_BYTES);
	struct peer_arena own;

	rig->arena = map(fd, ARENA_BYTES, PROT_READ | PROT_WRITE);
	close(fd);
	hazard_init(rig->arena, RIG_SLOT);
	assert_int_equal(key_table_init(rig->arena), 0);
	assert_int_equal(qp_table_init(rig->arena, RIG_SLOT), 0);
	shm_init(&env);
	context->verbs.context.num_comp_vectors = 1;
	context->verbs.context.async_fd = eventfd_create();
	lock_init(&context->async_lock);
	list_init(&context->async_pending);
	rig->context = context;
	assert_int_equal(pd_create(&context->verbs.context, &rig->pd), 0);
	assert_int_equal(cq_create(context, &attr, &rig->cq), 0);
	fd = shared_memory("self", LINK_BYTES_OF(RING_BYTES));
	peer_arena_open_own(&own, rig->arena);
	rig->self = link_create(RIG_SLOT, getpid(), LINK_SELF, fd, &own, eventfd_create(), -1);
	assert_non_null(rig->self);
	link_start(rig->self);
	close(fd);
	links[RIG_SLOT] = rig->self;
	rig_deadlines = rig_kicks = 0;
}

void rig_destroy(struct rig *rig)
{
	links[RIG_SLOT] = NULL;
	link_close(rig->self);
	assert_int_equal(cq_destroy(rig->cq), 0);
	assert_int_equal(pd_destroy(rig->pd), 0);
	close(rig->context->verbs.context.async_fd);
	lock_fini(&rig->context->async_lock);
	free(rig->context);
	munmap(rig->arena, ARENA_BYTES);
}

void far_create(struct far *far, uint32_t slot)
{
	int arena_fd = shared_memory("far-arena", ARENA_BYTES);
	struct peer_arena arena;

	memset(far, 0, sizeof(*far));
	far->slot = slot;
	far->shared_fd = shared_memory("link", LINK_BYTES_OF(RING_BYTES));
	far->shared = map(far->shared_fd, LINK_CONTROL_BYTES, PROT_READ | PROT_WRITE);
	far->control = far->shared;
	far->tx.data = ring_map(far->shared_fd, LINK_CONTROL_BYTES + RING_BYTES, RING_BYTES);
	far->tx.bytes = far->rx.bytes = RING_BYTES;
	far->tx.control = &far->control[1];
	far->rx.data = ring_map(far->shared_fd, LINK_CONTROL_BYTES, RING_BYTES);
	far->rx.control = &far->control[0];
	far->rx.hold = UINT64_MAX;
	assert_ptr_not_equal(far->tx.data, MAP_FAILED);
	assert_ptr_not_equal(far->rx.data, MAP_FAILED);
	far->arena = map(arena_fd, ARENA_BYTES, PROT_READ | PROT_WRITE);
	assert_int_equal(peer_arena_open(&arena, arena_fd), 0);
	far->link = link_create(slot, OTHER_PID, 0, far->shared_fd, &arena, eventfd_create(), -1);
	assert_non_null(far->link);
	link_start(far->link);
	close(arena_fd);
	links[slot] = far->link;
}

void far_destroy(struct far *far)
{
	links[far->slot] = NULL;
	assert_int_equal(far->link->references, 1);
	link_close(far->link);
	ring_unmap(far->tx.data, RING_BYTES);
	ring_unmap(far->rx.data, RING_BYTES);
	munmap(far->shared, LINK_CONTROL_BYTES);
	munmap(far->arena, ARENA_BYTES);
	close(far->shared_fd);
}

void far_send(struct far *far, uint32_t kind, uint32_t flags, struct record_header header,
	      const void *payload)
{
	struct record *record = ring_reserve(&far->tx, header.bytes, 0);

	assert_non_null(record);
	record->header = header;
	record->header.word = 0;
	if (payload)
		memcpy(record->payload, payload, header.bytes);
	ring_publish(&far->tx, record, record_word(kind, flags, header.bytes));
}

bool far_next(struct far *far, struct record_header *header)
{
	struct record *record = ring_peek(&far->rx, header);

	if (!record)
		return false;
	ring_advance(&far->rx, header);
	return true;
}

void far_acknowledge(struct far *far)
{
	atomic_store(&far->control[0].head, far->rx.head);
	atomic_store(&far->control[0].acked, far->rx.head);
}

struct qp *rig_qp(struct rig *rig, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.send_cq = &rig->cq->ib,
		.recv_cq = &rig->cq->ib,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 4,
			 .max_recv_sge = 4 },
	};
	struct qp *qp;

	assert_int_equal(qp_create(rig->context, rig->pd, &attr, &shm_path, &qp), 0);
	return qp;
}

void rig_connect(struct qp *qp, const struct rig_connection *connection)
{
	struct ibv_qp_attr attr = {
		.path_mtu = IBV_MTU_1024,
		.port_num = 1,
		.dest_qp_num =
			connection->qpn ? connection->qpn : connection->slot << ARENA_QP_BITS | 1,
		.ah_attr = { .is_global = 1, .port_num = 1 },
		.qp_access_flags = connection->access,
		.timeout = connection->timeout,
		.retry_cnt = connection->retry_cnt,
		.rnr_retry = connection->rnr_retry,
		.rq_psn = connection->psn,
		.sq_psn = connection->psn,
		.max_rd_atomic = connection->rd_atomic ? connection->rd_atomic : 4,
		.max_dest_rd_atomic = connection->rd_atomic ? connection->rd_atomic : 4,
		.min_rnr_timer = 12,
		.qkey = 0x11,
	};
	bool ud = qp->type == IBV_QPT_UD, rc = qp->type == IBV_QPT_RC;
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	attr.qp_state = IBV_QPS_INIT;
	mask |= ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	assert_int_equal(qp_modify(qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTR;
	mask = IBV_QP_STATE;
	if (!ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (rc)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(qp_modify(qp, &attr, mask), 0);
	if (connection->receives_only)
		return;
	attr.qp_state = IBV_QPS_RTS;
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (rc)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	assert_int_equal(qp_modify(qp, &attr, mask), 0);
}

void rig_reset(struct qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	assert_int_equal(qp_modify(qp, &attr, IBV_QP_STATE), 0);
}

struct mr *rig_mr(struct rig *rig, void *addr, size_t length, uint32_t access)
{
	struct mr_spec spec = {
		.pd = rig->pd,
		.addr = addr,
		.length = length,
		.iova = (uintptr_t)addr,
		.access = access,
	};
	struct mr *mr;

	assert_int_equal(mr_create(&spec, &mr), 0);
	return mr;
}

void rig_post_send(struct qp *qp, struct ibv_send_wr *wr)
{
	lock_acquire(&qp->lock);
	assert_int_equal(sq_push(&qp->sq, wr), 0);
	qp->path->issue(qp);
	lock_release(&qp->lock);
}

void rig_post_receive(struct qp *qp, uint64_t wr_id, struct ibv_sge *sge)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = sge ? 1 : 0 };

	assert_int_equal(rq_post(qp->rq, &wr, &bad), 0);
}

void rig_progress(struct link *link)
{
	for (int turns = 0; turns < 1000 && progress_link(link); turns++)
		;
}

uint32_t draw(uint32_t *random)
{
	*random = *random * 1664525u + 1013904223u;
	return *random >> 8;
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}
