/* SPDX-License-Identifier: BSD-2-Clause */
/* The transitions of a QP and their attributes: rules 10 and 15 of the contract. */
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "expect.h"

#define S(state) IBV_QPS_##state

/* The attributes that a move has to name (IBA 11.2.5.2, ibv_modify_qp(3)), beside the state. */
struct move {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	int required;
	int optional; /* some that are allowed */
	int refused;  /* one that is not: refusing it is not checked where 0 */
};

#define RC_RTR                                                                                     \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                           \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define UC_RTR (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RC_RTS                                                                                     \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |                    \
	 IBV_QP_MAX_QP_RD_ATOMIC)
#define RC_INIT (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define UD_INIT (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)

static const struct move moves[] = {
	{ IBV_QPT_RC, S(RESET), S(INIT), RC_INIT, 0, IBV_QP_DEST_QPN },
	{ IBV_QPT_UC, S(RESET), S(INIT), RC_INIT, 0, IBV_QP_DEST_QPN },
	{ IBV_QPT_UD, S(RESET), S(INIT), UD_INIT, 0, IBV_QP_AV },
	{ IBV_QPT_RC, S(INIT), S(INIT), 0, IBV_QP_ACCESS_FLAGS | IBV_QP_PORT, IBV_QP_TIMEOUT },
	{ IBV_QPT_UD, S(INIT), S(INIT), 0, IBV_QP_QKEY | IBV_QP_PORT, 0 },
	{ IBV_QPT_RC, S(INIT), S(RTR), RC_RTR, IBV_QP_ACCESS_FLAGS, IBV_QP_TIMEOUT },
	{ IBV_QPT_UC, S(INIT), S(RTR), UC_RTR, IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPT_UD, S(INIT), S(RTR), 0, IBV_QP_QKEY, IBV_QP_DEST_QPN },
	{ IBV_QPT_RC, S(RTR), S(RTS), RC_RTS, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_DEST_QPN },
	{ IBV_QPT_UC, S(RTR), S(RTS), IBV_QP_SQ_PSN, IBV_QP_ACCESS_FLAGS, IBV_QP_DEST_QPN },
	{ IBV_QPT_UD, S(RTR), S(RTS), IBV_QP_SQ_PSN, IBV_QP_QKEY, IBV_QP_DEST_QPN },
	{ IBV_QPT_RC, S(RTS), S(RTS), 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_DEST_QPN },
	{ IBV_QPT_UD, S(RTS), S(RTS), 0, IBV_QP_QKEY, IBV_QP_SQ_PSN },
	{ IBV_QPT_RC, S(RTS), S(SQD), 0, 0, 0 },
	{ IBV_QPT_UC, S(RTS), S(SQD), 0, 0, 0 },
	{ IBV_QPT_UD, S(RTS), S(SQD), 0, 0, 0 },
	{ IBV_QPT_RC, S(SQD), S(RTS), 0, IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPT_UD, S(SQD), S(RTS), 0, IBV_QP_QKEY, 0 },
	{ IBV_QPT_RC, S(INIT), S(ERR), 0, 0, 0 },
	{ IBV_QPT_RC, S(RTR), S(ERR), 0, 0, 0 },
	{ IBV_QPT_RC, S(RTS), S(ERR), 0, 0, 0 },
	{ IBV_QPT_UD, S(RTS), S(ERR), 0, 0, 0 },
	{ IBV_QPT_RC, S(SQD), S(ERR), 0, 0, 0 },
	{ IBV_QPT_RC, S(INIT), S(RESET), 0, 0, 0 },
	{ IBV_QPT_RC, S(RTR), S(RESET), 0, 0, 0 },
	{ IBV_QPT_RC, S(RTS), S(RESET), 0, 0, 0 },
	{ IBV_QPT_UD, S(RTS), S(RESET), 0, 0, 0 },
	{ IBV_QPT_RC, S(ERR), S(RESET), 0, 0, IBV_QP_QKEY },
	{ IBV_QPT_RC, S(ERR), S(ERR), 0, 0, 0 },
};

