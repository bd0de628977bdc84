/* SPDX-License-Identifier: BSD-2-Clause */
/* Judges every completion, and every byte of its message. */
#include "worker.h"

#include <arpa/inet.h>
#include <string.h>

#define GRH_BYTES 40u
#define BATCH	  16

static void check_success(struct worker *worker, const struct ibv_wc *wc)
{
	CHECK(worker, wc->status == IBV_WC_SUCCESS, "wr_id %llx: %s, vendor_err %u",
	      (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), wc->vendor_err);
}

/* Checks the data of a READ or atomic, once the request is done. */
static void check_result(struct worker *worker, struct link *link, const struct pending *pending)
{
	const struct step *step = &pending->step;
	const char *data = link->ring + pending->at;
	uint64_t value = 0;
	int64_t bad;

	if (step->kind == STEP_READ) {
		bad = pattern_check(data, step->size, worker->settings->seed + link->peer,
				    step->offset);
		CHECK(worker, bad < 0, "READ of %u bytes at %u from %u: byte %lld is wrong",
		      step->size, step->offset, link->peer, (long long)bad);
	}
	if (step->kind < STEP_ADD_OWN)
		return;
	memcpy(&value, data, 8);
	if (step->kind == STEP_ADD_OWN || step->kind == STEP_SWAP_OWN)
		CHECK(worker, value == pending->before,
		      "atomic at %u returned %llx, the word held %llx", link->peer,
		      (unsigned long long)value, (unsigned long long)pending->before);
	if (step->kind == STEP_ADD_SHARED)
		link->added += step->value;
	if (step->kind == STEP_SWAP_SHARED) {
		bool swapped = value == pending->before;

		link->swapped += swapped;
		if (value + swapped > link->shared_seen)
			link->shared_seen = value + swapped;
	}
}

static struct pending *oldest(struct link *link)
{
	return &link->pending[link->first % DEPTH];
}

static void drop_oldest(struct link *link)
{
	link->ring_head = oldest(link)->end;
	link->first++;
	link->count--;
}

static void check_send_opcode(struct worker *worker, const struct ibv_wc *wc,
			      const struct pending *pending)
{
	static const enum ibv_wc_opcode opcodes[STEP_KINDS] = {
		IBV_WC_SEND,	   IBV_WC_SEND,	     IBV_WC_RDMA_WRITE,
		IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD,
		IBV_WC_FETCH_ADD,  IBV_WC_COMP_SWAP, IBV_WC_COMP_SWAP
	};
	const struct step *step = &pending->step;

	CHECK(worker, wc->opcode == opcodes[step->kind], "opcode %d of a step of kind %d",
	      wc->opcode, step->kind);
	CHECK(worker, wc->wc_flags == 0, "wc_flags 0x%x of a send", wc->wc_flags);
	if (step->kind >= STEP_READ)
		CHECK(worker, wc->byte_len == step->size, "byte_len %u of %u", wc->byte_len,
		      step->size);
}

/* Requests before it were unsignalled, or their completions are missing. */
static void retire_up_to(struct worker *worker, struct link *link, const struct ibv_wc *wc)
{
	uint32_t number = (uint32_t)wc->wr_id;

	while (link->count > 0 && oldest(link)->number != number) {
		CHECK(worker, !oldest(link)->signalled,
		      "completion of request %u to %u, but %u has not completed", number,
		      link->peer, oldest(link)->number);
		check_result(worker, link, oldest(link));
		drop_oldest(link);
	}
	CHECK(worker, link->count > 0, "completion of request %u to %u, which is none", number,
	      link->peer);
}

static void on_rc_error(struct worker *worker, struct link *link, const struct ibv_wc *wc)
{
	bool late;

	CHECK(worker, link_is_dead(worker, link), "request %u to %u, who lives: %s, vendor_err %u",
	      (uint32_t)wc->wr_id, link->peer, ibv_wc_status_str(wc->status), wc->vendor_err);
	if (!link->failed)
		retire_up_to(worker, link, wc);
	CHECK(worker, link->count > 0 && oldest(link)->number == (uint32_t)wc->wr_id,
	      "request %u to the dead %u is out of order", (uint32_t)wc->wr_id, link->peer);
	/* A QP that was idle when its peer died may have been failed before it was used again. */
	late = link->has_late && (int32_t)(oldest(link)->number - link->late) >= 0;
	CHECK(worker,
	      link->failed ? wc->status == IBV_WC_WR_FLUSH_ERR
			   : wc->status == IBV_WC_RETRY_EXC_ERR ||
				     (late && wc->status == IBV_WC_WR_FLUSH_ERR),
	      "request %u to the dead %u: %s", (uint32_t)wc->wr_id, link->peer,
	      ibv_wc_status_str(wc->status));
	link->failed = true;
	drop_oldest(link);
}

