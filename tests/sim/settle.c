/* SPDX-License-Identifier: BSD-2-Clause */
#include "settle.h"

#include <string.h>

#include "fail.h"
#include "op.h"

/* A failed or flushed request may have been executed in part. */
static void settle_failed(const struct end *end, struct op *op)
{
	bool open = end->disturbed || end->mishap == MISHAP_READ_LKEY;

	if (op->state != OP_FAILED)
		return;
	if (op->opcode == IBV_WR_RDMA_READ || op_is_atomic(op))
		places_trust(&op->local, op->length);
	if (!op_is_write(op))
		return;
	if (open && !world_holds_partly(op->remote, op->length, op->pattern))
		sim_fail("end %u: WRITE %ld, which failed, wrote other data", end->number,
			 (long)(op - end->ops));
}

/* An unreliable message may be lost, in whole or from some packet on. */
static void settle_unreliable(const struct end *end, struct op *op)
{
	if (op_is_write(op) && !world_holds_partly(op->remote, op->length, op->pattern))
		sim_fail("end %u: WRITE %ld over UC wrote other data", end->number,
			 (long)(op - end->ops));
}

static void settle_word(const struct end *end)
{
	uint64_t value;

	memcpy(&value, world.memory + end->word, sizeof(value));
	for (unsigned i = end->word_done; i <= end->word_steps; i++)
		if (value == end->word_values[i]) {
			world_trust(end->word, 8);
			return;
		}
	sim_fail("end %u: its word holds 0x%llx", end->number, (unsigned long long)value);
}

static void settle_shared(const struct plan *plan)
{
	uint64_t value, done = 0;

	for (unsigned i = 0; i < plan->end_count; i++)
		for (unsigned j = 0; j < plan->ends[i].op_count; j++) {
			const struct op *op = &plan->ends[i].ops[j];

			done += op->shared && op->state == OP_DONE;
		}
	memcpy(&value, world.memory + plan->shared_word, sizeof(value));
	if (value < done || value > plan->shared_adds)
		sim_fail("the shared word holds %llu, of %u additions %llu succeeded",
			 (unsigned long long)value, plan->shared_adds, (unsigned long long)done);
	world_trust(plan->shared_word, 8);
}

static void check_events(const struct end *end)
{
	uint32_t allowed = 1u << IBV_EVENT_SQ_DRAINED |
			   (end->pooled ? 1u << IBV_EVENT_QP_LAST_WQE_REACHED : 0);
	bool refused = end->peer->mishap >= MISHAP_BAD_RKEY &&
		       end->peer->mishap <= MISHAP_NO_READ &&
		       end->peer->ops[end->peer->mishap_op].refused;

	/* CONTRACT 17 and 31 */
	if (refused)
		allowed |= 1u << IBV_EVENT_QP_ACCESS_ERR;
	if (refused && !(end->events & 1u << IBV_EVENT_QP_ACCESS_ERR))
		sim_fail("end %u: refused its peer, but raised no event", end->number);
	if (!end->disturbed && end->mishap == MISHAP_NONE && (end->events & ~allowed))
		sim_fail("end %u: events 0x%x, though all went well", end->number, end->events);
}

void settle(struct plan *plan)
{
	int64_t wrong;

	for (unsigned i = 0; i < plan->end_count; i++) {
		struct end *end = &plan->ends[i];

		check_events(end);
		if (end->next_receive_done != end->next_receive_post)
			sim_fail("end %u: receive %u was posted and never completed", end->number,
				 end->next_receive_done);
		if (end->qp->sq.head != end->qp->sq.tail)
			sim_fail("end %u: %u requests are left in the send queue", end->number,
				 end->qp->sq.tail - end->qp->sq.head);
		for (unsigned j = 0; j < end->op_count; j++) {
			if (end->type == IBV_QPT_RC)
				settle_failed(end, &end->ops[j]);
			else
				settle_unreliable(end, &end->ops[j]);
		}
		settle_word(end);
	}
	settle_shared(plan);
	wrong = world_compare();
	if (wrong >= 0)
		sim_fail("memory at %lld is 0x%02x, should be 0x%02x", (long long)wrong,
			 (unsigned char)world.memory[wrong], (unsigned char)world.shadow[wrong]);
}
