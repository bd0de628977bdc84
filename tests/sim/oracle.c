/* SPDX-License-Identifier: BSD-2-Clause */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "op.h"
#include "packet/packet.h"
#include "read_order.h"
#include "settle.h"

#define BATCH	 64
#define RETRIES	 7
#define SCRIBBLE 7 /* pattern + this: a program overwrites a message with it */

static struct plan *plan;

static struct end *find_end(uint32_t qpn)
{
	for (unsigned i = 0; i < plan->end_count; i++)
		if (plan->ends[i].qp->ib.qp_num == qpn)
			return &plan->ends[i];
	return NULL;
}

/* Counts a connection's packets that were lost in a row. */
static void on_lost(uint32_t dest_qpn)
{
	struct end *end = find_end(dest_qpn);

	if (end) {
		end->drops++;
		end->peer->drops++;
	}
}

/*
 * In a network without loss no packet is sent twice, except those that the responder refused. The
 * pieces of a READ have rising PSNs, too.
 */
static void on_sent(const uint8_t *bytes, uint32_t length)
{
	struct packet packet;
	struct end *end;

	packet_decode(bytes, length, &packet);
	end = find_end(packet.dest_qpn);
	if (!end || !plan->clean || end->type != IBV_QPT_RC)
		return;
	switch (packet_opcode(packet.opcode)->kind) {
	case PACKET_ACK:
		if ((packet.syndrome & PACKET_SYNDROME_MASK) == PACKET_SYNDROME_RNR)
			end->was_refused = true;
		return;
	case PACKET_ATOMIC_ACK:
	case PACKET_READ_RESPONSE:
	case PACKET_NOTIFY_CONGESTION:
		return;
	default:
		break;
	}
	end = end->peer;
	if (end->has_sent && !psn_after(packet.psn, end->sent_psn) && !end->was_refused &&
	    !end->disturbed && end->mishap == MISHAP_NONE)
		sim_fail("end %u: PSN %06x is sent again, and nothing was lost", end->number,
			 packet.psn.number);
	end->has_sent = true;
	end->sent_psn = packet.psn;
}

static void on_delivered(const uint8_t *bytes, uint32_t length)
{
	struct packet packet;
	struct end *end;

	packet_decode(bytes, length, &packet);
	end = find_end(packet.dest_qpn);
	if (!end)
		sim_fail("a packet to QP 0x%06x, which there is not", packet.dest_qpn);
	switch (packet_opcode(packet.opcode)->kind) {
	case PACKET_READ_RESPONSE:
		read_order_on_response(end, &packet, net_number());
		end->drops = 0;
		break;
	case PACKET_ACK:
	case PACKET_ATOMIC_ACK:
		end->drops = 0;
		break;
	default:
		break;
	}
}

static const struct net_observer observer = { .sent = on_sent,
					      .lost = on_lost,
					      .delivered = on_delivered };

void oracle_start(struct plan *is)
{
	plan = is;
	read_order_start();
	net_observe(&observer);
}

static bool places_hold(const struct places *places, uint32_t bytes, uint64_t pattern,
			uint32_t skip)
{
	uint32_t seen = 0;

	/* `skip` bytes ahead of the payload are not compared: a GRH */
	for (unsigned i = 0; i < places->count && bytes > 0; i++) {
		uint32_t at = places->at[i], part = places->bytes[i];
		uint32_t skipped = skip < part ? skip : part;

		skip -= skipped;
		at += skipped;
		part -= skipped;
		if (part > bytes)
			part = bytes;
		if (!world_holds(at, part, pattern, seen))
			return false;
		seen += part;
		bytes -= part;
	}
	return bytes == 0;
}

/* The program reuses the memory: a late packet must not write there. */
static void places_scribble(const struct places *places, uint64_t pattern)
{
	for (unsigned i = 0; i < places->count; i++)
		world_put(places->at[i], places->bytes[i], pattern + SCRIBBLE);
}

static bool is_scribbled(const struct op *op)
{
	return op->pattern & 1;
}

/* Receives */

static void check_earlier_writes(const struct end *sender, const struct op *op)
{
	for (const struct op *earlier = sender->ops; earlier < op; earlier++)
		if (op_is_write(earlier) && earlier->state == OP_POSTED &&
		    !world_holds(earlier->remote, earlier->length, earlier->pattern, 0))
			sim_fail("end %u: request %ld arrived, the WRITE %ld before it did not",
				 sender->number, (long)(op - sender->ops),
				 (long)(earlier - sender->ops));
}

