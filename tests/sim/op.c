/* SPDX-License-Identifier: BSD-2-Clause */
#include "op.h"

#include <string.h>

#include "fail.h"

#define SLACK_MAX 64 /* bytes that a receive has to spare */

void places_trust(const struct places *places, uint32_t bytes)
{
	for (unsigned i = 0; i < places->count; i++) {
		uint32_t part = places->bytes[i] < bytes ? places->bytes[i] : bytes;

		world_trust(places->at[i], part);
		bytes -= part;
	}
}

struct places op_take_places(struct random *random, uint32_t bytes, unsigned most)
{
	struct places places = { .count = random_range(random, 1, most) };
	uint32_t left = bytes;

	if (bytes == 0 && random_chance(random, 500))
		places.count = 0;
	for (unsigned i = 0; i < places.count; i++) {
		uint32_t part = i + 1 == places.count ? left : random_below(random, left + 1);

		places.bytes[i] = part;
		places.at[i] = world_take(random, part, 1u << random_below(random, 4));
		left -= part;
	}
	return places;
}

static void put_places(const struct places *places, uint64_t pattern)
{
	static char bytes[65536];
	uint32_t total = 0;

	for (unsigned i = 0; i < places->count; i++)
		total += places->bytes[i];
	pattern_fill(bytes, total, pattern);
	total = 0;
	for (unsigned i = 0; i < places->count; i++) {
		memcpy(world.memory + places->at[i], bytes + total, places->bytes[i]);
		memcpy(world.shadow + places->at[i], bytes + total, places->bytes[i]);
		total += places->bytes[i];
	}
}

/* Lengths around all limits. */
uint32_t op_choose_length(struct random *random, uint32_t mtu, uint32_t most)
{
	uint32_t length;

	switch (random_below(random, 8)) {
	case 0:
		length = random_below(random, 5);
		break;
	case 1:
		length = mtu + random_below(random, 3) - 1;
		break;
	case 2:
		length = mtu * random_range(random, 1, 6) + random_below(random, 3) - 1;
		break;
	case 3:
	case 4:
		length = random_below(random, 256);
		break;
	case 5:
		length = random_below(random, 2 * mtu);
		break;
	case 6:
		length = random_below(random, 8 * mtu);
		break;
	default:
		length = random_chance(random, 200) ? random_below(random, 65536)
						    : random_below(random, 32);
		break;
	}
	return length < most ? length : most;
}

static enum ibv_wr_opcode choose_opcode(struct random *random, enum ibv_qp_type type)
{
	static const enum ibv_wr_opcode choices[] = {
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		/* UD ends here */
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		/* UC ends here */
		IBV_WR_SEND,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_SEND_WITH_INV,
		IBV_WR_ATOMIC_WRITE,
		(enum ibv_wr_opcode)COMPAT_WR_FLUSH,
	};
	unsigned count = type == IBV_QPT_UD ? 2 : type == IBV_QPT_UC ? 4 : 13;

	return choices[random_below(random, count)];
}

static void make_window(struct end *end, struct op *op)
{
	struct ibv_mw_bind_info info = {
		.mr = &world.mr->ib,
		.addr = world_address(0),
		.length = WORLD_SMALL_BYTES,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ,
	};

	if (mw_create(world.pd, IBV_MW_TYPE_2, &op->mw))
		sim_fail("mw_create");
	op->imm = (op->mw->ib.rkey & ~0xffu) | 0x42;
	if (mw_bind(op->mw->key, world.mr->ib.lkey, world.pd->number, end->peer->qp->ib.qp_num,
		    op->imm, &info) != CAUSE_NONE)
		sim_fail("mw_bind");
}

/* The receive that an op of RC consumes: the next one of the peer. */
void op_make_receive(struct end *end, struct op *op, struct random *random)
{
	struct end *peer = end->peer;
	struct receive_plan *receive = &peer->receives[peer->receive_count];

	if (peer->pooled)
		return;
	op->receive = (int)peer->receive_count++;
	receive->bytes = op_is_send(op) ? op->length : 0;
	if (random_chance(random, 500))
		receive->bytes += random_below(random, SLACK_MAX);
	receive->places = op_take_places(random, receive->bytes, peer->cap.max_recv_sge);
	receive->lkey = world.mr->ib.lkey;
	receive->expected = IBV_WC_SUCCESS;
}

static void make_atomic(struct plan *plan, struct end *end, struct op *op, struct random *random)
{
	uint64_t value = end->word_values[end->word_steps];

	op->length = 8;
	op->local = op_take_places(random, 8, 1);
	op->remote = end->word;
	op->before = value;
	op->compare_add = random_next(random);
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD && random_chance(random, 400)) {
		op->shared = true;
		op->remote = plan->shared_word;
		op->compare_add = 1;
		return;
	}
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		value += op->compare_add;
	} else {
		op->swap = random_next(random);
		if (random_chance(random, 700)) {
			op->compare_add = value;
			value = op->swap;
		}
	}
	end->word_values[++end->word_steps] = value;
}

