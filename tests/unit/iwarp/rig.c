/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/eventfd.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/memory.h"
#include "object/acknowledge.h"
#include "object/qp_create.h"
#include "object/qp_table.h"

#define SLOT 5

struct rig_end rig[2];
static struct context *context;
static struct pd *pd;
static void *arena;

static ssize_t take(void *stream, const struct iovec *pieces, int count, bool more)
{
	struct rig_end *end = stream;
	size_t taken = 0;

	assert_in_range(count, 1, IWARP_SEND_PIECES);
	assert_false(end->shut);
	if (end->broken || end->refused)
		return IWARP_LOST;
	end->sends++;
	for (int i = 0; i < count && end->room; i++) {
		size_t n = pieces[i].iov_len < end->room ? pieces[i].iov_len : end->room;

		assert_true(pieces[i].iov_len > 0);
		assert_true(end->tail + n <= RIG_STREAM_BYTES);
		memcpy(end->bytes + end->tail, pieces[i].iov_base, n);
		end->tail += n;
		taken += n;
		if (end->room != SIZE_MAX)
			end->room -= n;
	}
	return (ssize_t)taken;
}

static ssize_t give(void *stream, const struct iovec *pieces, int count)
{
	struct rig_end *end = stream, *from = end->peer;
	size_t given = 0, limit = end->piece;

	assert_in_range(count, 1, IWARP_RECEIVE_PIECES);
	if (end->broken)
		return IWARP_LOST;
	end->receives++;
	for (int i = 0; i < count; i++) {
		size_t n = from->tail - from->head;

		assert_true(pieces[i].iov_len > 0);
		if (n > pieces[i].iov_len)
			n = pieces[i].iov_len;
		if (n > limit)
			n = limit;
		memcpy(pieces[i].iov_base, from->bytes + from->head, n);
		from->head += n;
		given += n;
		limit -= n;
	}
	if (given)
		return (ssize_t)given;
	return from->shut ? IWARP_END : IWARP_WOULD_BLOCK;
}

static void shut(void *stream)
{
	struct rig_end *end = stream;

	assert_false(end->shut);
	end->shut = true;
}

static void turn_over(void *stream)
{
	((struct rig_end *)stream)->turns++;
}

static void ending(void *stream, bool failed)
{
	struct rig_end *end = stream;

	assert_false(end->is_failing); /* and nothing follows */
	end->is_ending = true;
	end->is_failing = failed;
}

static void ended(void *stream, struct qp *qp, enum iwarp_end why)
{
	struct rig_end *end = stream;

	assert_ptr_equal(qp, end->qp);
	end->end = why;
	end->ends++;
	end->shut = true; /* the socket is closed soon */
}

static void again(void *stream, struct qp *qp)
{
	((struct rig_end *)stream)->again++;
}

static const struct iwarp_env env = {
	.send = take,
	.receive = give,
	.shutdown = shut,
	.turn_over = turn_over,
	.ending = ending,
	.ended = ended,
	.again = again,
};

static void create_qp(struct rig_end *end)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = &end->cq->ib,
		.recv_cq = &end->cq->ib,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = 64,
			 .max_send_sge = 8,
			 .max_recv_sge = 4,
			 .max_inline_data = 256 },
	};

	assert_int_equal(qp_create(context, pd, &attr, &iwarp_path, &end->qp), 0);
}

