/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WRITE, READ and atomics on the target's memory, mapped here or copied by the kernel: the last
 * word last, turns, requests to migrate, and what goes by message instead.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/hazard.h"
#include "memory/heap.h"
#include "memory/memory.h"
#include "shm/onesided.h"
#include "shm/xcopy.h"

#define FAR_SLOT   9
#define FAR_PD	   77
#define FAR_KEY	   0x12000134u
#define FAR_ADDR   0x10000000ull /* of its region in its own address space */
#define RIGHTS	   (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define HEAP_LEAD  4096 /* of its heap before its region */
#define HEAP_PLACE (HEAP_FIRST + HEAP_LEAD)
#define BYTES	   (1024 * 1024)
#define SLICE	   (256 * 1024)
#define CANARY	   0xc5

static struct rig rig;
static struct far far;
static struct qp *qp;
static struct mr *mr;
static struct wqe *wqe;
static uint8_t memory[BYTES], *heap, *target;
static struct arena_qp *far_qp;
static struct arena_key *far_key;
static struct {
	unsigned calls;
	uint8_t *to;
	size_t bytes;
	bool in_order; /* all before it was written, and nothing of it */
} last;

void __real_memory_copy_ordered(void *to, const void *from, size_t bytes);
void __wrap_memory_copy_ordered(void *to, const void *from, size_t bytes);

void __wrap_memory_copy_ordered(void *to, const void *from, size_t bytes)
{
	last.calls++;
	last.to = heap + ((char *)to - far.link->heap.windows[0]);
	last.bytes = bytes;
	last.in_order = true;
	for (size_t i = 0; i < bytes; i++)
		last.in_order &= last.to[i] == CANARY;
	for (uint8_t *at = target; at < last.to; at++)
		last.in_order &= *at != CANARY;
	__real_memory_copy_ordered(to, from, bytes);
}

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

/* The other end: a QP that is connected to ours, and a region whose pages are all in its heap. */
static int setup(void **state)
{
	rig_create(&rig);
	far_create(&far, FAR_SLOT);
	far.link->xcopy = XCOPY_VM;
	heap_init(&far.link->heap, make_heap());
	for (size_t i = 0; i < BYTES; i++)
		memory[i] = (uint8_t)(i % 191);
	mr = rig_mr(&rig, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	qp = rig_qp(&rig, IBV_QPT_RC);
	rig_connect(qp, &(struct rig_connection){
				.slot = FAR_SLOT, .timeout = 14, .retry_cnt = 7, .psn = 1234 });
	far_qp = &arena_qps(far.arena)[1];
	*far_qp = (struct arena_qp){ .word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RTS),
				     .dest_qpn = qp->ib.qp_num,
				     .pd = FAR_PD,
				     .access = RIGHTS,
				     .rq_psn = 1234 };
	far_key = &arena_keys(far.arena)[KEY_INDEX(FAR_KEY)];
	*far_key = (struct arena_key){ .key = FAR_KEY,
				       .access = RIGHTS,
				       .start = FAR_ADDR,
				       .length = BYTES,
				       .addr = FAR_ADDR,
				       .pd = FAR_PD,
				       .heap = HEAP_PLACE };
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mr_destroy(mr), 0);
	far_destroy(&far);
	rig_destroy(&rig);
	munmap(heap, HEAP_LEAD + BYTES);
	return 0;
}

/* A request that is not issued, of two SGEs, from `offset` of the region on. */
static void post(enum ibv_wr_opcode opcode, size_t offset, size_t bytes)
{
	uint32_t front = (uint32_t)bytes / 3;
	struct ibv_sge sge[] = {
		{ (uintptr_t)memory, front, mr->ib.lkey },
		{ (uintptr_t)memory + front, (uint32_t)bytes - front, mr->ib.lkey },
	};
	struct ibv_send_wr wr = { .opcode = opcode,
				  .sg_list = sge,
				  .num_sge = 2,
				  .wr.rdma = { .remote_addr = FAR_ADDR + offset,
					       .rkey = FAR_KEY } };

	lock_acquire(&qp->lock);
	sq_roll_back(&qp->sq, qp->sq.head);
	assert_int_equal(sq_push(&qp->sq, &wr), 0);
	wqe = sq_wqe(&qp->sq, qp->sq.head);
	lock_release(&qp->lock);
	target = heap + HEAP_LEAD + offset;
	last.calls = 0;
}