/* Illegal transitions, whatever the attributes. Not RESET to ERR: sources differ. */
static const struct {
	enum ibv_qp_state from, to;
} no_moves[] = {
	{ S(RESET), S(RTR) }, { S(RESET), S(RTS) }, { S(RESET), S(SQD) }, { S(INIT), S(RTS) },
	{ S(INIT), S(SQD) },  { S(RTR), S(INIT) },  { S(RTR), S(RTR) },	  { S(RTS), S(INIT) },
	{ S(RTS), S(RTR) },   { S(SQD), S(INIT) },  { S(SQD), S(RTR) },	  { S(ERR), S(INIT) },
	{ S(ERR), S(RTR) },   { S(ERR), S(RTS) },   { S(ERR), S(SQD) },
};

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

/* Good values for every attribute. */
static struct ibv_qp_attr good_values(const struct end *end, enum ibv_qp_state to)
{
	return (struct ibv_qp_attr){
		.qp_state = to,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = ACCESS_ALL,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = end->qpn[0],
		.rq_psn = 1,
		.sq_psn = 2,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 5,
		.rnr_retry = 6,
		.ah_attr = { .is_global = 1,
			     .grh = { .dgid = end->gid, .hop_limit = 1 },
			     .dlid = end->lid,
			     .port_num = 1 },
	};
}

/* One QP of this type in this state; the end's connection is to itself. */
static struct ibv_qp *qp_in_state(struct side *side, struct end *end, enum ibv_qp_type type,
				  enum ibv_qp_state state)
{
	struct options options = *WITH(.type = type);
	int init = type == IBV_QPT_UD ? UD_INIT : RC_INIT;
	int rtr = type == IBV_QPT_RC ? RC_RTR : type == IBV_QPT_UC ? UC_RTR : 0;
	int rts = type == IBV_QPT_RC ? RC_RTS : IBV_QP_SQ_PSN;
	struct ibv_qp *qp = side_create_qp(side, &options);
	const struct {
		enum ibv_qp_state to;
		int mask;
		bool wanted;
	} way[] = {
		{ S(INIT), init, state != S(RESET) },
		{ S(RTR), rtr, state != S(RESET) && state != S(INIT) },
		{ S(RTS), rts, state == S(RTS) || state == S(SQD) },
		{ S(SQD), 0, state == S(SQD) },
		{ S(ERR), 0, state == S(ERR) },
	};

	REQUIRE(qp, "ibv_create_qp: %s", strerror(errno));
	end->qpn[0] = qp->qp_num;
	for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
		struct ibv_qp_attr attr = good_values(end, way[i].to);

		if (way[i].wanted)
			REQUIRE(ibv_modify_qp(qp, &attr, way[i].mask | IBV_QP_STATE) == 0,
				"type %d: move to %d failed", type, way[i].to);
	}
	return qp;
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	REQUIRE(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
	REQUIRE(attr.qp_state == qp->state, "qp->state is %d, ibv_query_qp says %d", qp->state,
		attr.qp_state);
	return attr.qp_state;
}

/* A transition with `mask` succeeds, or is refused without effect. */
static void try_move(struct pair *pair, const struct move *move, int mask, bool legal)
{
	struct side *side = pair->a.side;
	struct ibv_qp *qp = qp_in_state(side, &pair->a, move->type, move->from);
	struct ibv_qp_attr attr = good_values(&pair->a, move->to);
	int result = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
	enum ibv_qp_state now = state_of(qp);

	if (legal) {
		REQUIRE(result == 0, "type %d: %d to %d with 0x%x: %s", move->type, move->from,
			move->to, mask, strerror(result));
		/* The empty queue is drained at once. */
		REQUIRE(now == move->to, "type %d: %d to %d ended in %d", move->type, move->from,
			move->to, now);
	} else {
		REQUIRE(result == EINVAL || result == EOPNOTSUPP,
			"type %d: %d to %d with 0x%x: result %d, should be refused", move->type,
			move->from, move->to, mask, result);
		REQUIRE(now == move->from, "type %d: refused %d to %d ended in %d", move->type,
			move->from, move->to, now);
	}
	REQUIRE(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
}

static void rule_10_legal_moves(struct pair *pair)
{
	pair_make(pair, WITH(.qps = 0));
	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
		try_move(pair, &moves[i], moves[i].required, true);
		try_move(pair, &moves[i], moves[i].required | moves[i].optional, true);
	}
}