static void check_fields(const struct end *end, const struct ibv_wc *wc, const struct op *op)
{
	bool imm = op->opcode == IBV_WR_SEND_WITH_IMM || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool inv = op->opcode == IBV_WR_SEND_WITH_INV, ud = end->type == IBV_QPT_UD;
	unsigned flags =
		(imm ? IBV_WC_WITH_IMM : 0) | (inv ? IBV_WC_WITH_INV : 0) | (ud ? IBV_WC_GRH : 0);
	enum ibv_wc_opcode opcode = op_is_write(op) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;

	if (wc->opcode != opcode || wc->wc_flags != flags ||
	    wc->byte_len != op->length + (ud ? PLAN_GRH : 0) ||
	    ((imm || inv) && wc->imm_data != op->imm) ||
	    (ud && wc->src_qp != end->peer->qp->ib.qp_num))
		sim_fail("end %u: receive %llu has opcode %d flags 0x%x byte_len %u imm 0x%x, "
			 "should have %d 0x%x %u 0x%x",
			 end->number, (unsigned long long)wc->wr_id, wc->opcode, wc->wc_flags,
			 wc->byte_len, wc->imm_data, opcode, flags,
			 op->length + (ud ? PLAN_GRH : 0), op->imm);
	if (inv && op->mw->bind.mr)
		sim_fail("end %u: the window is still bound", end->number);
}

/* The message of a receive: for a pool, the first that has not come yet. */
static struct op *find_message(const struct end *end, const struct ibv_wc *wc)
{
	struct end *sender = end->peer;

	for (struct op *op = sender->ops; op < sender->ops + sender->op_count; op++)
		if (end->pooled ? op_is_received(op) && !op->received
				: op->receive == (int)wc->wr_id)
			return op->state == OP_PLANNED || op->received ? NULL : op;
	return NULL;
}

static void on_reliable_message(struct end *end, const struct ibv_wc *wc,
				struct receive_plan *receive)
{
	struct end *sender = end->peer;
	struct op *op = find_message(end, wc);

	if (!op)
		sim_fail("end %u: receive %llu of a message that was not sent", end->number,
			 (unsigned long long)wc->wr_id);
	check_fields(end, wc, op);
	op->received = true;
	check_earlier_writes(sender, op);
	if (op_is_write(op)) {
		if (!world_holds(op->remote, op->length, op->pattern, 0))
			sim_fail("end %u: WRITE with immediate arrived before its data",
				 end->number);
		return;
	}
	if (!places_hold(&receive->places, op->length, op->pattern, 0))
		sim_fail("end %u: receive %llu of %u bytes has wrong data", end->number,
			 (unsigned long long)wc->wr_id, op->length);
	places_trust(&receive->places,
		     op->length); /* it is the pattern; behind it all is as it was */
	if (is_scribbled(op))
		places_scribble(&receive->places, op->pattern);
}

static bool is_message(const struct end *end, const struct ibv_wc *wc,
		       const struct receive_plan *receive, const struct op *op)
{
	uint32_t grh = end->type == IBV_QPT_UD ? PLAN_GRH : 0;

	if (!op_is_received(op) || op->state == OP_PLANNED || wc->byte_len != op->length + grh)
		return false;
	if ((wc->wc_flags & IBV_WC_WITH_IMM) &&
	    (op->opcode == IBV_WR_SEND || op->imm != wc->imm_data))
		return false;
	if (!(wc->wc_flags & IBV_WC_WITH_IMM) && op->opcode != IBV_WR_SEND)
		return false;
	if (op_is_write(op))
		return wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	return places_hold(&receive->places, op->length, op->pattern, grh);
}

/* The message was sent; in a network that keeps order, later than the last one. */
static void on_unreliable_message(struct end *end, const struct ibv_wc *wc,
				  struct receive_plan *receive)
{
	struct end *sender = end->peer;

	for (unsigned i = 0; i < sender->op_count; i++) {
		struct op *op = &sender->ops[i];

		if (!is_message(end, wc, receive, op))
			continue;
		if (!plan->reorders && op->received)
			continue;
		check_fields(end, wc, op);
		op->received = true;
		if (!plan->reorders) /* nor may skipped messages come later */
			for (unsigned j = 0; j < i; j++)
				sender->ops[j].received = true;
		if (op_is_write(op) && !world_holds(op->remote, op->length, op->pattern, 0))
			sim_fail("end %u: WRITE with immediate arrived without its data",
				 end->number);
		places_trust(&receive->places, receive->bytes);
		return;
	}
	sim_fail("end %u: receive %llu of %u bytes is nothing that was sent, or out of order",
		 end->number, (unsigned long long)wc->wr_id, wc->byte_len);
}

/* A QP's own receives complete in order; of a pool any QP may take any. */
static struct receive_plan *take_receive(struct end *end, uint64_t wr_id)
{
	struct receive_plan *receive;