static enum onesided execute(int64_t budget)
{
	enum onesided result;
	enum cause cause = CAUSE_NONE;

	lock_acquire(&qp->lock);
	result = onesided_execute(shm_of(qp), wqe, &budget, &cause);
	lock_release(&qp->lock);
	if (last.calls)
		assert_true(last.in_order);
	for (unsigned i = 0; i < ARENA_HAZARDS; i++)
		assert_int_equal(arena_hazard(rig.arena, i)->what, 0);
	return result;
}

/* Only these bytes were written. */
static void expect_written(size_t bytes)
{
	assert_memory_equal(target, memory, bytes);
	assert_int_equal(target[-1], CANARY);
	assert_int_equal(target[bytes], CANARY);
}

static void write_once(size_t offset, size_t bytes)
{
	memset(heap, CANARY, HEAP_LEAD + 512);
	post(IBV_WR_RDMA_WRITE, offset, bytes);
	assert_int_equal(execute(BYTES), ONESIDED_DONE);
	assert_int_equal(last.calls, 1);
	assert_ptr_equal(last.to + last.bytes, target + bytes);
	expect_written(bytes);
}

/* The aligned word that the message ends in is stored after the rest, whatever the alignment. */
static void test_last_word(void **state)
{
	for (size_t offset = 8; offset < 24; offset++)
		for (size_t bytes = 257; bytes <= 300; bytes++) {
			write_once(offset, bytes);
			assert_int_equal((uintptr_t)last.to,
					 (uintptr_t)(target + bytes - 1) & ~7ul);
		}
}

/* A small one is gathered, and stored in one ordered copy. */
static void test_small(void **state)
{
	for (size_t offset = 8; offset < 24; offset++)
		for (size_t bytes = 1; bytes <= 256; bytes++) {
			write_once(offset, bytes);
			assert_ptr_equal(last.to, target);
		}
}

/* In the place of the SGEs. */
static void post_inline(uint32_t bytes)
{
	post(IBV_WR_RDMA_WRITE, 8, 0);
	assert_true(qp->sq.stride - sizeof(*wqe) >= bytes);
	wqe->flags |= IBV_SEND_INLINE;
	wqe->length = bytes;
	memcpy(wqe->inline_data, memory, bytes);
}

static void test_inline(void **state)
{
	memset(heap, CANARY, HEAP_LEAD + 128);
	post_inline(21);
	assert_int_equal(execute(BYTES), ONESIDED_DONE);
	assert_int_equal(last.calls, 1);
	expect_written(21);
}

/* At most a slice more than the budget; the next turn continues. */
static void test_turns(void **state)
{
	const size_t bytes = 2 * SLICE + 5;

	memset(heap, CANARY, HEAP_LEAD + BYTES);
	post(IBV_WR_RDMA_WRITE, 16, bytes);
	assert_int_equal(execute(0), ONESIDED_TURN_OVER);
	assert_int_equal(wqe->done, 0);
	assert_int_equal(execute(1), ONESIDED_TURN_OVER);
	assert_int_equal(wqe->done, SLICE);
	expect_written(SLICE);
	target += SLICE; /* for what comes before the last word */
	assert_int_equal(execute(SLICE), ONESIDED_TURN_OVER);
	assert_int_equal(wqe->done, 2 * SLICE);
	target += SLICE;
	assert_int_equal(execute(1), ONESIDED_DONE);
	target -= 2 * SLICE;
	assert_int_equal(last.bytes, 5);
	expect_written(bytes);
}

static void test_read(void **state)
{
	static uint8_t pattern[BYTES];
	uint64_t moved = shm_moved;

	memset(heap, CANARY, HEAP_LEAD + BYTES);
	post(IBV_WR_RDMA_READ, 24, SLICE + 7);
	for (size_t i = 0; i < SLICE + 7; i++)
		target[i] = pattern[i] = (uint8_t)(i % 181);
	assert_int_equal(execute(BYTES), ONESIDED_DONE);
	assert_memory_equal(memory, pattern, SLICE + 7);
	assert_int_equal(memory[SLICE + 7], (SLICE + 7) % 191);
	assert_int_equal(shm_moved - moved, SLICE + 7);
	assert_int_equal(last.calls, 0);
}

