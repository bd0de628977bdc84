/* SPDX-License-Identifier: BSD-2-Clause */
/* Posts the steps of the plan, as far as queues, buffers and credits allow. */
#include "worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define GRH_BYTES 40u
#define QKEY	  0x11111111u
#define LARGE	  8192u /* requests above are signalled, so that their bytes come back soon */

char *traffic_buffer(struct worker *worker, uint32_t index)
{
	return worker->buffers + (size_t)index * SEND_BYTES_MAX;
}

char *traffic_uc_buffer(struct worker *worker, unsigned int which, uint32_t index)
{
	return worker->uc_buffers + (size_t)(which * UC_DEPTH + index) * UC_BYTES;
}

char *traffic_ud_buffer(struct worker *worker, uint32_t index)
{
	return worker->ud_buffers + (size_t)index * (DATAGRAM_BYTES + GRH_BYTES);
}

/* In two pieces, wherever that is possible. */
static struct ibv_recv_wr fill_receive(struct worker *worker, struct ibv_sge sge[2], uint64_t wr_id,
				       char *buffer, uint32_t length)
{
	uint32_t first = (uint32_t)(wr_id % 61) * 16 + 8;

	sge[0] = (struct ibv_sge){ (uintptr_t)buffer, first, worker->local->lkey };
	sge[1] = (struct ibv_sge){ (uintptr_t)buffer + first, length - first, worker->local->lkey };
	return (struct ibv_recv_wr){ .wr_id = wr_id, .sg_list = sge, .num_sge = 2 };
}

void traffic_receive(struct worker *worker, struct link *link)
{
	uint32_t number = link->receive_first + link->receive_count;
	struct ibv_sge sge[2];
	struct ibv_recv_wr *bad,
		wr = fill_receive(worker, sge, ticket(RC_RECEIVE, link->peer, number),
				  traffic_buffer(worker, link->peer * RECEIVES + number % RECEIVES),
				  SEND_BYTES_MAX);
	int error = ibv_post_recv(link->qp, &wr, &bad);

	CHECK(worker, error == 0, "ibv_post_recv: %s", strerror(error));
	link->receive_count++;
}

void traffic_receive_srq(struct worker *worker, uint32_t index)
{
	struct ibv_sge sge[2];
	struct ibv_recv_wr *bad, wr = fill_receive(worker, sge, ticket(SRQ_RECEIVE, 0, index),
						   traffic_buffer(worker, index), SEND_BYTES_MAX);
	int error;

	worker->srq_posted[index] = true;
	error = ibv_post_srq_recv(worker->srq, &wr, &bad);
	CHECK(worker, error == 0, "ibv_post_srq_recv: %s", strerror(error));
}

void traffic_receive_uc(struct worker *worker, unsigned int which, uint32_t index)
{
	struct ibv_sge sge[2];
	struct ibv_recv_wr *bad,
		wr = fill_receive(worker, sge, ticket(UC_RECEIVE, which, index),
				  traffic_uc_buffer(worker, which, index), UC_BYTES);
	int error = ibv_post_recv(worker->uc[which].qp, &wr, &bad);

	CHECK(worker, error == 0, "UC: ibv_post_recv: %s", strerror(error));
}

void traffic_receive_ud(struct worker *worker, uint32_t index)
{
	struct ibv_sge sge[2];
	struct ibv_recv_wr *bad,
		wr = fill_receive(worker, sge, ticket(UD_RECEIVE, 0, index),
				  traffic_ud_buffer(worker, index), DATAGRAM_BYTES + GRH_BYTES);
	int error = ibv_post_recv(worker->ud, &wr, &bad);

	CHECK(worker, error == 0, "UD: ibv_post_recv: %s", strerror(error));
}

/* Room for `length` bytes in one piece. The oldest request's bytes are the first to come back. */
static bool take_ring(struct link *link, uint32_t length, uint32_t *at)
{
	if (link->count == 0)
		link->ring_head = link->ring_tail = 0;
	length = (length + 63) & ~63u;
	if (link->ring_tail >= link->ring_head) {
		if (RING_BYTES - link->ring_tail >= length)
			*at = link->ring_tail;
		else if (link->ring_head > length)
			*at = 0;
		else
			return false;
	} else if (link->ring_head - link->ring_tail > length) {
		*at = link->ring_tail;
	} else {
		return false;
	}
	link->ring_tail = *at + length;
	return true;
}

static struct pending *add_pending(struct link *link, const struct step *step, uint32_t at)
{
	struct pending *pending = &link->pending[(link->first + link->count++) % DEPTH];