static void rule_10_required_attributes(struct pair *pair)
{
	pair_make(pair, WITH(.qps = 0));
	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
		for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1)
			if (moves[i].required & bit)
				try_move(pair, &moves[i], moves[i].required & ~bit, false);
}

static void rule_10_attributes_of_other_moves(struct pair *pair)
{
	pair_make(pair, WITH(.qps = 0));
	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
		if (moves[i].refused)
			try_move(pair, &moves[i], moves[i].required | moves[i].refused, false);
}

/* In SQD the program may name the address vector anew, but there is no other path. */
static void rule_10_sqd_keeps_its_path(struct pair *pair)
{
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	pair_make(pair, WITH(.qps = 0));
	qp = qp_in_state(pair->a.side, &pair->a, IBV_QPT_RC, S(SQD));
	attr = good_values(&pair->a, S(SQD));
	REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV) == 0, "the same path");
	attr.ah_attr.grh.hop_limit++;
	REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV) == EOPNOTSUPP, "another path");
	REQUIRE(state_of(qp) == S(SQD) && ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
}

static void rule_10_illegal_moves(struct pair *pair)
{
	pair_make(pair, WITH(.qps = 0));
	for (size_t t = 0; t < 3; t++) {
		int init = types[t] == IBV_QPT_UD ? UD_INIT : RC_INIT;
		int rtr = types[t] == IBV_QPT_RC ? RC_RTR : types[t] == IBV_QPT_UC ? UC_RTR : 0;
		int rts = types[t] == IBV_QPT_RC ? RC_RTS : IBV_QP_SQ_PSN;

		for (size_t i = 0; i < sizeof(no_moves) / sizeof(no_moves[0]); i++) {
			struct move move = { types[t], no_moves[i].from, no_moves[i].to, 0, 0, 0 };
			int mask = move.to == S(INIT)  ? init
				   : move.to == S(RTR) ? rtr
				   : move.to == S(RTS) ? rts
						       : 0;

			try_move(pair, &move, mask, false);
			try_move(pair, &move, 0, false);
		}
	}
}