/* An SGE of a later slice is bad: the first slice does not leave either. */
static void test_local_key_of_a_later_slice(void **state)
{
	static const enum ibv_wr_opcode kinds[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	for (int i = 0; i < 2; i++) {
		memset(heap, CANARY, HEAP_LEAD + BYTES);
		post(kinds[i], 16, 2 * SLICE);
		wqe->sge[0].length = wqe->sge[1].length = SLICE;
		wqe->sge[1].lkey = 0xdeadbeef;
		assert_int_equal(execute(BYTES), ONESIDED_LOCAL_ERROR);
		assert_int_equal(wqe->done, 0);
		assert_int_equal(target[0], CANARY);
		assert_int_equal(memory[1], 1);
	}
}

/* Nor where a slice is short, as the rest of the target is not in the heap. */
static void test_local_key_beyond_the_heap(void **state)
{
	memset(heap, CANARY, HEAP_LEAD + BYTES);
	far_key->heap_edges = 16u << 16;
	post(IBV_WR_RDMA_WRITE, BYTES - 64, 64);
	wqe->sge[0].length = 48;
	wqe->sge[1].length = 16;
	wqe->sge[1].lkey = 0xdeadbeef;
	assert_int_equal(execute(BYTES), ONESIDED_LOCAL_ERROR);
	assert_int_equal(wqe->done, 0);
	assert_int_equal(target[0], CANARY);
}

/* The last word's SGE is revoked: nothing but an error of this end. */
static void test_local_key(void **state)
{
	static const enum ibv_wr_opcode kinds[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	for (int i = 0; i < 4; i++) {
		memset(heap, CANARY, HEAP_LEAD + 512);
		post(kinds[i / 2], 8, i % 2 ? 300 : 64);
		wqe->sge[1].lkey = 0xdeadbeef;
		assert_int_equal(execute(BYTES), ONESIDED_LOCAL_ERROR);
		assert_int_equal(last.calls, 0);
		assert_int_equal(target[0], CANARY);
		assert_int_equal(memory[0], 0);
	}
}

/* A null or imported region at this end: the responder has the request. */
static void test_local_null(void **state)
{
	static const enum ibv_wr_opcode kinds[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	struct arena_key *entry = key_entry(KEY_INDEX(mr->ib.lkey));

	for (int i = 0; i < 4; i++) {
		memset(heap, CANARY, HEAP_LEAD + 512);
		post(kinds[i / 2], 8, i % 2 ? 300 : 64);
		wqe->sge[0].length = wqe->length;
		wqe->num_sge = 1;
		atomic_fetch_or(&entry->flags, KEY_NULL);
		assert_int_equal(execute(BYTES), ONESIDED_BY_MESSAGE);
		atomic_fetch_and(&entry->flags, ~KEY_NULL);
		assert_int_equal(target[0], CANARY);
	}
}

/* One SGE, of which the last byte is not the region's. */
static void test_local_range(void **state)
{
	static const enum ibv_wr_opcode kinds[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	for (int i = 0; i < 4; i++) {
		uint32_t bytes = i % 2 ? 300 : 64;

		memset(heap, CANARY, HEAP_LEAD + 512);
		post(kinds[i / 2], 8, bytes);
		wqe->num_sge = 1;
		wqe->sge[0].addr = (uintptr_t)(memory + BYTES + 1 - bytes);
		wqe->sge[0].length = bytes;
		assert_int_equal(execute(BYTES), ONESIDED_LOCAL_ERROR);
		assert_int_equal(target[0], CANARY);
		assert_int_equal(memory[BYTES - 1], (BYTES - 1) % 191);
	}
}

/*
 * The last QP and the last key of the arena, in parts that nobody has looked at. Where those cannot
 * be mapped, the responder sees the request; later they can.
 */
static void test_places_far_apart(void **state)
{
	const uint32_t key = FAR_KEY | (ARENA_KEYS - 1) << 8;
	struct rlimit before, none;
	enum onesided result;

	arena_qps(far.arena)[ARENA_QPS - 1] = *far_qp;
	arena_keys(far.arena)[ARENA_KEYS - 1] = *far_key;
	arena_keys(far.arena)[ARENA_KEYS - 1].key = key;
	qp->attr.dest_qp_num = FAR_SLOT << ARENA_QP_BITS | (ARENA_QPS - 1);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = (struct rlimit){ .rlim_cur = 1, .rlim_max = before.rlim_max };
	for (int i = 0; i < 3; i++) {
		memset(heap, CANARY, HEAP_LEAD + 128);
		post(IBV_WR_RDMA_WRITE, 8, 16);
		wqe->rkey = key;
		if (i == 0)
			assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
		result = execute(BYTES);
		assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
		assert_int_equal(result, i > 1 ? ONESIDED_DONE : ONESIDED_BY_MESSAGE);
		if (i == 1) /* not tried again before that */
			far.link->arena.view.not_before_ns = 0;
	}
	expect_written(16);
}

static enum onesided execute_anew(enum ibv_wr_opcode opcode)
{
	post(opcode, 8, 16);
	memset(target, CANARY, 16);
	return execute(BYTES);
}

/* The value makes the request one for the responder; without it, it is not. */
#define expect_message(place, bad)                                                                 \
	do {                                                                                       \
		uint64_t good = (place);                                                           \
                                                                                                   \
		assert_int_equal(execute_anew(IBV_WR_RDMA_WRITE), ONESIDED_DONE);                  \
		(place) = (bad);                                                                   \
		assert_int_equal(execute_anew(IBV_WR_RDMA_WRITE), ONESIDED_BY_MESSAGE);            \
		(place) = good;                                                                    \
	} while (0)

static void test_by_message(void **state)
{
	memset(heap, CANARY, HEAP_LEAD + BYTES);
	expect_message(far_qp->word, 0);
	expect_message(far_qp->word, ARENA_QP_WORD(IBV_QPT_UC, IBV_QPS_RTS));
	expect_message(far_qp->word, ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_INIT));
	expect_message(far_qp->word, ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_ERR));
	expect_message(far_qp->dest_qpn, qp->ib.qp_num + 1);
	expect_message(far_qp->rq_psn, 1235);
	expect_message(far_qp->access, IBV_ACCESS_REMOTE_READ);
	expect_message(far_qp->pd, FAR_PD + 1);
	expect_message(far_key->key, 0);
	expect_message(far_key->access, IBV_ACCESS_REMOTE_READ);
	expect_message(far_key->length, 23);
	expect_message(far_key->flags, KEY_NULL);
	expect_message(far_key->flags, KEY_MOVING);
	far_qp->access = far_key->access = IBV_ACCESS_REMOTE_WRITE;
	assert_int_equal(execute_anew(IBV_WR_RDMA_READ), ONESIDED_BY_MESSAGE);
	far_qp->word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RTR);
	assert_int_equal(execute_anew(IBV_WR_RDMA_WRITE), ONESIDED_DONE);
	far_qp->word = ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_SQD);
	assert_int_equal(execute_anew(IBV_WR_RDMA_WRITE), ONESIDED_DONE);
}