static void create_end(struct rig_end *end, uint32_t access)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4096 };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = access };
	struct mr_spec spec = {
		.pd = pd,
		.length = RIG_BYTES,
		.access = access | IBV_ACCESS_LOCAL_WRITE,
	};

	memset(end, 0, sizeof(*end));
	end->room = end->piece = SIZE_MAX;
	end->memory =
		mmap(NULL, RIG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	end->bytes = malloc(RIG_STREAM_BYTES);
	assert_int_equal(cq_create(context, &attr, &end->cq), 0);
	create_qp(end);
	assert_int_equal(
		qp_modify(end->qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	spec.addr = end->memory;
	spec.iova = (uintptr_t)end->memory;
	assert_int_equal(mr_create(&spec, &end->mr), 0);
}

/* The fuzzer does this thousands of times. */
static void fill(void)
{
	static uint8_t pattern[RIG_BYTES];

	if (!pattern[1])
		for (size_t i = 0; i < RIG_BYTES; i++)
			pattern[i] = (uint8_t)(i * 7 + i / 1000);
	memcpy(rig[0].memory, pattern, RIG_BYTES);
	memset(rig[1].memory, 0xee, RIG_BYTES);
}

void rig_create(uint32_t access)
{
	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(arena, MAP_FAILED);
	hazard_init(arena, SLOT);
	assert_int_equal(key_table_init(arena), 0);
	assert_int_equal(qp_table_init(arena, SLOT), 0);
	memory_init(SLOT);
	iwarp_init(&env);
	context = calloc(1, sizeof(*context));
	context->verbs.context.num_comp_vectors = 1;
	context->verbs.context.async_fd = eventfd_create();
	lock_init(&context->async_lock);
	list_init(&context->async_pending);
	assert_int_equal(pd_create(&context->verbs.context, &pd), 0);
	for (int i = 0; i < 2; i++)
		create_end(&rig[i], access);
	for (int i = 0; i < 2; i++)
		rig[i].peer = &rig[!i];
	fill();
}

int rig_destroy(void **state)
{
	while (rig_has_event())
		rig_event();
	for (int i = 0; i < 2; i++) {
		struct rig_end *end = &rig[i];

		assert_int_equal(qp_destroy(end->qp), 0);
		assert_int_equal(mr_destroy(end->mr), 0);
		assert_int_equal(cq_destroy(end->cq), 0);
		munmap(end->memory, RIG_BYTES);
		free(end->bytes);
		assert_in_range(end->ends, 0, 1);
	}
	assert_int_equal(pd_destroy(pd), 0);
	close(context->verbs.context.async_fd);
	lock_fini(&context->async_lock);
	free(context);
	munmap(arena, ARENA_BYTES);
	return 0;
}

struct iwarp_options rig_options(void)
{
	return (struct iwarp_options){
		.mpa = { .initiator = true, .extensions = true, .ird = 4, .ord = 4 },
		.mulpdu = 4096,
	};
}

static void attach(struct rig_end *end, const struct iwarp_options *options)
{
	lock_acquire(&end->qp->lock);
	assert_int_equal(iwarp_attach(end->qp, end, options, NULL, 0), 0);
	lock_release(&end->qp->lock);
}

void rig_connect(const struct iwarp_options *options)
{
	struct iwarp_options there, here = options ? *options : rig_options();

	there = here;
	there.mpa.initiator = !here.mpa.initiator;
	there.mpa.ird = here.mpa.ord;
	there.mpa.ord = here.mpa.ird;
	there.mpa.sends_markers = here.mpa.gets_markers;
	there.mpa.gets_markers = here.mpa.sends_markers;
	attach(&rig[0], &here);
	attach(&rig[1], &there);
}

void rig_post_wr(unsigned end, struct ibv_send_wr *wr)
{
	struct qp *qp = rig[end].qp;

	lock_acquire(&qp->lock);
	assert_int_equal(sq_push(&qp->sq, wr), 0);
	if (qp_state(qp) == IBV_QPS_ERR)
		qp_flush(qp);
	else
		qp->path->issue(qp);
	lock_release(&qp->lock);
}

void rig_post(unsigned end, enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t wr_id)
{
	struct rig_end *from = &rig[end], *to = from->peer;
	struct ibv_sge sge = { (uintptr_t)from->memory, bytes, from->mr->ib.lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.imm_data = RIG_IMM,
		.wr.rdma = { .remote_addr = (uintptr_t)to->memory, .rkey = to->mr->ib.rkey },
	};

	rig_post_wr(end, &wr);
}

void rig_receive(unsigned end, uint64_t wr_id, uint32_t bytes)
{
	struct rig_end *to = &rig[end];
	struct ibv_sge sge = { (uintptr_t)to->memory, bytes, to->mr->ib.lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(rq_post(to->qp->rq, &wr, &bad), 0);
}

enum iwarp_progress rig_read(unsigned end)
{
	enum iwarp_progress progress;
	bool any;

	lock_acquire(&rig[end].qp->lock);
	progress = iwarp_on_readable(rig[end].qp, &any);
	lock_release(&rig[end].qp->lock);
	return progress;
}

bool rig_make_room(unsigned i)
{
	struct rig_end *end = &rig[i];
	size_t before = end->tail;

	if (!iwarp_wants_room(end->qp))
		return false;
	lock_acquire(&end->qp->lock);
	iwarp_on_writable(end->qp);
	lock_release(&end->qp->lock);
	return end->tail != before;
}

void rig_open_gate(unsigned end)
{
	lock_acquire(&rig[end].qp->lock);
	iwarp_open_gate(rig[end].qp);
	lock_release(&rig[end].qp->lock);
}

void rig_run(void)
{
	bool active = true;

	for (int round = 0; active; round++) {
		active = false;
		assert_in_range(round, 0, 1000000);
		for (unsigned i = 0; i < 2; i++) {
			size_t head = rig[!i].head;
			bool shut_before = rig[i].shut;
			enum iwarp_progress progress = rig_read(i);

			active |= rig[i].shut != shut_before;
			active |=
				rig_make_room(i) || rig[!i].head != head || progress == IWARP_MORE;
		}
		for (unsigned i = 0; !active && i < 2; i++) {
			size_t tail = rig[i].tail;

			rig_open_gate(i);
			active = rig[i].tail != tail;
		}
	}
}

struct ibv_wc rig_expect(unsigned end, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(cq_pop(rig[end].cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

bool rig_is_quiet(unsigned end)
{
	return cq_is_empty(rig[end].cq);
}

bool rig_has_event(void)
{
	struct pollfd fd = { .fd = context->verbs.context.async_fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

enum ibv_event_type rig_event(void)
{
	struct ibv_async_event event;
	struct ibv_qp *qp;
	uint64_t count;

	assert_true(rig_has_event());
	assert_int_equal(read(context->verbs.context.async_fd, &count, sizeof(count)),
			 sizeof(count));
	assert_true(context_take_event(context, &event));
	qp = event.element.qp;
	acknowledge(&qp->mutex, &qp->cond, &qp->events_completed, 1);
	return event.event_type;
}

void rig_inject(unsigned end, const void *bytes, size_t count)
{
	struct rig_end *from = &rig[end];

	memcpy(from->bytes + from->tail, bytes, count);
	from->tail += count;
}
