/* SPDX-License-Identifier: BSD-2-Clause */
#include "mishap.h"

#include <string.h>

#include "op.h"

#define BAD_KEY_BITS 0x5

/* Replaces the op that shall fail by one that can. */
static struct op *remake(struct end *end, struct random *random, enum ibv_wr_opcode opcode,
			 uint32_t length, enum ibv_wc_status expected)
{
	struct op *op = &end->ops[end->op_count++];

	memset(op, 0, sizeof(*op));
	op->opcode = opcode;
	op->length = length;
	op->pattern = random_next(random);
	op->lkey = world.mr->ib.lkey;
	op->rkey = world.mr->ib.rkey;
	op->receive = -1;
	op->expected = expected;
	op->local =
		op_take_places(random, length, opcode > IBV_WR_SEND ? 1 : end->cap.max_send_sge);
	op->remote = world_take(random, length, 8);
	if (op_is_received(op))
		op_make_receive(end, op, random);
	return op;
}

static void make_one_sided_mishap(struct end *end, uint32_t length, struct random *random)
{
	enum ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
	struct op *op;

	if (end->mishap == MISHAP_NO_READ ||
	    (end->mishap < MISHAP_NO_WRITE && random_chance(random, 500)))
		opcode = IBV_WR_RDMA_READ;
	op = remake(end, random, opcode, length, IBV_WC_REM_ACCESS_ERR);
	if (end->mishap == MISHAP_BAD_RKEY)
		op->rkey ^= BAD_KEY_BITS;
	else if (end->mishap == MISHAP_OTHER_PD)
		op->rkey = world.mr_other_pd->ib.rkey;
	else if (end->mishap == MISHAP_RANGE)
		op->rkey = world.mr_small->ib.rkey;
	else if (end->mishap == MISHAP_NO_WRITE)
		op->rkey = world.mr_unwritable->ib.rkey;
	else
		op->rkey = world.mr_unreadable->ib.rkey;
}

static void make_two_sided_mishap(struct end *end, uint32_t length, struct random *random)
{
	static const enum ibv_wc_status here[MISHAPS] = {
		[MISHAP_RECEIVE_SHORT] = IBV_WC_REM_INV_REQ_ERR,
		[MISHAP_RECEIVE_LKEY] = IBV_WC_REM_OP_ERR,
		[MISHAP_LOCAL_LKEY] = IBV_WC_LOC_PROT_ERR,
		[MISHAP_NO_RECEIVE] = IBV_WC_RNR_RETRY_EXC_ERR,
	};
	struct op *op = remake(end, random, IBV_WR_SEND, length, here[end->mishap]);
	struct receive_plan *receive;

	if (end->mishap == MISHAP_LOCAL_LKEY)
		op->lkey ^= BAD_KEY_BITS;
	if (end->peer->pooled)
		return; /* it is LOCAL_LKEY then */
	receive = &end->peer->receives[op->receive];
	receive->expected = IBV_WC_WR_FLUSH_ERR;
	if (end->mishap == MISHAP_RECEIVE_SHORT) {
		receive->bytes = random_below(random, length);
		receive->places = op_take_places(random, receive->bytes, 1);
		receive->expected = IBV_WC_LOC_LEN_ERR;
	} else if (end->mishap == MISHAP_RECEIVE_LKEY) {
		receive->lkey ^= BAD_KEY_BITS;
		receive->expected = IBV_WC_LOC_PROT_ERR;
	} else if (end->mishap == MISHAP_NO_RECEIVE) {
		end->peer->withheld = (unsigned)op->receive;
	}
}

/* Adds one request that fails, after the end's ops so far; later ops are flushed. */
void mishap_make(struct plan *plan, struct end *end, struct random *random)
{
	uint32_t length = 1 + op_choose_length(random, plan_mtu(plan), 6 * plan_mtu(plan));

	end->mishap = (enum mishap)random_range(random, 1, MISHAPS - 1);
	/* It is not known which receive a message gets from an SRQ. */
	if (end->peer->pooled && end->mishap >= MISHAP_RECEIVE_SHORT &&
	    end->mishap <= MISHAP_RECEIVE_LKEY)
		end->mishap = MISHAP_LOCAL_LKEY;
	if (end->peer->pooled && end->mishap == MISHAP_NO_RECEIVE)
		end->mishap = MISHAP_LOCAL_LKEY;
	/* No earlier message may find the receive queue empty. */
	if (end->mishap == MISHAP_NO_RECEIVE) {
		if (end->peer->receive_count > end->peer->cap.max_recv_wr)
			end->mishap = MISHAP_LOCAL_LKEY;
		end->peer->receive_ns = net_now();
		end->peer->receive_gap_ns = 0;
		end->post_ns = net_now() + 1;
	}
	end->disturbed = end->mishap == MISHAP_SELF_TO_ERROR || end->mishap == MISHAP_PEER_TO_ERROR;
	end->peer->disturbed = true;
	end->mishap_op = end->op_count;
	end->mishap_ns = net_now() + random_below(random, 2000000);
	switch (end->mishap) {
	case MISHAP_SELF_TO_ERROR:
	case MISHAP_PEER_TO_ERROR:
		return;
	case MISHAP_UNALIGNED:
		remake(end, random, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_WC_REM_INV_REQ_ERR)
			->remote += random_range(random, 1, 7);
		return;
	case MISHAP_READ_LKEY:
		remake(end, random, IBV_WR_RDMA_READ, length, IBV_WC_LOC_PROT_ERR)->lkey ^=
			BAD_KEY_BITS;
		return;
	case MISHAP_RECEIVE_SHORT:
	case MISHAP_RECEIVE_LKEY:
	case MISHAP_LOCAL_LKEY:
	case MISHAP_NO_RECEIVE:
		make_two_sided_mishap(end, length, random);
		return;
	default:
		make_one_sided_mishap(end, length, random);
		return;
	}
}
