/* SPDX-License-Identifier: BSD-2-Clause */
#include "rendezvous_rig.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "object/srq.h"

struct rig rig;
struct far far;
struct qp *qp;
struct mr *mr;
uint8_t memory[BYTES] __attribute__((aligned(PAGE)));
uint8_t *heap;
struct arena_qp *far_qp;
struct arena_key *far_key, *key;

static struct srq *srq;

static int make_heap(void)
{
	int fd = memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, HEAP_PLACE + BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	heap = mmap(NULL, HEAP_LEAD + BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, HEAP_FIRST);
	assert_ptr_not_equal(heap, MAP_FAILED);
	return fd;
}

static struct qp *srq_qp(void)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_RC,
					    .send_cq = &rig.cq->ib,
					    .recv_cq = &rig.cq->ib,
					    .srq = &srq->ib,
					    .cap = { .max_send_wr = 16, .max_send_sge = 4 } };
	struct qp *new;

	assert_int_equal(qp_create(rig.context, rig.pd, &attr, &shm_path, &new), 0);
	return new;
}

void connect_qp(void)
{
	rig_connect(qp, &(struct rig_connection){ .slot = FAR_SLOT,
						  .access = IBV_ACCESS_REMOTE_WRITE,
						  .timeout = 14,
						  .retry_cnt = 7,
						  .rnr_retry = 7,
						  .psn = PSN });
}

int rendezvous_setup(enum ibv_qp_type type, bool with_srq)
{
	struct ibv_srq_attr srq_attr = { .max_wr = 16, .max_sge = 4 };

	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	far.link->xcopy = XCOPY_VM;
	heap_init(&far.link->heap, make_heap());
	mr = rig_mr(&rig, memory, BYTES,
		    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	key = &key_table()[KEY_INDEX(mr->ib.lkey)];
	key->heap = HEAP_PLACE;
	srq = NULL;
	if (with_srq) {
		assert_int_equal(srq_create(rig.context, rig.pd, NULL, &srq_attr, &srq), 0);
		qp = srq_qp();
	} else {
		qp = rig_qp(&rig, type);
	}
	connect_qp();
	far_qp = &arena_qps(far.arena)[1];
	*far_qp = (struct arena_qp){ .word = ARENA_QP_WORD(type, IBV_QPS_RTS),
				     .dest_qpn = qp->ib.qp_num,
				     .pd = FAR_PD,
				     .generation = GENERATION,
				     .rq_psn = PSN };
	far_key = &arena_keys(far.arena)[KEY_INDEX(FAR_KEY)];
	*far_key = (struct arena_key){ .key = FAR_KEY,
				       .start = FAR_ADDR,
				       .length = BYTES,
				       .addr = FAR_ADDR,
				       .pd = FAR_PD,
				       .heap = HEAP_PLACE };
	for (size_t i = 0; i < BYTES; i++)
		heap[HEAP_LEAD + i] = (uint8_t)(i % 191 + 1);
	memset(memory, 0, BYTES);
	return 0;
}

void rendezvous_teardown(void)
{
	assert_int_equal(qp_destroy(qp), 0);
	if (srq)
		assert_int_equal(srq_destroy(srq), 0);
	key->heap = 0;
	assert_int_equal(mr_destroy(mr), 0);
	far_destroy(&far);
	rig_destroy(&rig);
	munmap(heap, HEAP_LEAD + BYTES);
}

void post(enum ibv_wr_opcode opcode, struct ibv_sge *sge, int count)
{
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = sge, .num_sge = count };

	rig_post_send(qp, &wr);
}

void post_bytes(size_t at, uint32_t bytes)
{
	post(IBV_WR_SEND, &(struct ibv_sge){ (uintptr_t)memory + at, bytes, mr->ib.lkey }, 1);
}