/* The region is not in the heap: the kernel copies. The process at the other end is this one. */
static uint8_t *leave_heap(void)
{
	static uint8_t far_memory[BYTES] __attribute__((aligned(4096)));

	far.link->pid = getpid();
	far.link->xcopy_id = far.link->pid;
	far_key->heap = 0;
	far_key->addr = (uintptr_t)far_memory;
	memset(far_memory, CANARY, BYTES);
	return far_memory;
}

static void test_kernel_copies(void **state)
{
	uint8_t *far_memory = leave_heap();

	post(IBV_WR_RDMA_WRITE, 8, SLICE + 7);
	target = far_memory + 8;
	assert_int_equal(execute(BYTES), ONESIDED_DONE);
	assert_int_equal(last.calls, 0);
	expect_written(SLICE + 7);
	post(IBV_WR_RDMA_READ, 100, 16);
	far_memory[100] = 0xaa;
	far_memory[115] = 0xbb;
	assert_int_equal(execute(BYTES), ONESIDED_DONE);
	assert_int_equal(memory[0], 0xaa);
	assert_int_equal(memory[15], 0xbb);
	post_inline(21);
	target = far_memory + 8;
	memset(target, CANARY, 64);
	assert_int_equal(execute(BYTES), ONESIDED_DONE);
	expect_written(21);
}

static uint32_t copied_keys[2]; /* L_Keys that are deregistered while the kernel copies; 0: none */
static unsigned copies, guarded;