/* An earlier WRITE whose target no other op uses: reading it back gives its payload. */
static struct op *find_written(struct end *end, unsigned before, struct random *random)
{
	struct op *op;

	if (before == 0 || end->type != IBV_QPT_RC)
		return NULL;
	op = &end->ops[random_below(random, before)];
	return op_is_write(op) && op->length > 0 && op->expected == IBV_WC_SUCCESS ? op : NULL;
}

static void make_read(struct end *end, struct op *op, unsigned number, struct random *random)
{
	struct op *written = random_chance(random, 400) ? find_written(end, number, random) : NULL;

	if (end->type == IBV_QPT_RC && random_chance(random, 500)) {
		op->versioned = true;
		op->length &= ~3u;
		if (op->length > PLAN_VERSIONS * sizeof(uint32_t))
			op->length = PLAN_VERSIONS * sizeof(uint32_t);
		op->remote = end->versions;
	} else if (written) {
		written->keeps_target = true;
		op->pattern = written->pattern;
		op->length = written->length;
		op->remote = written->remote;
	} else {
		op->remote = world_take(random, op->length, 1u << random_below(random, 4));
		world_put(op->remote, op->length, op->pattern);
	}
	op->local = op_take_places(random, op->length, end->cap.max_send_sge);
}

/* Sends the data of the last READ: with a fence they have to be there. */
static bool make_relay(struct op *op, struct op *before)
{
	if (before->opcode != IBV_WR_RDMA_READ || before->versioned ||
	    before->expected != IBV_WC_SUCCESS || op_takes_response(op))
		return false;
	before->keeps_local = true;
	op->flags |= IBV_SEND_FENCE;
	op->pattern = before->pattern;
	op->length = before->length;
	op->local = before->local;
	return true;
}

static void make_payload(struct end *end, struct op *op, unsigned number, struct random *random)
{
	if (number > 0 && end->type == IBV_QPT_RC && random_chance(random, 300) &&
	    make_relay(op, op - 1))
		return;
	op->local = op_take_places(random, op->length, end->cap.max_send_sge);
	put_places(&op->local, op->pattern);
	if (op->length <= end->cap.max_inline_data && random_chance(random, 500))
		op->flags |= IBV_SEND_INLINE;
}

/* A FLUSH of memory that no op writes to; it may be longer than any packet. */
static void make_flush(struct op *op, struct random *random)
{
	op->length = random_below(random, 65536);
	op->compare_add = COMPAT_FLUSH_GLOBAL;
	op->swap = random_chance(random, 500) ? COMPAT_FLUSH_RANGE : COMPAT_FLUSH_MR;
}

void op_make(struct plan *plan, struct end *end, unsigned number, uint32_t *budget,
	     struct random *random)
{
	struct op *op = &end->ops[number];
	uint32_t most = end->type == IBV_QPT_UD ? plan_mtu(plan) : *budget;

	if (end->peer->pooled && most > POOL_BYTES)
		most = POOL_BYTES;
	memset(op, 0, sizeof(*op));
	op->opcode = choose_opcode(random, end->type);
	op->length = op_choose_length(random, plan_mtu(plan), most);
	if (op->opcode == IBV_WR_ATOMIC_WRITE)
		op->length = 8;
	op->pattern = random_next(random);
	op->imm = (uint32_t)random_next(random);
	op->lkey = world.mr->ib.lkey;
	op->rkey = world.mr->ib.rkey;
	op->receive = -1;
	op->expected = IBV_WC_SUCCESS;
	if (op_is_atomic(op))
		make_atomic(plan, end, op, random);
	else if (op->opcode == IBV_WR_RDMA_READ)
		make_read(end, op, number, random);
	else if (op_is_flush(op))
		make_flush(op, random);
	else
		make_payload(end, op, number, random);
	if (op_is_write(op))
		op->remote = world_take(
			random, op->length,
			op->opcode == IBV_WR_ATOMIC_WRITE ? 8 : 1u << random_below(random, 4));
	if (op->opcode == IBV_WR_SEND_WITH_INV)
		make_window(end, op);
	if (random_chance(random, 200))
		op->flags |= IBV_SEND_SOLICITED;
	if (random_chance(random, 100) && end->type == IBV_QPT_RC)
		op->flags |= IBV_SEND_FENCE;
	if (op_is_received(op) && end->type == IBV_QPT_RC)
		op_make_receive(end, op, random);
	if (!op_is_flush(op))
		*budget -= op->length < *budget ? op->length : *budget;
}
