/* SPDX-License-Identifier: BSD-2-Clause */
#include "expect.h"

#include "rnic.h"

#define FAIL_AT(...) fail_here(file, line, __VA_ARGS__)

static void make_end(struct end *end, const struct options *options, struct ibv_context **context)
{
	struct op_make op = { .options = *options, .context = context ? *context : NULL };

	RUN(end, op_make, &op);
	if (context)
		*context = op.context;
	end->addr = op.end.addr;
	end->lkey = op.end.lkey;
	end->rkey = op.end.rkey;
	end->gid = op.end.gid;
	end->lid = op.end.lid;
	end->mtu = op.end.mtu;
	memcpy(end->qpn, op.end.qpn, sizeof(end->qpn));
}

void pair_make(struct pair *pair, const struct options *options)
{
	struct ibv_context *shared = NULL;

	make_end(&pair->a, options, &shared);
	make_end(&pair->b, options, pair->arrangement == ONE_CONTEXT ? &shared : NULL);
}

void pair_connect(struct pair *pair, const struct options *options)
{
	pair_make(pair, options);
	for (int i = 0; i < options->qps; i++) {
		if (over_iwarp()) {
			REQUIRE(!end_move(&pair->a, &pair->b, i, IBV_QPS_INIT) &&
					!end_move(&pair->b, &pair->a, i, IBV_QPS_INIT),
				"QP %d to INIT", i);
			rnic_connect(pair, i);
			continue;
		}
		end_ready(&pair->a, &pair->b, i);
		end_ready(&pair->b, &pair->a, i);
	}
}

int end_move(struct end *end, struct end *other, int qp, enum ibv_qp_state to)
{
	struct op_move op = {
		.qp = qp, .to = to, .qpn = other->qpn[qp], .gid = other->gid, .lid = other->lid
	};

	RUN(end, op_move, &op);
	return op.result;
}

void end_ready(struct end *end, struct end *other, int qp)
{
	static const enum ibv_qp_state way[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };

	for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
		int result = end_move(end, other, qp, way[i]);

		REQUIRE(result == 0, "%s: QP %d to state %d: %s", end->name, qp, way[i],
			strerror(result));
	}
}

int end_modify(struct end *end, int qp, struct ibv_qp_attr attr, int mask)
{
	struct op_modify op = { .qp = qp, .attr = attr, .mask = mask };

	RUN(end, op_modify, &op);
	return op.result;
}

enum ibv_qp_state end_state(struct end *end, int qp)
{
	struct op_query op = { .qp = qp };

	RUN(end, op_query, &op);
	return op.attr.qp_state;
}

int try_send(struct end *end, int qp, struct request request)
{
	int bad;

	return post_chain(end, qp, &request, 1, &bad);
}

/* Only the used part of the arrays travels. */
int post_chain(struct end *end, int qp, const struct request *request, int count, int *bad)
{
	static struct op_post_send op;

	REQUIRE(count <= REQUESTS_MAX, "a chain of %d", count);
	op.qp = qp;
	op.count = count;
	memcpy(op.request, request, (size_t)count * sizeof(*request));
	end_run(end, op_post_send, &op,
		offsetof(struct op_post_send, request) + (size_t)count * sizeof(*request));
	*bad = op.bad;
	return op.result;
}

int try_receive(struct end *end, int qp, struct receive receive)
{
	static struct op_post_recv op;

	op.qp = qp;
	op.count = 1;
	op.receive[0] = receive;
	end_run(end, op_post_recv, &op, offsetof(struct op_post_recv, receive) + sizeof(receive));
	return op.result;
}

void post_send_at(const char *file, int line, struct end *end, int qp, struct request request)
{
	int result = try_send(end, qp, request);

	if (result != 0)
		FAIL_AT("%s: ibv_post_send: %s", end->name, strerror(result));
}

void post_receive_at(const char *file, int line, struct end *end, int qp, struct receive receive)
{
	int result = try_receive(end, qp, receive);

	if (result != 0)
		FAIL_AT("%s: posting a receive: %s", end->name, strerror(result));
}

static struct op_poll poll_end(struct end *end, enum which which, unsigned int timeout_ms)
{
	struct op_poll op = { .which = which, .timeout_ms = timeout_ms };

	RUN(end, op_poll, &op);
	return op;
}