/* Whoever deregisters one waits for this copy. */
static void expect_hazards(void)
{
	if (copied_keys[0])
		guarded += hazard_owner(copied_keys[copies++ % 2]) != 0;
}

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *here, unsigned long pieces,
				const struct iovec *there, unsigned long parts,
				unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *here, unsigned long pieces,
				const struct iovec *there, unsigned long parts,
				unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *here, unsigned long pieces,
				const struct iovec *there, unsigned long parts, unsigned long flags)
{
	expect_hazards();
	return __real_process_vm_readv(pid, here, pieces, there, parts, flags);
}

ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *here, unsigned long pieces,
				 const struct iovec *there, unsigned long parts,
				 unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *here, unsigned long pieces,
				 const struct iovec *there, unsigned long parts,
				 unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *here, unsigned long pieces,
				 const struct iovec *there, unsigned long parts,
				 unsigned long flags)
{
	expect_hazards();
	return __real_process_vm_writev(pid, here, pieces, there, parts, flags);
}

/* Another thread may deregister this end's memory while the kernel copies: it has to wait. */
static void test_local_keys_while_the_kernel_copies(void **state)
{
	struct mr *other = rig_mr(&rig, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	static const enum ibv_wr_opcode kinds[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	uint8_t *far_memory = leave_heap();

	copied_keys[0] = mr->ib.lkey;
	copied_keys[1] = other->ib.lkey;
	for (int i = 0; i < 2; i++) {
		copies = guarded = 0;
		post(kinds[i], 8, 64); /* two SGEs of one key */
		assert_int_equal(execute(BYTES), ONESIDED_DONE);
		assert_int_equal(copies, 1);
		assert_int_equal(guarded, 1);
		copies = guarded = 0;
		post(kinds[i], 8, 64);
		wqe->sge[1].lkey = other->ib.lkey;
		assert_int_equal(execute(BYTES), ONESIDED_DONE);
		assert_int_equal(copies, 2);
		assert_int_equal(guarded, 2);
		assert_memory_equal(memory, far_memory + 8, 64);
		memset(far_memory, 'f', 128);
	}
	copied_keys[0] = 0;
	assert_int_equal(mr_destroy(other), 0);
}

/* A bad key of a later SGE leaves the target as it is, though that is copied by itself. */
static void test_local_key_of_a_later_copy(void **state)
{
	uint8_t *far_memory = leave_heap();

	post(IBV_WR_RDMA_WRITE, 8, 64);
	wqe->sge[1].lkey = 0xdeadbeef;
	assert_int_equal(execute(BYTES), ONESIDED_LOCAL_ERROR);
	assert_int_equal(far_memory[8], CANARY);
}

static pid_t fork_sleeper(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	return pid;
}

static void end_sleeper(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The peer may name any thread as its own, even one with the cookie. */
static void test_thread_of_another_process(void **state)
{
	static uint64_t cookie = 0x1234567890abcdefull;
	struct arena_header *header = far.arena;
	pid_t gone = fork_sleeper(), other = fork_sleeper();

	end_sleeper(gone);
	leave_heap();
	header->cookie = cookie;
	header->cookie_addr = (uintptr_t)&cookie;
	header->pid = (uint32_t)gone;
	header->liveness = (uint32_t)other;
	far.link->pid = gone;
	far.link->xcopy_id = far.link->pid;
	post(IBV_WR_RDMA_WRITE, 8, 16);
	assert_int_not_equal(execute(BYTES), ONESIDED_DONE);
	assert_int_equal(far.link->xcopy_id, gone);
	far.link->xcopy = XCOPY_NONE;
	xcopy_probe(far.link);
	assert_int_equal(far.link->xcopy, XCOPY_NONE);
	assert_int_equal(far.link->xcopy_error, ESRCH);
	header->pid = (uint32_t)other;
	far.link->pid = other;
	xcopy_probe(far.link);
	assert_int_equal(far.link->xcopy, XCOPY_VM);
	end_sleeper(other);
}

/* A missing page there is the responder's verdict to give, one of ours is an error of this end. */
static void test_missing_pages(void **state)
{
	uint8_t *pages = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *missing = rig_mr(&rig, pages, 4096, IBV_ACCESS_ON_DEMAND);

	leave_heap();
	post(IBV_WR_RDMA_WRITE, 8, 16);
	wqe->sge[1] = (struct ibv_sge){ (uintptr_t)pages, 11, missing->ib.lkey };
	assert_int_equal(execute(BYTES), ONESIDED_LOCAL_ERROR);
	far_key->addr = (uintptr_t)pages;
	assert_int_equal(execute_anew(IBV_WR_RDMA_READ), ONESIDED_BY_MESSAGE);
	assert_int_equal(mr_destroy(missing), 0);
	munmap(pages, 4096);
}

/* The rights of this end's memory: a WRITE only reads it. */
static void test_local_rights(void **state)
{
	struct mr *read_only = rig_mr(&rig, memory, BYTES, 0);

	leave_heap();
	post(IBV_WR_RDMA_WRITE, 8, 16);
	wqe->sge[1].lkey = read_only->ib.lkey;
	assert_int_equal(execute(BYTES), ONESIDED_DONE);
	post(IBV_WR_RDMA_READ, 8, 16);
	wqe->sge[1].lkey = read_only->ib.lkey;
	assert_int_equal(execute(BYTES), ONESIDED_LOCAL_ERROR);
	assert_int_equal(mr_destroy(read_only), 0);
}

static unsigned requests_to_migrate(unsigned writes)
{
	struct record_header header = { 0 };
	unsigned count = 0;

	shm_of(qp)->published = false;
	while (writes--) {
		post(IBV_WR_RDMA_WRITE, 8, 16);
		assert_int_equal(execute(BYTES), ONESIDED_DONE);
	}
	while (far_next(&far, &header)) {
		assert_int_equal(header.word, record_word(RECORD_MIGRATE, 0, 0));
		assert_int_equal(header.rkey, FAR_KEY);
		count++;
	}
	assert_int_equal(shm_of(qp)->published, count != 0);
	return count;
}

/* After 16 small copies the owner is asked to migrate the region, once. */
static void test_asks_to_migrate(void **state)
{
	leave_heap();
	far_key->flags = KEY_STAYS;
	assert_int_equal(requests_to_migrate(40), 0);
	far_key->flags = 0;
	assert_int_equal(requests_to_migrate(15), 0);
	assert_int_equal(requests_to_migrate(1), 1);
	assert_int_equal(requests_to_migrate(40), 0);
}

/* An operation on the word at `offset`, with its result at the begin of `memory`. */
static enum onesided execute_word(enum ibv_wr_opcode opcode, size_t offset, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, lkey };
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 };

	if (opcode == IBV_WR_ATOMIC_WRITE) {
		wr.wr.rdma.remote_addr = FAR_ADDR + offset;
		wr.wr.rdma.rkey = FAR_KEY;
	} else {
		wr.wr.atomic.remote_addr = FAR_ADDR + offset;
		wr.wr.atomic.rkey = FAR_KEY;
		wr.wr.atomic.compare_add = 40;
		wr.wr.atomic.swap = 7;
	}
	lock_acquire(&qp->lock);
	sq_roll_back(&qp->sq, qp->sq.head);
	assert_int_equal(sq_push(&qp->sq, &wr), 0);
	wqe = sq_wqe(&qp->sq, qp->sq.head);
	lock_release(&qp->lock);
	return execute(BYTES);
}

static void test_words(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint64_t before, after;
		bool result;
	} rows[] = {
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 42, true },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX, 39, true },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 40, 7, true },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 41, 41, true },
		{ IBV_WR_ATOMIC_WRITE, 1, 0x0123456789abcdef, false },
	};
	uint64_t *words = (uint64_t *)(heap + HEAP_LEAD), *mine = (uint64_t *)memory;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		words[1] = words[3] = CANARY;
		words[2] = rows[i].before;
		mine[0] = 0x0123456789abcdef;
		mine[1] = CANARY;
		assert_int_equal(execute_word(rows[i].opcode, 16, mr->ib.lkey), ONESIDED_DONE);
		assert_int_equal(words[2], rows[i].after);
		assert_true(words[1] == CANARY && words[3] == CANARY && mine[1] == CANARY);
		assert_int_equal(mine[0], rows[i].result ? rows[i].before : 0x0123456789abcdef);
	}
}