static void on_rc_send(struct worker *worker, const struct ibv_wc *wc)
{
	struct link *link = &worker->link[wc->wr_id >> 48 & 0xff];

	pthread_mutex_lock(&link->lock);
	CHECK(worker, wc->qp_num == link->qp->qp_num, "completion of another QP");
	if (wc->status != IBV_WC_SUCCESS) {
		on_rc_error(worker, link, wc);
	} else {
		CHECK(worker, !link->failed, "success after an error on one QP");
		retire_up_to(worker, link, wc);
		CHECK(worker, oldest(link)->signalled, "completion of an unsignalled request");
		check_send_opcode(worker, wc, oldest(link));
		check_result(worker, link, oldest(link));
		drop_oldest(link);
	}
	pthread_mutex_unlock(&link->lock);
}

static void on_send(struct worker *worker, const struct ibv_wc *wc)
{
	uint32_t number = (uint32_t)wc->wr_id;
	struct uc *uc = &worker->uc[wc->wr_id >> 48 & 1];

	switch ((enum ticket)(wc->wr_id >> 56)) {
	case RC_SEND:
		on_rc_send(worker, wc);
		break;
	case UD_SEND:
		check_success(worker, wc);
		pthread_mutex_lock(&worker->ud_lock);
		CHECK(worker, number == worker->ud_completed, "datagram %u completed, expected %u",
		      number, worker->ud_completed);
		worker->ud_completed++;
		pthread_mutex_unlock(&worker->ud_lock);
		break;
	case UC_SEND:
		check_success(worker, wc);
		pthread_mutex_lock(&worker->ud_lock);
		CHECK(worker, number == uc->completed, "UC message %u completed, expected %u",
		      number, uc->completed);
		uc->completed++;
		pthread_mutex_unlock(&worker->ud_lock);
		break;
	default:
		worker_fail(worker, "wr_id %llx among the sends", (unsigned long long)wc->wr_id);
	}
}

static void check_canary(struct worker *worker, const char *at, size_t length, const char *where)
{
	for (size_t i = 0; i < length; i++)
		CHECK(worker, (uint8_t)at[i] == CANARY, "byte %zu %s was written", i, where);
}

/* Checks that a WRITE is in its slot, with nothing beside it; clears and frees the slot. */
static void check_slot(struct worker *worker, struct link *link, const struct step *step,
		       uint32_t size)
{
	char *slot = (char *)worker->target->addr + (size_t)link->peer * plan_slots_bytes() +
		     plan_slot_start(link->seen_writes);
	int64_t bad = pattern_check(slot + WRITE_GUARD, size, step->key, 0);

	CHECK(worker, bad < 0, "WRITE %u of %u bytes from %u: byte %lld is wrong",
	      link->seen_writes, size, link->peer, (long long)bad);
	check_canary(worker, slot, WRITE_GUARD, "before a WRITE");
	check_canary(worker, slot + WRITE_GUARD + size, WRITE_GUARD, "behind a WRITE");
	memset(slot + WRITE_GUARD, CANARY, size);
	link->seen_writes++;
	atomic_fetch_add(&worker->seat->verified[link->peer], 1);
}

/* Skips steps without a receive. Returns false at the end of the plan. */
static bool next_expected(struct worker *worker, struct link *link, struct step *step)
{
	for (; link->expected < worker->settings->ops; link->expected++) {
		*step = plan_step(worker->settings->seed, link->peer, worker->self, link->expected);
		if (step_consumes_receive(step))
			return true;
	}
	return false;
}

static void check_tell(struct worker *worker, struct link *link, const struct step *step,
		       uint32_t size, const char *buffer)
{
	struct tell tell;

	memcpy(&tell, buffer, sizeof(tell));
	CHECK(worker,
	      tell.key == step->key && tell.step == link->expected && tell.size == size &&
		      tell.write == link->seen_writes,
	      "%u tells of step %u, expected %u", link->peer, tell.step, link->expected);
}