/* Wrong values, one at a time; afterwards the QP is as it was in every attribute. */
static void rule_10_refused_modify_changes_nothing(struct pair *pair)
{
	static const struct {
		enum ibv_qp_state from, to;
		int mask;
		const char *what;
		size_t offset;
		uint32_t value;
		size_t size;
	} rows[] = {
#define FIELD(field, value)                                                                        \
#field, offsetof(struct ibv_qp_attr, field), value, sizeof(((struct ibv_qp_attr *)0)->field)
		{ S(RESET), S(INIT), RC_INIT, FIELD(port_num, 0) },
		{ S(RESET), S(INIT), RC_INIT, FIELD(port_num, 2) },
		{ S(RESET), S(INIT), RC_INIT, FIELD(pkey_index, 999) },
		{ S(INIT), S(RTR), RC_RTR, FIELD(path_mtu, 0) },
		{ S(INIT), S(RTR), RC_RTR, FIELD(path_mtu, 6) },
		{ S(INIT), S(RTR), RC_RTR, FIELD(ah_attr.grh.sgid_index, 255) },
		{ S(INIT), S(RTR), RC_RTR, FIELD(ah_attr.port_num, 7) },
		{ S(INIT), S(RTR), RC_RTR, FIELD(max_dest_rd_atomic, 255) },
		{ S(INIT), S(RTR), RC_RTR, FIELD(min_rnr_timer, 32) },
		{ S(RTR), S(RTS), RC_RTS, FIELD(max_rd_atomic, 255) },
		{ S(RTR), S(RTS), RC_RTS, FIELD(timeout, 32) },
		{ S(RTR), S(RTS), RC_RTS, FIELD(retry_cnt, 8) },
		{ S(RTR), S(RTS), RC_RTS, FIELD(rnr_retry, 8) },
#undef FIELD
	};

	pair_make(pair, WITH(.qps = 0));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp *qp = qp_in_state(pair->a.side, &pair->a, IBV_QPT_RC, rows[i].from);
		struct ibv_qp_attr before, after, attr = good_values(&pair->a, rows[i].to);
		struct ibv_qp_init_attr init;
		int result;

		memset(&before, 0, sizeof(before));
		memset(&after, 0, sizeof(after));
		REQUIRE(ibv_query_qp(qp, &before, ~0, &init) == 0, "ibv_query_qp");
		attr.dest_qp_num ^= 1;
		attr.rq_psn = 77;
		attr.sq_psn = 78;
		memcpy((char *)&attr + rows[i].offset, &rows[i].value, rows[i].size);
		result = ibv_modify_qp(qp, &attr, rows[i].mask | IBV_QP_STATE);
		REQUIRE(result == EINVAL, "%s = %u: result %d", rows[i].what, rows[i].value,
			result);
		REQUIRE(ibv_query_qp(qp, &after, ~0, &init) == 0, "ibv_query_qp");
		REQUIRE(memcmp(&before, &after, sizeof(before)) == 0,
			"%s = %u was refused and changed something", rows[i].what, rows[i].value);
		REQUIRE(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	}
}

/* Only where the network is the test's own. */
static void set_loopback_mtu(int mtu)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_mtu = mtu };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	REQUIRE(fd >= 0 && ioctl(fd, SIOCSIFMTU, &request) == 0, "SIOCSIFMTU: %s", strerror(errno));
	close(fd);
}

/* A packet has to fit into the port's MTU; on shared memory any path MTU works. */
static void rule_10_path_mtu_beyond_the_port(struct pair *pair)
{
	struct ibv_qp_attr attr;
	struct ibv_port_attr port;
	struct ibv_qp *qp;
	int result;

	if (!over_wire())
		skip_because("there are no packets");
	set_loopback_mtu(1500);
	pair_make(pair, WITH(.qps = 0));
	REQUIRE(ibv_query_port(pair->a.side->context, 1, &port) == 0 &&
			port.active_mtu == IBV_MTU_1024,
		"active_mtu is %d", port.active_mtu);
	qp = qp_in_state(pair->a.side, &pair->a, IBV_QPT_RC, IBV_QPS_INIT);
	attr = good_values(&pair->a, IBV_QPS_RTR);
	attr.path_mtu = IBV_MTU_2048;
	result = ibv_modify_qp(qp, &attr, IBV_QP_STATE | RC_RTR);
	REQUIRE(result == EINVAL, "path_mtu 2048 with 1024 of the port: result %d", result);
	REQUIRE(qp->state == IBV_QPS_INIT, "state");
	attr.path_mtu = IBV_MTU_1024;
	result = ibv_modify_qp(qp, &attr, IBV_QP_STATE | RC_RTR);
	REQUIRE(result == 0, "path_mtu of the port: result %d", result);
	REQUIRE(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	set_loopback_mtu(65536);
}

static void rule_10_query_returns_what_was_set(struct pair *pair)
{
	struct ibv_qp *qp;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	pair_make(pair, WITH(.qps = 0));
	qp = qp_in_state(pair->a.side, &pair->a, IBV_QPT_RC, IBV_QPS_RTS);
	REQUIRE(ibv_query_qp(qp, &attr, ~0, &init) == 0, "ibv_query_qp");
	REQUIRE(attr.qp_state == IBV_QPS_RTS && attr.cur_qp_state == IBV_QPS_RTS, "state");
	REQUIRE(attr.path_mtu == IBV_MTU_1024, "path_mtu");
	REQUIRE(attr.dest_qp_num == qp->qp_num, "dest_qp_num");
	REQUIRE((attr.qp_access_flags & ACCESS_ALL & ~IBV_ACCESS_LOCAL_WRITE) ==
			(ACCESS_ALL & ~IBV_ACCESS_LOCAL_WRITE),
		"qp_access_flags 0x%x", attr.qp_access_flags);
	REQUIRE(attr.port_num == 1 && attr.pkey_index == 0, "port");
	REQUIRE(attr.min_rnr_timer == 12 && attr.timeout == 14 && attr.retry_cnt == 5 &&
			attr.rnr_retry == 6,
		"retries");
	REQUIRE(attr.max_rd_atomic == 1 && attr.max_dest_rd_atomic == 1, "rd_atomic");
	REQUIRE(attr.ah_attr.is_global &&
			memcmp(&attr.ah_attr.grh.dgid, &pair->a.gid, sizeof(pair->a.gid)) == 0,
		"address");
	REQUIRE(init.send_cq == pair->a.side->cq[SENDS] && init.qp_type == IBV_QPT_RC &&
			init.recv_cq == pair->a.side->cq[RECEIVES] && init.srq == NULL,
		"init attributes");
	REQUIRE(init.cap.max_send_wr >= 64 && init.cap.max_inline_data >= 64 &&
			attr.cap.max_send_wr == init.cap.max_send_wr,
		"capabilities");
}

static void rule_10_sqd_holds_back_sends(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	pair_connect(pair, WITH());
	REQUIRE(end_modify(a, 0, attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0, "SQD");
	expect_async(a, 0, IBV_EVENT_SQ_DRAINED);
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 8));
	post_send(a, 0, SEND(.wr_id = 1, .length = 8));
	expect_none(a, SENDS);
	expect_none(b, RECEIVES);
	attr.qp_state = IBV_QPS_RTS;
	REQUIRE(end_modify(a, 0, attr, IBV_QP_STATE) == 0, "RTS");
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
}