/* The word stays as it is: the responder decides, or this end's memory is wrong. */
static void test_words_left_alone(void **state)
{
	struct mr *read_only = rig_mr(&rig, memory, BYTES, 0);
	uint64_t *word = (uint64_t *)(heap + HEAP_LEAD + 16), before = 40;

	*word = before;
	for (enum ibv_wr_opcode opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	     opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD; opcode++) {
		assert_int_equal(execute_word(opcode, 16, read_only->ib.lkey),
				 ONESIDED_LOCAL_ERROR);
		assert_int_equal(execute_word(opcode, 20, mr->ib.lkey), ONESIDED_BY_MESSAGE);
		atomic_fetch_or(&key_entry(KEY_INDEX(mr->ib.lkey))->flags, KEY_NULL);
		assert_int_equal(execute_word(opcode, 16, mr->ib.lkey), ONESIDED_BY_MESSAGE);
		atomic_fetch_and(&key_entry(KEY_INDEX(mr->ib.lkey))->flags, ~KEY_NULL);
		far_key->flags = KEY_MOVING;
		assert_int_equal(execute_word(opcode, 16, mr->ib.lkey), ONESIDED_BY_MESSAGE);
		far_key->flags = 0;
		far_key->access = RIGHTS & ~(unsigned)IBV_ACCESS_REMOTE_ATOMIC;
		assert_int_equal(execute_word(opcode, 16, mr->ib.lkey), ONESIDED_BY_MESSAGE);
		far_key->access = RIGHTS;
		far_qp->access = RIGHTS & ~(unsigned)IBV_ACCESS_REMOTE_ATOMIC;
		assert_int_equal(execute_word(opcode, 16, mr->ib.lkey), ONESIDED_BY_MESSAGE);
		far_qp->access = RIGHTS;
		far_key->heap = HEAP_PLACE + 4; /* a peer that lies */
		assert_int_equal(execute_word(opcode, 16, mr->ib.lkey), ONESIDED_BY_MESSAGE);
		far_key->heap = HEAP_PLACE;
		assert_int_equal(*word, before);
	}
	far_key->access = IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ;
	assert_int_equal(execute_word(IBV_WR_ATOMIC_WRITE, 16, mr->ib.lkey), ONESIDED_BY_MESSAGE);
	assert_int_equal(*word, before);
	assert_int_equal(mr_destroy(read_only), 0);
}