	if (end->pooled) {
		receive = &plan->pool[wr_id];
		if (wr_id >= plan->next_pool_post || receive->done)
			sim_fail("end %u: receive %llu of the pool completed, which is not there",
				 end->number, (unsigned long long)wr_id);
	} else {
		receive = &end->receives[end->next_receive_done];
		if (wr_id != end->next_receive_done || wr_id >= end->next_receive_post)
			sim_fail("end %u: receive %llu completed, it is the turn of %u",
				 end->number, (unsigned long long)wr_id, end->next_receive_done);
		end->next_receive_done++;
	}
	receive->done = true;
	return receive;
}

static void on_receive(const struct ibv_wc *wc)
{
	struct end *end = find_end(wc->qp_num);
	struct receive_plan *receive;

	if (!end)
		sim_fail("a completion of QP 0x%06x, which there is not", wc->qp_num);
	receive = take_receive(end, wc->wr_id);
	if (wc->status != IBV_WC_SUCCESS) {
		bool flush = wc->status == IBV_WC_WR_FLUSH_ERR && qp_state(end->qp) == IBV_QPS_ERR;

		if (!flush && (end->flushed || wc->status != receive->expected))
			sim_fail("end %u: receive %llu completed with %d, vendor_err %u",
				 end->number, (unsigned long long)wc->wr_id, wc->status,
				 wc->vendor_err);
		/* The first one's message may have been partly received. */
		if (!end->flushed)
			places_trust(&receive->places, receive->bytes);
		end->flushed = true;
		return;
	}
	if (end->flushed)
		sim_fail("end %u: receive %llu succeeded behind one that failed", end->number,
			 (unsigned long long)wc->wr_id);
	if (receive->expected != IBV_WC_SUCCESS)
		sim_fail("end %u: receive %llu succeeded, should be %d", end->number,
			 (unsigned long long)wc->wr_id, receive->expected);
	if (end->type == IBV_QPT_RC)
		on_reliable_message(end, wc, receive);
	else
		on_unreliable_message(end, wc, receive);
}

/* Sends */

static enum ibv_wc_opcode completion_opcode(const struct op *op)
{
	switch ((int)op->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	case COMPAT_WR_FLUSH:
		return (enum ibv_wc_opcode)COMPAT_WC_FLUSH;
	default:
		return IBV_WC_SEND;
	}
}

static void check_atomic(struct end *end, struct op *op)
{
	uint64_t before;

	memcpy(&before, world.memory + op->local.at[0], sizeof(before));
	places_trust(&op->local, 8);
	if (!op->shared) {
		if (before != op->before)
			sim_fail("end %u: request %ld returned 0x%llx, should be 0x%llx",
				 end->number, (long)(op - end->ops), (unsigned long long)before,
				 (unsigned long long)op->before);
		end->word_done++;
		return;
	}
	/* Each addition of 1 saw another value, so each was executed once. */
	op->before = before;
	for (unsigned i = 0; i < plan->end_count; i++)
		for (struct op *other = plan->ends[i].ops;
		     other < plan->ends[i].ops + plan->ends[i].op_count; other++)
			if (other != op && other->shared && other->state == OP_DONE &&
			    other->before == before)
				sim_fail("end %u: request %ld and another one both returned %llu",
					 end->number, (long)(op - end->ops),
					 (unsigned long long)before);
}

/* A request of RC succeeded: checks all its effects. */
static void on_reliable_done(struct end *end, struct op *op)
{
	long number = (long)(op - end->ops);

	if (op_is_received(op) && !op->received)
		sim_fail("end %u: request %ld succeeded, but was not received", end->number,
			 number);
	if (op_is_write(op)) {
		if (!world_holds(op->remote, op->length, op->pattern, 0))
			sim_fail("end %u: WRITE %ld succeeded, but was not executed", end->number,
				 number);
		world_expect(op->remote, op->length, op->pattern);
		if (!op->keeps_target && is_scribbled(op))
			world_put(op->remote, op->length, op->pattern + SCRIBBLE);
	}
	if (op->opcode == IBV_WR_RDMA_READ) {
		if (op->versioned)
			read_order_check(plan, end, op);
		else if (!places_hold(&op->local, op->length, op->pattern, 0))
			sim_fail("end %u: READ %ld of %u bytes has wrong data", end->number, number,
				 op->length);
		places_trust(&op->local, op->length);
		if (!op->keeps_local && is_scribbled(op))
			places_scribble(&op->local, op->pattern);
	}
	if (op_is_atomic(op))
		check_atomic(end, op);
}

static void on_done(struct end *end, struct op *op)
{
	if (op->expected != IBV_WC_SUCCESS)
		sim_fail("end %u: request %ld succeeded, should be %d", end->number,
			 (long)(op - end->ops), op->expected);
	op->state = OP_DONE;
	if (end->type == IBV_QPT_RC)
		on_reliable_done(end, op);
}