/* A message that was begun is finished before the queue is drained; later requests wait. */
static void rule_10_sqd_in_the_middle_of_a_message(struct pair *pair)
{
	enum { LONG = 8 << 20 };
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct op_query query = { .qp = 0 };

	pair_connect(pair, WITH(.size = LONG));
	fill(a, 0, LONG, 1);
	fill(b, 0, LONG, 0);
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = LONG));
	post_receive(b, 0, RECEIVE(.wr_id = 51, .length = 8));
	post_send(a, 0, SEND(.wr_id = 1, .length = LONG));
	REQUIRE(end_modify(a, 0, attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0, "SQD");
	post_send(a, 0, SEND(.wr_id = 2, .length = 8));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_bytes(b, 0, LONG, 1);
	expect_async(a, 0, IBV_EVENT_SQ_DRAINED);
	RUN(a, op_query, &query);
	REQUIRE(query.attr.qp_state == IBV_QPS_SQD && !query.attr.sq_draining, "still draining");
	expect_none(a, SENDS);
	expect_none(b, RECEIVES);
	attr.qp_state = IBV_QPS_RTS;
	REQUIRE(end_modify(a, 0, attr, IBV_QP_STATE) == 0, "RTS");
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 51, IBV_WC_SUCCESS);
}

/* A request that got an RNR NAK was begun, so it is finished in SQD. */
static void rule_10_sqd_while_a_request_is_retried(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	pair_connect(pair, WITH());
	post_send(a, 0, SEND(.wr_id = 1, .length = 8));
	expect_none(a, SENDS);
	REQUIRE(end_modify(a, 0, attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0, "SQD");
	post_send(a, 0, SEND(.wr_id = 2, .length = 8));
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 8));
	post_receive(b, 0, RECEIVE(.wr_id = 51, .length = 8));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_async(a, 0, IBV_EVENT_SQ_DRAINED);
	expect_none(a, SENDS);
	attr.qp_state = IBV_QPS_RTS;
	REQUIRE(end_modify(a, 0, attr, IBV_QP_STATE) == 0, "RTS");
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 51, IBV_WC_SUCCESS);
}