/* The next message of the plan. `buffer`: where the receive had room. */
static void check_message(struct worker *worker, struct link *link, const struct ibv_wc *wc,
			  char *buffer)
{
	struct step step;
	uint32_t size, in_buffer = wc->byte_len;
	bool imm, writes;
	int64_t bad;

	CHECK(worker, next_expected(worker, link, &step), "%u sends more than was planned",
	      link->peer);
	writes = step.kind == STEP_WRITE || step.kind == STEP_WRITE_IMM;
	imm = step.kind == STEP_SEND_IMM || step.kind == STEP_WRITE_IMM;
	size = writes ? plan_slot_fit(link->seen_writes, step.size) : step.size;
	CHECK(worker, wc->byte_len == (step.kind == STEP_WRITE ? TELL_BYTES : size),
	      "step %u of %u: byte_len %u", link->expected, link->peer, wc->byte_len);
	CHECK(worker, wc->wc_flags == (imm ? IBV_WC_WITH_IMM : 0), "step %u of %u: wc_flags 0x%x",
	      link->expected, link->peer, wc->wc_flags);
	CHECK(worker, !imm || wc->imm_data == htonl(step.imm), "step %u of %u: imm_data 0x%x",
	      link->expected, link->peer, ntohl(wc->imm_data));
	CHECK(worker,
	      wc->opcode == (step.kind == STEP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV),
	      "step %u of %u: opcode %d", link->expected, link->peer, wc->opcode);
	if (step.kind == STEP_WRITE)
		check_tell(worker, link, &step, size, buffer);
	if (writes)
		check_slot(worker, link, &step, size);
	if (step.kind == STEP_WRITE_IMM)
		in_buffer = 0;
	if (!writes) {
		bad = pattern_check(buffer, size, step.key, 0);
		CHECK(worker, bad < 0, "step %u of %u, %u bytes: byte %lld is wrong",
		      link->expected, link->peer, size, (long long)bad);
	}
	check_canary(worker, buffer + in_buffer,
		     SEND_BYTES_MAX - in_buffer < 64 ? SEND_BYTES_MAX - in_buffer : 64,
		     "behind a message");
	memset(buffer, CANARY, in_buffer);
	link->expected++;
}

static void on_rc_receive(struct worker *worker, const struct ibv_wc *wc)
{
	struct link *link = &worker->link[wc->wr_id >> 48 & 0xff];
	uint32_t number = (uint32_t)wc->wr_id;

	CHECK(worker, wc->qp_num == link->qp->qp_num, "receive of another QP");
	CHECK(worker, link->receive_count > 0 && number == link->receive_first,
	      "receive %u from %u, expected %u", number, link->peer, link->receive_first);
	link->receive_first++;
	link->receive_count--;
	if (wc->status != IBV_WC_SUCCESS) {
		CHECK(worker, link_is_dead(worker, link) && wc->status == IBV_WC_WR_FLUSH_ERR,
		      "receive %u from %u: %s, vendor_err %u", number, link->peer,
		      ibv_wc_status_str(wc->status), wc->vendor_err);
		return;
	}
	check_message(worker, link, wc,
		      traffic_buffer(worker, link->peer * RECEIVES + number % RECEIVES));
	traffic_receive(worker, link);
}

static struct link *link_of_qp(struct worker *worker, uint32_t qpn)
{
	for (unsigned int i = 0; i < worker->settings->procs; i++)
		if (worker->link[i].qp && worker->link[i].qp->qp_num == qpn)
			return &worker->link[i];
	worker_fail(worker, "receive of QP 0x%x, which is none", qpn);
}

static void on_srq_receive(struct worker *worker, const struct ibv_wc *wc)
{
	struct link *link = link_of_qp(worker, wc->qp_num);
	uint32_t index = (uint32_t)wc->wr_id;

	CHECK(worker, worker->srq_posted[index], "receive %u of the SRQ completed twice", index);
	worker->srq_posted[index] = false;
	if (wc->status == IBV_WC_SUCCESS) {
		check_message(worker, link, wc, traffic_buffer(worker, index));
	} else {
		/* Only the receive of a message whose rest will not come. */
		CHECK(worker,
		      link_is_dead(worker, link) && wc->status == IBV_WC_WR_FLUSH_ERR &&
			      !link->cut_off,
		      "receive %u of the SRQ, from %u: %s, vendor_err %u", index, link->peer,
		      ibv_wc_status_str(wc->status), wc->vendor_err);
		link->cut_off = true;
		memset(traffic_buffer(worker, index), CANARY, SEND_BYTES_MAX);
	}
	traffic_receive_srq(worker, index);
}

static struct label check_label(struct worker *worker, const char *data, uint32_t length)
{
	struct label label;
	int64_t bad;

	CHECK(worker, length >= sizeof(label), "%u bytes are no message", length);
	memcpy(&label, data, sizeof(label));
	CHECK(worker,
	      label.magic == LABEL_MAGIC && label.from < worker->settings->procs &&
		      label.number < worker->settings->ops &&
		      length == sizeof(label) + label.size &&
		      label.key == plan_mix(worker->settings->seed + label.number),
	      "the label of a message is damaged");
	bad = pattern_check(data + sizeof(label), label.size, label.key, 0);
	CHECK(worker, bad < 0, "byte %lld of message %u from %u is wrong", (long long)bad,
	      label.number, label.from);
	return label;
}