/* Whether the first failure of an end may be this one. */
static bool is_plausible(const struct end *end, const struct op *op, enum ibv_wc_status status)
{
	if (status == op->expected)
		return true;
	/*
	 * If the response to an executed request was lost, the responder does not repeat it once a
	 * later request has moved it to ERR.
	 */
	if (status == IBV_WC_RETRY_EXC_ERR && qp_state(end->peer->qp) == IBV_QPS_ERR &&
	    op_takes_response(op) && end->mishap != MISHAP_NONE && op < end->ops + end->mishap_op)
		return true;
	if (status == IBV_WC_RETRY_EXC_ERR)
		return end->disturbed || (end->qp->attr.timeout && end->drops > RETRIES);
	return status == IBV_WC_WR_FLUSH_ERR && end->disturbed;
}

static void on_failed(struct end *end, struct op *op, const struct ibv_wc *wc)
{
	op->state = OP_FAILED;
	op->refused = wc->status == IBV_WC_REM_ACCESS_ERR;
	if (end->failed ? wc->status != IBV_WC_WR_FLUSH_ERR : !is_plausible(end, op, wc->status))
		sim_fail("end %u: request %ld, opcode %d, completed with %d, vendor_err %u, should "
			 "be "
			 "%d; %u packets lost in a row",
			 end->number, (long)(op - end->ops), op->opcode, wc->status, wc->vendor_err,
			 end->failed ? IBV_WC_WR_FLUSH_ERR : op->expected, end->drops);
	if (!end->failed && wc->status == IBV_WC_RETRY_EXC_ERR)
		end->disturbed = end->peer->disturbed = true;
	end->failed = true;
	if (qp_state(end->qp) != IBV_QPS_ERR)
		sim_fail("end %u: a request failed, the QP did not", end->number);
}

static void on_send(const struct ibv_wc *wc)
{
	struct end *end = find_end(wc->qp_num);
	unsigned number = (unsigned)wc->wr_id;
	struct op *op;

	if (!end || wc->wr_id >> 32 != end->number || number < end->next_done ||
	    number >= end->next_post)
		sim_fail("QP 0x%06x: request 0x%llx completed out of turn", wc->qp_num,
			 (unsigned long long)wc->wr_id);
	/* All before it succeeded, and wanted no completion. */
	for (; end->next_done < number; end->next_done++) {
		op = &end->ops[end->next_done];
		if (end->sig_all || (op->flags & IBV_SEND_SIGNALED) || end->failed)
			sim_fail("end %u: no completion of request %u", end->number,
				 end->next_done);
		on_done(end, op);
	}
	op = &end->ops[end->next_done++];
	if (wc->status != IBV_WC_SUCCESS) {
		on_failed(end, op, wc);
		return;
	}
	if (end->failed)
		sim_fail("end %u: request %u succeeded behind one that failed", end->number,
			 number);
	if (!end->sig_all && !(op->flags & IBV_SEND_SIGNALED))
		sim_fail("end %u: request %u completed, though unsignalled", end->number, number);
	if (wc->opcode != completion_opcode(op) ||
	    ((op->opcode == IBV_WR_RDMA_READ || op_is_atomic(op)) && wc->byte_len != op->length))
		sim_fail("end %u: request %u has opcode %d, byte_len %u", end->number, number,
			 wc->opcode, wc->byte_len);
	on_done(end, op);
}

static void poll_events(void)
{
	struct ibv_async_event event;

	while (context_take_event(world.context, &event)) {
		struct qp *qp = qp_of(event.element.qp);
		struct end *end = find_end(qp->ib.qp_num);

		qp->async_reported--; /* acknowledged: it can be destroyed */
		if (!end)
			sim_fail("async event %d of another QP", event.event_type);
		end->events |= 1u << event.event_type;
		if (event.event_type == IBV_EVENT_SQ_DRAINED) {
			end->drained_head = qp->sq.head;
			end->resume_ns = net_now() + end->rest_ns;
		}
	}
}

void oracle_poll(void)
{
	static struct ibv_wc sends[WORLD_CQE];
	struct ibv_wc receives[BATCH];
	int count = cq_pop(world.send_cq, WORLD_CQE, sends), received;

	poll_events();

	/* The receive of a successful send has completed before it. */
	while ((received = cq_pop(world.recv_cq, BATCH, receives)) > 0)
		for (int i = 0; i < received; i++)
			on_receive(&receives[i]);
	for (int i = 0; i < count; i++)
		on_send(&sends[i]);
}

void oracle_finish(void)
{
	oracle_poll();
	for (unsigned i = 0; i < plan->end_count; i++)
		world_to_error(plan->ends[i].qp);
	oracle_poll();
	settle(plan);
}