/* Outside of the heap the kernel cannot: the owner executes them, and is asked to migrate. */
static void test_words_outside_of_the_heap(void **state)
{
	uint8_t *far_memory = leave_heap();
	struct record_header header;
	unsigned asked = 0;

	for (int i = 0; i < 40; i++)
		assert_int_equal(execute_word(IBV_WR_ATOMIC_FETCH_AND_ADD, 16, mr->ib.lkey),
				 ONESIDED_BY_MESSAGE);
	assert_int_equal(far_memory[16], CANARY);
	while (far_next(&far, &header))
		asked += header.word == record_word(RECORD_MIGRATE, 0, 0);
	assert_int_equal(asked, 1);
}

/* Behind a message that went as one for no other reason, a request waits if its target is mapped.
 */
static void test_is_mapped(void **state)
{
	post(IBV_WR_RDMA_WRITE, 8, 16);
	assert_true(onesided_is_mapped(shm_of(qp), wqe));
	far_key->flags = KEY_MOVING;
	assert_false(onesided_is_mapped(shm_of(qp), wqe));
	far_key->flags = 0;
	far_key->heap_edges = 12; /* a part of it is not in the heap */
	assert_false(onesided_is_mapped(shm_of(qp), wqe));
	far_key->heap_edges = 0;
	far_key->key = 0;
	assert_false(onesided_is_mapped(shm_of(qp), wqe));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(last_word),
		TEST(small),
		TEST(inline),
		TEST(turns),
		TEST(read),
		TEST(local_key),
		TEST(local_range),
		TEST(local_null),
		TEST(local_key_of_a_later_slice),
		TEST(local_key_beyond_the_heap),
		TEST(by_message),
		TEST(kernel_copies),
		TEST(local_keys_while_the_kernel_copies),
		TEST(local_key_of_a_later_copy),
		TEST(thread_of_another_process),
		TEST(missing_pages),
		TEST(local_rights),
		TEST(asks_to_migrate),
		TEST(words),
		TEST(words_left_alone),
		TEST(words_outside_of_the_heap),
		TEST(is_mapped),
		TEST(places_far_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