static void on_ud_receive(struct worker *worker, const struct ibv_wc *wc)
{
	uint32_t index = (uint32_t)wc->wr_id;
	struct label label;

	check_success(worker, wc);
	CHECK(worker, wc->wc_flags == IBV_WC_GRH && wc->byte_len >= GRH_BYTES,
	      "datagram: wc_flags 0x%x, byte_len %u", wc->wc_flags, wc->byte_len);
	label = check_label(worker, traffic_ud_buffer(worker, index) + GRH_BYTES,
			    wc->byte_len - GRH_BYTES);
	CHECK(worker, wc->src_qp == worker->board->seat[label.from].ud_qpn,
	      "datagram of %u from QP 0x%x", label.from, wc->src_qp);
	CHECK(worker, !worker->ud_seen[label.from][label.number], "datagram %u of %u came twice",
	      label.number, label.from);
	worker->ud_seen[label.from][label.number] = 1;
	traffic_receive_ud(worker, index);
}

static void on_uc_receive(struct worker *worker, const struct ibv_wc *wc)
{
	unsigned int which = wc->wr_id >> 48 & 1;
	struct uc *uc = &worker->uc[which];
	uint32_t index = (uint32_t)wc->wr_id;
	struct label label;

	check_success(worker, wc);
	CHECK(worker, wc->qp_num == uc->qp->qp_num, "UC message of another QP");
	label = check_label(worker, traffic_uc_buffer(worker, which, index), wc->byte_len);
	CHECK(worker, label.from == uc->peer, "UC message of %u", label.from);
	CHECK(worker, label.number >= uc->last_seen, "UC message %u after %u", label.number,
	      uc->last_seen);
	atomic_fetch_add(&worker->lost, label.number - uc->last_seen);
	uc->last_seen = label.number + 1;
	traffic_receive_uc(worker, which, index);
}

static void on_receive(struct worker *worker, const struct ibv_wc *wc)
{
	switch ((enum ticket)(wc->wr_id >> 56)) {
	case RC_RECEIVE:
		on_rc_receive(worker, wc);
		break;
	case SRQ_RECEIVE:
		on_srq_receive(worker, wc);
		break;
	case UD_RECEIVE:
		on_ud_receive(worker, wc);
		break;
	case UC_RECEIVE:
		on_uc_receive(worker, wc);
		break;
	default:
		worker_fail(worker, "wr_id %llx among the receives", (unsigned long long)wc->wr_id);
	}
}

static unsigned int poll_one(struct worker *worker, struct ibv_cq *cq, pthread_mutex_t *lock,
			     void (*on_completion)(struct worker *, const struct ibv_wc *))
{
	struct ibv_wc wc[BATCH];
	int count;

	if (pthread_mutex_trylock(lock) != 0)
		return 0;
	count = ibv_poll_cq(cq, BATCH, wc);
	CHECK(worker, count >= 0, "ibv_poll_cq: %d", count);
	for (int i = 0; i < count; i++)
		on_completion(worker, &wc[i]);
	pthread_mutex_unlock(lock);
	atomic_fetch_add(&worker->completions, (uint64_t)count);
	return (unsigned int)count;
}

unsigned int oracle_poll_sends(struct worker *worker)
{
	return poll_one(worker, worker->sends, &worker->sends_lock, on_send);
}

unsigned int oracle_poll_receives(struct worker *worker)
{
	return poll_one(worker, worker->receives, &worker->receives_lock, on_receive);
}

/* Only a QP with an SRQ whose peer is dead raises an event. The descriptor does not block. */
void oracle_poll_async(struct worker *worker)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(worker->context, &event) == 0) {
		struct link *link = NULL;

		for (unsigned int i = 0; i < worker->settings->procs; i++)
			if (worker->link[i].qp && worker->link[i].qp == event.element.qp)
				link = &worker->link[i];
		CHECK(worker,
		      event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && worker->srq && link &&
			      link_is_dead(worker, link) && !link->last_wqe,
		      "async event %s", ibv_event_type_str(event.event_type));
		link->last_wqe = true;
		ibv_ack_async_event(&event);
	}
}

/* Called by one thread; the others may still be running. */
bool oracle_link_is_done(struct worker *worker, struct link *link)
{
	struct step step;
	bool done;

	pthread_mutex_lock(&worker->receives_lock);
	pthread_mutex_lock(&link->lock);
	if (link_is_dead(worker, link)) {
		done = link->failed && link->count == 0 &&
		       (worker->srq ? link->last_wqe : link->receive_count == 0);
		if (done && !link->settled)
			worker->seat->settled_ms =
				(uint32_t)(now_ms() - atomic_load(&worker->board->killed_at_ms));
		link->settled = done;
	} else {
		done = link->next == worker->settings->ops && link->count == 0 &&
		       !next_expected(worker, link, &step);
	}
	pthread_mutex_unlock(&link->lock);
	pthread_mutex_unlock(&worker->receives_lock);
	return done;
}