	*pending = (struct pending){ .number = link->number++,
				     .step = *step,
				     .at = at,
				     .end = link->ring_tail,
				     .signalled = step->signalled };
	link->unsignalled = step->signalled ? 0 : link->unsignalled + 1;
	return pending;
}

static const enum ibv_wr_opcode opcodes[STEP_KINDS] = {
	[STEP_SEND] = IBV_WR_SEND,
	[STEP_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
	[STEP_WRITE] = IBV_WR_RDMA_WRITE,
	[STEP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[STEP_READ] = IBV_WR_RDMA_READ,
	[STEP_ADD_OWN] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[STEP_ADD_SHARED] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[STEP_SWAP_OWN] = IBV_WR_ATOMIC_CMP_AND_SWP,
	[STEP_SWAP_SHARED] = IBV_WR_ATOMIC_CMP_AND_SWP,
};

/* Sets the target of an atomic, and the expected original value. */
static void aim_atomic(struct worker *worker, struct link *link, struct pending *pending,
		       struct ibv_send_wr *wr)
{
	const struct seat *to = &worker->board->seat[link->peer];
	const struct step *step = &pending->step;
	bool swaps = step->kind == STEP_SWAP_OWN || step->kind == STEP_SWAP_SHARED;
	bool shared = step->kind == STEP_ADD_SHARED || step->kind == STEP_SWAP_SHARED;

	wr->wr.atomic.remote_addr = to->words + word_offset(shared ? WORDS_SHARED : worker->self,
							    swaps ? WORD_SWAP : WORD_ADD);
	wr->wr.atomic.rkey = to->words_rkey;
	wr->wr.atomic.compare_add = step->value;
	if (step->kind == STEP_ADD_OWN) {
		pending->before = link->own_sum;
		link->own_sum += step->value;
	}
	if (step->kind == STEP_SWAP_OWN) {
		pending->before = link->own_word;
		wr->wr.atomic.compare_add = link->own_word + step->mismatch;
		wr->wr.atomic.swap = link->own_word + step->value;
		if (!step->mismatch)
			link->own_word += step->value;
	}
	if (step->kind == STEP_SWAP_SHARED) {
		pending->before = link->shared_seen;
		wr->wr.atomic.compare_add = link->shared_seen;
		wr->wr.atomic.swap = link->shared_seen + 1;
	}
}

static void aim(struct worker *worker, struct link *link, struct pending *pending,
		struct ibv_send_wr *wr)
{
	const struct seat *to = &worker->board->seat[link->peer];
	struct step *step = &pending->step;

	switch (step->kind) {
	case STEP_WRITE:
	case STEP_WRITE_IMM:
		wr->wr.rdma.remote_addr = to->target + (uint64_t)worker->self * plan_slots_bytes() +
					  plan_slot_start(link->writes) + WRITE_GUARD;
		wr->wr.rdma.rkey = to->target_rkey;
		break;
	case STEP_READ:
		wr->wr.rdma.remote_addr = to->source + step->offset;
		wr->wr.rdma.rkey = to->source_rkey;
		break;
	case STEP_SEND:
	case STEP_SEND_IMM:
		break;
	default:
		aim_atomic(worker, link, pending, wr);
		break;
	}
}

static int split(struct worker *worker, struct ibv_sge *sge, char *data, uint32_t length,
		 unsigned int pieces)
{
	uint32_t done = 0;

	for (unsigned int i = 0; i < pieces; i++) {
		uint32_t piece = i + 1 == pieces ? length - done : length / pieces;

		sge[i] = (struct ibv_sge){ (uintptr_t)data + done, piece, worker->local->lkey };
		done += piece;
	}
	return length == 0 ? 0 : (int)pieces;
}

/* The requests from `number` on were just posted. The board marks a peer before it is killed. */
static void note_late(struct worker *worker, struct link *link, uint32_t number)
{
	if (link->has_late || !link_is_dead(worker, link))
		return;
	link->has_late = true;
	link->late = number;
}

/* Posts the step, and the SEND that announces a WRITE in the same chain. */
static void post_step(struct worker *worker, struct link *link, struct step step, uint32_t at)
{
	char *data = link->ring + at;
	uint32_t tell_at = at + ((step.size + 63) & ~63u);
	struct ibv_sge sge[STEP_SGES_MAX], tell_sge;
	struct ibv_send_wr *bad, wr = { 0 }, tell = { 0 };
	bool sends = step.kind <= STEP_WRITE_IMM;
	struct pending *pending;
	uint32_t number;
	int error;

	if (sends)
		pattern_fill(data, step.size, step.key, 0);
	else
		memset(data, 0x5A, step.size);
	pending = add_pending(link, &step, at);
	number = pending->number;
	wr.wr_id = ticket(RC_SEND, link->peer, pending->number);
	wr.opcode = opcodes[step.kind];
	wr.imm_data = htonl(step.imm);
	wr.sg_list = sge;
	wr.num_sge = split(worker, sge, data, step.size, step.sges);
	wr.send_flags = (step.signalled ? IBV_SEND_SIGNALED : 0) |
			(step.fenced ? IBV_SEND_FENCE : 0) |
			(step.solicited && sends ? IBV_SEND_SOLICITED : 0);
	aim(worker, link, pending, &wr);
	step.inlined = step.inlined && sends && step.size <= INLINE_BYTES;
	if (step.inlined)
		wr.send_flags |= IBV_SEND_INLINE;
	if (step.kind == STEP_WRITE) {
		struct tell text = { step.key, link->next, step.size, link->writes, 0 };
		struct step small = { .kind = STEP_SEND, .size = TELL_BYTES, .signalled = true };

		memcpy(link->ring + tell_at, &text, sizeof(text));
		pending = add_pending(link, &small, tell_at);
		pending->tell = true;
		tell_sge = (struct ibv_sge){ (uintptr_t)link->ring + tell_at, TELL_BYTES,
					     worker->local->lkey };
		tell.wr_id = ticket(RC_SEND, link->peer, pending->number);
		tell.opcode = IBV_WR_SEND;
		tell.sg_list = &tell_sge;
		tell.num_sge = 1;
		tell.send_flags = IBV_SEND_SIGNALED;
		wr.next = &tell;
	}
	error = ibv_post_send(link->qp, &wr, &bad);
	CHECK(worker, error == 0, "ibv_post_send: %s", strerror(error));
	note_late(worker, link, number);
	if (step.inlined)
		memset(data, 0xEE, step.size);
	if (step.kind == STEP_WRITE || step.kind == STEP_WRITE_IMM)
		link->writes++;
	atomic_fetch_add(&worker->bytes, step.size);
}

/* A WRITE of length 0, whose completion retires unsignalled requests. */
static void post_nothing(struct worker *worker, struct link *link)
{
	struct step step = { .kind = STEP_WRITE, .signalled = true };
	struct pending *pending = add_pending(link, &step, link->ring_head);
	struct ibv_send_wr *bad, wr = { .wr_id = ticket(RC_SEND, link->peer, pending->number),
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED };
	int error = ibv_post_send(link->qp, &wr, &bad);

	CHECK(worker, error == 0, "ibv_post_send: %s", strerror(error));
	note_late(worker, link, pending->number);
}

static bool has_credit(struct worker *worker, struct link *link)
{
	struct seat *to = &worker->board->seat[link->peer];

	return link->writes - atomic_load(&to->verified[worker->self]) < WRITE_SLOTS;
}

/* The next step of a link, if it can be posted now. Caller holds the link's lock. */
static unsigned int post_next(struct worker *worker, struct link *link)
{
	unsigned int ops = worker->settings->ops;
	struct step step;
	uint32_t at, room;
	bool tells;

	if (link_is_dead(worker, link)) {
		/* Until one fails: the first may still find the peer alive. */
		if (link->failed || link->count == DEPTH || link->unsignalled < link->count)
			return 0;
		post_nothing(worker, link);
		return 1;
	}
	if (link->failed || link->next == ops || link->count + 2 > DEPTH)
		return 0;
	step = plan_step(worker->settings->seed, worker->self, link->peer, link->next);
	tells = step.kind == STEP_WRITE;
	if (tells || step.kind == STEP_WRITE_IMM) {
		if (!has_credit(worker, link))
			return 0;
		step.size = plan_slot_fit(link->writes, step.size);
	}
	room = ((step.size + 63) & ~63u) + (tells ? 64 : 0);
	if (!take_ring(link, room, &at)) {
		if (link->unsignalled == 0)
			return 0;
		post_nothing(worker, link);
		return 1;
	}
	if (step.size > LARGE || link->unsignalled >= 7 || link->next + 1 == ops)
		step.signalled = true;
	post_step(worker, link, step, at);
	link->next++;
	atomic_fetch_add(&worker->seat->posted, 1);
	return 1;
}

static uint32_t put_label(struct worker *worker, char *data, uint32_t number, uint32_t size)
{
	struct label label = { LABEL_MAGIC, worker->self, number, size,
			       plan_mix(worker->settings->seed + number) };

	memcpy(data, &label, sizeof(label));
	pattern_fill(data + sizeof(label), size, label.key, 0);
	return (uint32_t)sizeof(label) + size;
}

static unsigned int post_datagram(struct worker *worker, uint64_t *random)
{
	uint64_t bits = plan_random(random);
	unsigned int peer = bits % worker->settings->procs;
	struct ibv_send_wr *bad,
		wr = { .opcode = IBV_WR_SEND, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge;
	unsigned int posted = 0;

	pthread_mutex_lock(&worker->ud_lock);
	if (worker->ud_sent < worker->settings->ops &&
	    worker->ud_sent - worker->ud_completed < DATAGRAM_DEPTH) {
		uint32_t number = worker->ud_sent++;
		char *data = worker->ud_out +
			     (size_t)(number % DATAGRAM_DEPTH) * (DATAGRAM_BYTES + GRH_BYTES);
		uint32_t size = (uint32_t)(bits >> 32) %
				(DATAGRAM_BYTES - (uint32_t)sizeof(struct label) + 1);
		int error;

		sge = (struct ibv_sge){ (uintptr_t)data, put_label(worker, data, number, size),
					worker->local->lkey };
		wr.wr_id = ticket(UD_SEND, 0, number);
		wr.sg_list = &sge;
		wr.wr.ud.ah = worker->ah[peer];
		wr.wr.ud.remote_qpn = worker->board->seat[peer].ud_qpn;
		wr.wr.ud.remote_qkey = QKEY;
		error = ibv_post_send(worker->ud, &wr, &bad);
		CHECK(worker, error == 0, "UD: ibv_post_send: %s", strerror(error));
		posted = 1;
	}
	pthread_mutex_unlock(&worker->ud_lock);
	return posted;
}

static unsigned int post_uc(struct worker *worker, uint64_t *random)
{
	uint64_t bits = plan_random(random);
	unsigned int which = bits % 2, posted = 0;
	struct uc *uc = &worker->uc[which];
	struct ibv_send_wr *bad,
		wr = { .opcode = IBV_WR_SEND, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge;

	pthread_mutex_lock(&worker->ud_lock);
	if (uc->sent < worker->settings->ops && uc->sent - uc->completed < UC_DEPTH) {
		uint32_t number = uc->sent++;
		char *data = uc->out + (size_t)(number % UC_DEPTH) * UC_BYTES;
		uint32_t size = (uint32_t)(bits >> 32) % (bits & 4 ? 200 : 32000);
		int error;

		sge = (struct ibv_sge){ (uintptr_t)data, put_label(worker, data, number, size),
					worker->local->lkey };
		wr.wr_id = ticket(UC_SEND, which, number);
		wr.sg_list = &sge;
		error = ibv_post_send(uc->qp, &wr, &bad);
		CHECK(worker, error == 0, "UC: ibv_post_send: %s", strerror(error));
		posted = 1;
	}
	pthread_mutex_unlock(&worker->ud_lock);
	return posted;
}

bool traffic_is_done(struct worker *worker)
{
	uint32_t ops = worker->settings->ops;
	bool done;

	pthread_mutex_lock(&worker->ud_lock);
	done = worker->ud_completed == ops && worker->uc[0].completed == ops &&
	       worker->uc[1].completed == ops;
	pthread_mutex_unlock(&worker->ud_lock);
	return done;
}

bool traffic_is_posted(struct worker *worker)
{
	uint32_t ops = worker->settings->ops;
	bool posted;

	pthread_mutex_lock(&worker->ud_lock);
	posted = worker->ud_sent == ops && worker->uc[0].sent == ops && worker->uc[1].sent == ops;
	pthread_mutex_unlock(&worker->ud_lock);
	for (unsigned int i = 0; i < worker->settings->procs && posted; i++) {
		struct link *link = &worker->link[i];

		pthread_mutex_lock(&link->lock);
		posted = !link->qp || link->next == ops;
		pthread_mutex_unlock(&link->lock);
	}
	return posted;
}

unsigned int traffic_post(struct worker *worker, uint64_t *random)
{
	unsigned int procs = worker->settings->procs, posted = 0;
	unsigned int start = (unsigned int)plan_random(random) % procs;

	for (unsigned int i = 0; i < procs; i++) {
		struct link *link = &worker->link[(start + i) % procs];
		unsigned int burst = 1 + (unsigned int)plan_random(random) % 6;

		if (!link->qp || pthread_mutex_trylock(&link->lock) != 0)
			continue;
		while (burst-- > 0 && post_next(worker, link))
			posted++;
		pthread_mutex_unlock(&link->lock);
	}
	if (plan_random(random) % 4 == 0)
		posted += post_datagram(worker, random);
	if (plan_random(random) % 4 == 0)
		posted += post_uc(worker, random);
	return posted;
}