struct ibv_wc expect_at(const char *file, int line, struct end *end, enum which which,
			uint64_t wr_id, enum ibv_wc_status status)
{
	struct op_poll op = poll_end(end, which, WAIT_MS);

	if (op.result < 0)
		FAIL_AT("%s: ibv_poll_cq returned %d", end->name, op.result);
	if (op.result == 0)
		FAIL_AT("%s: no completion came; expected request %llu, %s", end->name,
			(unsigned long long)wr_id, ibv_wc_status_str(status));
	if (op.wc.wr_id != wr_id || op.wc.status != status)
		FAIL_AT("%s: completion of request %llu, %s (vendor_err %u); expected %llu, %s",
			end->name, (unsigned long long)op.wc.wr_id, ibv_wc_status_str(op.wc.status),
			op.wc.vendor_err, (unsigned long long)wr_id, ibv_wc_status_str(status));
	for (int i = 0; i < QPS_MAX; i++)
		if (op.wc.qp_num == end->qpn[i] && op.wc.qp_num != 0)
			return op.wc;
	FAIL_AT("%s: completion of QP 0x%x, which is none of ours", end->name, op.wc.qp_num);
}

void expect_none_at(const char *file, int line, struct end *end, enum which which)
{
	struct op_poll op = poll_end(end, which, QUIET_MS);

	if (op.result != 0)
		FAIL_AT("%s: unexpected completion: result %d, request %llu, %s", end->name,
			op.result, (unsigned long long)op.wc.wr_id,
			ibv_wc_status_str(op.wc.status));
}

void expect_state_at(const char *file, int line, struct end *end, int qp, enum ibv_qp_state state)
{
	enum ibv_qp_state is = end_state(end, qp);

	if (is != state)
		FAIL_AT("%s: QP %d is in state %d, expected %d", end->name, qp, is, state);
}

void expect_async_at(const char *file, int line, struct end *end, int qp, int type)
{
	struct op_async op = { .timeout_ms = WAIT_MS };

	RUN(end, op_async, &op);
	if (op.type != type)
		FAIL_AT("%s: async event %s, expected %s", end->name,
			op.type < 0 ? "none" : ibv_event_type_str(op.type),
			ibv_event_type_str(type));
	if (qp >= 0 && op.qpn != end->qpn[qp])
		FAIL_AT("%s: async event %s of QP 0x%x, expected QP 0x%x", end->name,
			ibv_event_type_str(type), op.qpn, end->qpn[qp]);
}

void expect_no_async_at(const char *file, int line, struct end *end)
{
	struct op_async op = { .timeout_ms = QUIET_MS };

	RUN(end, op_async, &op);
	if (op.type >= 0)
		FAIL_AT("%s: unexpected async event %s", end->name, ibv_event_type_str(op.type));
}

void fill(struct end *end, uint64_t offset, uint64_t length, uint32_t seed)
{
	struct op_bytes op = { offset, length, seed, 0 };

	RUN(end, op_fill, &op);
}

void expect_bytes_at(const char *file, int line, struct end *end, uint64_t offset, uint64_t length,
		     uint32_t seed)
{
	struct op_bytes op = { offset, length, seed, 0 };

	RUN(end, op_verify, &op);
	if (op.first_bad >= 0)
		FAIL_AT("%s: bytes at %llu of %llu differ from pattern %u, first at %lld",
			end->name, (unsigned long long)offset, (unsigned long long)length, seed,
			(long long)op.first_bad);
}

uint64_t peek(struct end *end, uint64_t offset)
{
	struct op_word op = { .offset = offset };

	RUN(end, op_peek, &op);
	return op.value;
}

void poke(struct end *end, uint64_t offset, uint64_t value)
{
	struct op_word op = { .offset = offset, .value = value };

	RUN(end, op_poke, &op);
}

struct op_region add_region(struct end *end, struct op_region op)
{
	RUN(end, op_register, &op);
	REQUIRE(op.error == 0, "%s: ibv_reg_mr: %s", end->name, strerror(op.error));
	return op;
}

void drop_region(struct end *end, int slot)
{
	struct op_region op = { .slot = slot };

	RUN(end, op_deregister, &op);
	REQUIRE(op.error == 0, "%s: ibv_dereg_mr: %s", end->name, strerror(op.error));
}

static void one_way(const char *file, int line, struct end *from, struct end *to, int qp)
{
	post_receive_at(file, line, to, qp, RECEIVE(.wr_id = 0x9002, .offset = 0, .length = 64));
	post_send_at(file, line, from, qp, SEND(.wr_id = 0x9001, .offset = 64, .length = 64));
	expect_at(file, line, from, SENDS, 0x9001, IBV_WC_SUCCESS);
	expect_at(file, line, to, RECEIVES, 0x9002, IBV_WC_SUCCESS);
}

void expect_working_at(const char *file, int line, struct pair *pair, int qp)
{
	one_way(file, line, &pair->a, &pair->b, qp);
	one_way(file, line, &pair->b, &pair->a, qp);
}