/* Both ends from ERR to a new connection, some times over. */
static void rule_10_reset_makes_usable_again(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH());
	for (int round = 0; round < 5; round++) {
		expect_working(pair, 0);
		post_receive(a, 0, RECEIVE(.wr_id = 50, .length = 8));
		post_receive(b, 0, RECEIVE(.wr_id = 51, .length = 8));
		post_send(a, 0, WRITE(b, 0, .wr_id = 1, .length = 8, .rkey = b->rkey ^ 0x5500));
		expect(a, SENDS, 1, IBV_WC_REM_ACCESS_ERR);
		expect(a, RECEIVES, 50, IBV_WC_WR_FLUSH_ERR);
		expect(b, RECEIVES, 51, IBV_WC_WR_FLUSH_ERR);
		expect_async(b, 0, IBV_EVENT_QP_ACCESS_ERR);
		REQUIRE(end_move(a, b, 0, IBV_QPS_RESET) == 0, "RESET");
		REQUIRE(end_move(b, a, 0, IBV_QPS_RESET) == 0, "RESET");
		expect_state(a, 0, IBV_QPS_RESET);
		end_ready(a, b, 0);
		end_ready(b, a, 0);
		expect_none(a, SENDS);
		expect_none(b, RECEIVES);
	}
	expect_no_async(a);
	expect_no_async(b);
}

/* What was posted before RESET is gone without a completion. */
static void rule_10_reset_forgets_work(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.rnr_retry = 7));
	for (uint64_t i = 0; i < 10; i++) {
		post_send(a, 0, SEND(.wr_id = i, .length = 4096));
		post_receive(a, 0, RECEIVE(.wr_id = 50 + i, .length = 8));
	}
	expect_none(a, SENDS);
	REQUIRE(end_move(a, b, 0, IBV_QPS_RESET) == 0, "RESET");
	if (over_wire()) /* b drops what is under way: the new connection has the same PSNs */
		expect_none(b, RECEIVES);
	REQUIRE(end_move(b, a, 0, IBV_QPS_RESET) == 0, "RESET");
	expect_none(a, SENDS);
	expect_none(a, RECEIVES);
	end_ready(a, b, 0);
	end_ready(b, a, 0);
	post_receive(b, 0, RECEIVE(.wr_id = 60, .length = 4096));
	expect_none(b, RECEIVES);
	/* All places of the queues are free again. */
	for (uint64_t i = 0; i < 60; i++)
		post_receive(a, 0, RECEIVE(.wr_id = 100 + i, .length = 64));
	post_send(b, 0, SEND(.wr_id = 1, .length = 64));
	expect(b, SENDS, 1, IBV_WC_SUCCESS);
	expect(a, RECEIVES, 100, IBV_WC_SUCCESS);
	post_send(a, 0, SEND(.wr_id = 2, .length = 64));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 60, IBV_WC_SUCCESS);
}

/* One end starts anew and the other does not: no message is taken for one of the new connection. */
static void rule_10_one_end_reset(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_make(pair, WITH());
	/* Short at a, whose request must fail: b's, which must succeed, has the usual time-out. */
	a->side->options.timeout = 12;
	a->side->options.retry_cnt = 2;
	end_ready(a, b, 0);
	end_ready(b, a, 0);
	post_receive(a, 0, RECEIVE(.wr_id = 50, .length = 8));
	post_send(b, 0, SEND(.wr_id = 1, .length = 8));
	expect(b, SENDS, 1, IBV_WC_SUCCESS);
	expect(a, RECEIVES, 50, IBV_WC_SUCCESS);
	REQUIRE(end_move(b, a, 0, IBV_QPS_RESET) == 0, "RESET");
	post_send(a, 0, SEND(.wr_id = 1, .length = 8));
	expect(a, SENDS, 1, IBV_WC_RETRY_EXC_ERR);
	expect_state(a, 0, IBV_QPS_ERR);
	expect_state(b, 0, IBV_QPS_RESET);
}

/* The send queue of UD goes to SQE: receives go on, and RTS is one move away. */
static void rule_10_ud_send_error_is_sqe(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	post_send(
		a, 0,
		DATAGRAM(b, .wr_id = 1, .num_sge = 1, .sge = { { a->addr, 8, a->lkey ^ 0x5500 } }));
	post_send(a, 0, DATAGRAM(b, .wr_id = 2, .length = 8));
	expect(a, SENDS, 1, IBV_WC_LOC_PROT_ERR);
	expect(a, SENDS, 2, IBV_WC_WR_FLUSH_ERR);
	expect_state(a, 0, IBV_QPS_SQE);
	expect_state(b, 0, IBV_QPS_RTS);
	post_receive(a, 0, RECEIVE(.wr_id = 50, .length = 64));
	post_send(b, 0, DATAGRAM(a, .wr_id = 3, .length = 8));
	expect(b, SENDS, 3, IBV_WC_SUCCESS);
	expect(a, RECEIVES, 50, IBV_WC_SUCCESS);
	REQUIRE(end_modify(a, 0, attr, IBV_QP_STATE) == 0, "SQE to RTS");
	post_receive(b, 0, RECEIVE(.wr_id = 51, .length = 64));
	post_send(a, 0, DATAGRAM(b, .wr_id = 4, .length = 8));
	expect(a, SENDS, 4, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 51, IBV_WC_SUCCESS);
}

/* IBA: SQE; adapters move the whole QP to ERR. */
static void rule_10_uc_send_error(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	enum ibv_qp_state state;

	pair_connect(pair, WITH(.type = IBV_QPT_UC));
	post_send(a, 0,
		  SEND(.wr_id = 1, .num_sge = 1, .sge = { { a->addr, 8, a->lkey ^ 0x5500 } }));
	post_send(a, 0, SEND(.wr_id = 2, .length = 8));
	expect(a, SENDS, 1, IBV_WC_LOC_PROT_ERR);
	expect(a, SENDS, 2, IBV_WC_WR_FLUSH_ERR);
	state = end_state(a, 0);
	REQUIRE(state == IBV_QPS_SQE || state == IBV_QPS_ERR, "state %d", state);
	expect_state(b, 0, IBV_QPS_RTS);
}

/* Queried at once after the completion was polled, with no time to settle. */
static void rule_15_state_known_with_the_completion(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.qps = 8));
	for (int qp = 0; qp < 8; qp++) {
		struct request request = qp % 2 ? READ(b, 0, .wr_id = 1, .length = 8)
						: WRITE(b, 0, .wr_id = 1, .length = 70000);

		request.rkey ^= 0x5500;
		post_send(a, qp, request);
		expect(a, SENDS, 1, IBV_WC_REM_ACCESS_ERR);
		expect_state(b, qp, IBV_QPS_ERR);
		expect_state(a, qp, IBV_QPS_ERR);
	}
}

static const struct test tests[] = {
	HERE(rule_10_legal_moves),
	HERE(rule_10_required_attributes),
	HERE(rule_10_attributes_of_other_moves),
	HERE(rule_10_sqd_keeps_its_path),
	HERE(rule_10_illegal_moves),
	HERE(rule_10_refused_modify_changes_nothing),
	HERE(rule_10_path_mtu_beyond_the_port),
	HERE(rule_10_query_returns_what_was_set),
	PAIR(rule_10_sqd_holds_back_sends),
	PAIR(rule_10_sqd_in_the_middle_of_a_message),
	PAIR(rule_10_sqd_while_a_request_is_retried),
	EVERY(rule_10_reset_makes_usable_again),
	PAIR(rule_10_reset_forgets_work),
	PAIR(rule_10_one_end_reset),
	PAIR(rule_10_ud_send_error_is_sqe),
	PAIR(rule_10_uc_send_error),
	PAIR(rule_15_state_known_with_the_completion),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
