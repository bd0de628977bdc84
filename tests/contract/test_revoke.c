/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys that are revoked while a thread copies by them, and the status of requests with bad keys and
 * lengths: rules 34, 36 and 37 of the contract.
 *
 * A process is stopped in the middle of a copy by chance only. So the tests write the hazard
 * (src/memory/hazard.h) of such a process into the arena, which they find in the map of the
 * process. Between two processes the other end is stopped with it; else the test's own process
 * looks as if one of its threads made a long copy.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"

#define TARGET	     65536u
#define BUFFER	     (1u << 20)
#define HAZARDS_AT   4096 /* in the arena, 64 of 64 bytes; the last ones are not a thread's own */
#define HAZARD	     60
#define SLOT_SHIFT   14 /* of a QP's number */
#define AT_ONCE_US   (200000ull * (unsigned)patience())
#define BOUNDED_MS   (10000ull * (unsigned)patience())
#define WINDOW_BYTES 4096u

/* QP 0 leads to the other end. QPs 1 and 2 are connected with each other, and so are 3 and 4. */
#define QPS 5

struct hazard {
	uint32_t slot, key; /* key 0: clears the hazard */
};

static char *find_arena(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], rights[5], *found = NULL;
	unsigned long start, end;

	REQUIRE(maps, "/proc/self/maps: %s", strerror(errno));
	while (!found && fgets(line, sizeof(line), maps))
		if (strstr(line, "verbatim-arena") &&
		    sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && rights[1] == 'w')
			found = (char *)start;
	fclose(maps);
	return found;
}

static void op_publish(struct side *side, void *argument)
{
	const struct hazard *hazard = argument;
	char *arena = find_arena();
	_Atomic uint64_t *entry;

	REQUIRE(arena, "no arena");
	entry = (_Atomic uint64_t *)(arena + HAZARDS_AT + HAZARD * 64);
	atomic_store(entry, hazard->key ? (uint64_t)hazard->slot << 32 | hazard->key : 0);
}

static bool peer_stops(const struct pair *pair)
{
	return pair->arrangement == TWO_PROCESSES && !over_wire();
}

/* From here on a thread seems to copy by the key, which is of end a's process. */
static void begin_copy(struct pair *pair, uint32_t key)
{
	struct hazard hazard = { .slot = pair->a.qpn[0] >> SLOT_SHIFT, .key = key };

	RUN(peer_stops(pair) ? &pair->b : &pair->a, op_publish, &hazard);
	if (peer_stops(pair))
		REQUIRE(kill(pair->b.pid, SIGSTOP) == 0, "SIGSTOP");
}

static void end_copy(struct pair *pair)
{
	struct hazard none = { 0 };

	if (peer_stops(pair))
		REQUIRE(kill(pair->b.pid, SIGCONT) == 0, "SIGCONT");
	RUN(peer_stops(pair) ? &pair->b : &pair->a, op_publish, &none);
}

static void move_own(struct end *a, int qp, int to)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };

	for (int i = 0; i < 3; i++) {
		struct op_move op = {
			.qp = qp, .to = states[i], .qpn = a->qpn[to], .gid = a->gid, .lid = a->lid
		};

		RUN(a, op_move, &op);
		REQUIRE(op.result == 0, "QP %d: %s", qp, strerror(op.result));
	}
}

/* With a window at end a, and a region that it can be bound to. */
static struct ibv_mw *set_up(struct pair *pair, enum ibv_mw_type type)
{
	struct end *a = &pair->a;
	struct ibv_mw *mw;

	pair_make(pair, WITH(.qps = QPS, .channel = true));
	end_ready(a, &pair->b, 0);
	end_ready(&pair->b, a, 0);
	for (int qp = 1; qp < QPS; qp += 2) {
		move_own(a, qp, qp + 1);
		move_own(a, qp + 1, qp);
	}
	mw = ibv_alloc_mw(a->side->pd, type);
	if (!mw)
		skip_because("ibv_alloc_mw: %s", strerror(errno));
	add_region(a, (struct op_region){ .offset = TARGET,
					  .length = 2 * WINDOW_BYTES,
					  .access = ACCESS_ALL | IBV_ACCESS_MW_BIND });
	return mw;
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Posts the request, which must not wait for the copy. */
static void post_at_once(struct end *end, int qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	uint64_t begin = now_us();
	int error = ibv_post_send(end->side->qp[qp], wr, &bad);

	REQUIRE(error == 0, "ibv_post_send: %s", strerror(error));
	REQUIRE(now_us() - begin < AT_ONCE_US, "the post took %d us", (int)(now_us() - begin));
}

static struct ibv_send_wr bind_request(struct end *end, struct ibv_mw *mw, uint64_t wr_id,
				       uint32_t rkey, uint64_t length)
{
	return (struct ibv_send_wr){
		.wr_id = wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw,
			     .rkey = rkey,
			     .bind_info = { .mr = end->side->region[0],
					    .addr = (uintptr_t)end->side->buf + TARGET,
					    .length = length,
					    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } },
	};
}

/* Binds it at end a for a QP; returns the key. */
static uint32_t bind_window(struct end *end, int qp, struct ibv_mw *mw, uint64_t length)
{
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr wr = bind_request(end, mw, 900, rkey, length), *bad;

	REQUIRE(ibv_post_send(end->side->qp[qp], &wr, &bad) == 0, "ibv_post_send(BIND_MW)");
	expect(end, SENDS, 900, IBV_WC_SUCCESS);
	mw->rkey = rkey;
	return rkey;
}

static struct ibv_send_wr invalidate_request(uint64_t wr_id, enum ibv_wr_opcode opcode,
					     uint32_t key)
{
	return (struct ibv_send_wr){ .wr_id = wr_id,
				     .opcode = opcode,
				     .send_flags = IBV_SEND_SIGNALED,
				     .invalidate_rkey = key };
}

/* No thread polls, so the progress thread delivers a message from QP 3 to QP 4. */
static void expect_other_qps_go_on(struct end *a)
{
	struct pollfd fd = { .fd = a->side->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	REQUIRE(ibv_req_notify_cq(a->side->cq[RECEIVES], 0) == 0, "ibv_req_notify_cq");
	post_receive(a, 4, RECEIVE(.wr_id = 500, .length = 64));
	post_send(a, 3, SEND(.wr_id = 501, .length = 8));
	REQUIRE(poll(&fd, 1, (int)WAIT_MS) == 1, "no event of another QP");
	REQUIRE(ibv_get_cq_event(a->side->channel, &cq, &context) == 0, "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	expect(a, RECEIVES, 500, IBV_WC_SUCCESS);
	expect(a, SENDS, 501, IBV_WC_SUCCESS);
}

/* A key that is being revoked is dead at once: a WRITE by it fails, and QPs 3 and 4 with it. */
static void expect_dead_key(struct end *a, uint32_t key)
{
	post_send(a, 3, WRITE(a, TARGET, .wr_id = 600, .length = 8, .rkey = key));
	expect(a, SENDS, 600, IBV_WC_REM_ACCESS_ERR);
}

static void rule_34_local_inv_waits_alone(struct pair *pair)
{
	struct end *a = &pair->a;
	struct ibv_mw *mw = set_up(pair, IBV_MW_TYPE_2);
	uint32_t key = bind_window(a, 1, mw, WINDOW_BYTES);
	struct ibv_send_wr wr = invalidate_request(1, IBV_WR_LOCAL_INV, key);

	begin_copy(pair, key);
	post_at_once(a, 1, &wr);
	post_receive(a, 2, RECEIVE(.wr_id = 50, .length = 64));
	post_send(a, 1, SEND(.wr_id = 2, .length = 8)); /* must not overtake it */
	expect_none(a, SENDS);
	expect_none(a, RECEIVES);
	expect_other_qps_go_on(a);
	expect_dead_key(a, key);
	end_copy(pair);
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(a, RECEIVES, 50, IBV_WC_SUCCESS);
	bind_window(a, 1, mw, WINDOW_BYTES);
}

static void rule_34_bind_waits_alone(struct pair *pair)
{
	struct end *a = &pair->a;
	struct ibv_mw *mw = set_up(pair, IBV_MW_TYPE_1);
	uint32_t key = bind_window(a, 1, mw, WINDOW_BYTES), next = ibv_inc_rkey(key);
	struct ibv_send_wr wr = bind_request(a, mw, 1, next, 2 * WINDOW_BYTES);

	begin_copy(pair, key);
	post_at_once(a, 1, &wr);
	expect_none(a, SENDS);
	expect_other_qps_go_on(a);
	end_copy(pair);
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	post_send(a, 3, WRITE(a, TARGET + WINDOW_BYTES, .wr_id = 3, .length = 64, .rkey = next));
	expect(a, SENDS, 3, IBV_WC_SUCCESS);
	expect_dead_key(a, key);
}

static void rule_34_send_with_inv_waits_alone(struct pair *pair)
{
	static const uint32_t lengths[] = { 8, 100000 };
	struct end *a = &pair->a;
	struct ibv_mw *mw = set_up(pair, IBV_MW_TYPE_2);

	for (int i = 0; i < 2; i++) {
		uint32_t key = bind_window(a, 2, mw, WINDOW_BYTES);
		struct ibv_wc wc;

		post_receive(a, 2,
			     RECEIVE(.wr_id = 50, .offset = TARGET * 4, .length = lengths[i]));
		post_receive(a, 2, RECEIVE(.wr_id = 51, .length = 64));
		fill(a, 0, lengths[i], 7);
		begin_copy(pair, key);
		post_send(a, 1,
			  REQUEST(.wr_id = 1, .opcode = IBV_WR_SEND_WITH_INV, .imm = key,
				  .length = lengths[i]));
		post_send(a, 1, SEND(.wr_id = 2, .length = 8));
		expect_none(a, RECEIVES);
		expect_other_qps_go_on(a);
		sleep_ms(100);
		expect_none(a, RECEIVES);
		end_copy(pair);
		wc = expect(a, RECEIVES, 50, IBV_WC_SUCCESS);
		REQUIRE(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == key &&
				wc.byte_len == lengths[i],
			"flags 0x%x, key 0x%x, %u bytes", wc.wc_flags, wc.invalidated_rkey,
			wc.byte_len);
		expect(a, RECEIVES, 51, IBV_WC_SUCCESS);
		expect(a, SENDS, 1, IBV_WC_SUCCESS);
		expect(a, SENDS, 2, IBV_WC_SUCCESS);
		expect_bytes(a, TARGET * 4, lengths[i], 7);
	}
}

/* Calls that destroy an object give up after a bound, and can be repeated. */
static void rule_34_calls_end_within_a_bound(struct pair *pair)
{
	struct end *a = &pair->a;
	struct ibv_mw *mw = set_up(pair, IBV_MW_TYPE_2);
	struct ibv_mr *mr = a->side->mr;
	uint32_t key = bind_window(a, 1, mw, WINDOW_BYTES);
	uint64_t begin = now_ms();
	int error;

	begin_copy(pair, key);
	REQUIRE(ibv_dereg_mr(a->side->region[0]) == EBUSY, "it has a window");
	error = ibv_dealloc_mw(mw);
	REQUIRE(error == EBUSY, "ibv_dealloc_mw: %d", error);
	error = ibv_dereg_mr(a->side->region[0]);
	REQUIRE(error == EBUSY, "ibv_dereg_mr of its region: %d", error);
	end_copy(pair);
	begin_copy(pair, mr->rkey);
	error = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS_ALL);
	REQUIRE(error < 0, "ibv_rereg_mr: %d", error);
	post_receive(a, 4, RECEIVE(.wr_id = 50, .length = 64)); /* as it was before */
	post_send(a, 3, SEND(.wr_id = 2, .length = 8));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(a, RECEIVES, 50, IBV_WC_SUCCESS);
	error = ibv_dereg_mr(mr);
	REQUIRE(error == EBUSY, "ibv_dereg_mr: %d", error);
	REQUIRE(now_ms() - begin < 2 * BOUNDED_MS, "it took %d ms", (int)(now_ms() - begin));
	end_copy(pair);
	error = ibv_dealloc_mw(mw);
	REQUIRE(error == 0, "ibv_dealloc_mw: %d", error);
	error = ibv_dereg_mr(a->side->region[0]);
	REQUIRE(error == 0, "ibv_dereg_mr of its region: %d", error);
	error = ibv_dereg_mr(mr);
	REQUIRE(error == 0, "ibv_dereg_mr: %d", error);
}

/* The hazard of a dead process does not count. */
static void rule_34_the_dead_do_not_copy(struct pair *pair)
{
	struct end *a = &pair->a;
	struct ibv_mw *mw = set_up(pair, IBV_MW_TYPE_2);
	uint32_t key = bind_window(a, 1, mw, WINDOW_BYTES);
	struct ibv_send_wr wr = invalidate_request(1, IBV_WR_LOCAL_INV, key);
	int error;

	begin_copy(pair, key);
	post_at_once(a, 1, &wr);
	expect_none(a, SENDS);
	end_kill(&pair->b, SIGKILL);
	if (!peer_stops(pair))
		end_copy(pair);
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	error = ibv_dealloc_mw(mw);
	REQUIRE(error == 0, "ibv_dealloc_mw: %d", error);
	error = ibv_dereg_mr(a->side->region[0]);
	REQUIRE(error == 0, "ibv_dereg_mr: %d", error);
}

/*
 * ------------------------------------------------------------------------------------------
 * Bad keys.
 */

struct window {
	int qp;
	uint32_t rkey, wished;
	uint64_t length;
	int status; /* of the bind */
	uint32_t shown;
};

/* A window of type 2 over region 0, bound to a QP. */
static void op_bind_type_2(struct side *side, void *argument)
{
	struct window *window = argument;
	struct ibv_mw *mw = ibv_alloc_mw(side->pd, IBV_MW_TYPE_2);
	struct op_poll op = { .which = SENDS, .timeout_ms = WAIT_MS };
	struct end end = { .side = side };
	struct ibv_send_wr wr, *bad;

	REQUIRE(mw, "ibv_alloc_mw: %s", strerror(errno));
	window->rkey = mw->rkey;
	wr = bind_request(&end, mw, 77, window->wished ^ mw->rkey, window->length);
	REQUIRE(ibv_post_send(side->qp[window->qp], &wr, &bad) == 0, "ibv_post_send(BIND_MW)");
	op_poll(side, &op);
	REQUIRE(op.result == 1 && op.wc.wr_id == 77, "no completion of the bind");
	window->status = (int)op.wc.status;
	window->shown = mw->rkey;
}

static struct window bind_type_2(struct end *end, int qp, uint32_t wished, uint64_t length)
{
	struct window window = { .qp = qp, .wished = wished, .length = length };

	RUN(end, op_bind_type_2, &window);
	return window;
}

static void add_target(struct end *end)
{
	add_region(end, (struct op_region){ .offset = TARGET,
					    .length = 2 * WINDOW_BYTES,
					    .access = ACCESS_ALL | IBV_ACCESS_MW_BIND });
}

static void expect_inv_refused(struct pair *pair, int qp, uint32_t key, uint32_t length)
{
	struct end *a = &pair->a, *b = &pair->b;

	post_receive(b, qp, RECEIVE(.wr_id = 50, .offset = 4 * TARGET, .length = length));
	post_receive(b, qp, RECEIVE(.wr_id = 51, .length = 64));
	post_send(
		a, qp,
		REQUEST(.wr_id = 7, .opcode = IBV_WR_SEND_WITH_INV, .imm = key, .length = length));
	post_send(a, qp, SEND(.wr_id = 8, .length = 8));
	expect(b, RECEIVES, 50, IBV_WC_REM_INV_REQ_ERR);
	expect_state(b, qp, IBV_QPS_ERR);
	expect(b, RECEIVES, 51, IBV_WC_WR_FLUSH_ERR);
	/* the responder sent no NAK */
	expect(a, SENDS, 7, IBV_WC_RETRY_EXC_ERR);
	expect_state(a, qp, IBV_QPS_ERR);
	expect(a, SENDS, 8, IBV_WC_WR_FLUSH_ERR);
}

static void rule_36_send_with_inv_of_a_bad_key(struct pair *pair)
{
	struct end *b = &pair->b;
	struct window window;

	pair_make(pair, WITH(.qps = 5));
	for (int qp = 0; qp < 5; qp++) {
		end_ready(&pair->a, b, qp);
		end_ready(b, &pair->a, qp);
		/* QP 0's request must be answered; those of the others must not */
		pair->a.side->options.timeout = 13;
		pair->a.side->options.retry_cnt = 3;
	}
	add_target(b);
	window = bind_type_2(b, 0, 0x5a, WINDOW_BYTES);
	REQUIRE(window.status == IBV_WC_SUCCESS, "bind: %s", ibv_wc_status_str(window.status));
	expect_inv_refused(pair, 1, window.rkey ^ 0x5a, 8); /* bound to another QP */
	expect_inv_refused(pair, 2, window.rkey ^ 0x5b, 8);
	expect_inv_refused(pair, 3, b->rkey, 100000); /* no window */
	expect_inv_refused(pair, 4, 0, 0);
	/* the window lives, and is invalidated by its own QP */
	post_receive(b, 0, RECEIVE(.wr_id = 60));
	post_send(&pair->a, 0,
		  REQUEST(.wr_id = 9, .opcode = IBV_WR_SEND_WITH_INV, .imm = window.rkey ^ 0x5a));
	expect(b, RECEIVES, 60, IBV_WC_SUCCESS);
	expect(&pair->a, SENDS, 9, IBV_WC_SUCCESS);
}

static void expect_write_imm_refused(struct pair *pair, int qp, uint32_t rkey, uint32_t length)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_poll op = { .which = RECEIVES, .timeout_ms = WAIT_MS };

	post_receive(b, qp, RECEIVE(.wr_id = 50, .length = 64));
	post_receive(b, qp, RECEIVE(.wr_id = 51, .length = 64));
	post_send(a, qp, WRITE_IMM(b, TARGET, .wr_id = 7, .length = length, .rkey = rkey));
	expect(a, SENDS, 7, IBV_WC_REM_ACCESS_ERR);
	expect_state(a, qp, IBV_QPS_ERR);
	RUN(b, op_poll, &op);
	REQUIRE(op.result == 1 && op.wc.wr_id == 50, "no completion of the receive");
	/*
	 * over a wire only the last packet has the immediate data, and the responder may have
	 * refused an earlier one
	 */
	REQUIRE(op.wc.status == IBV_WC_LOC_ACCESS_ERR ||
			(over_wire() && length > 1024 && op.wc.status == IBV_WC_WR_FLUSH_ERR),
		"receive: %s", ibv_wc_status_str(op.wc.status));
	REQUIRE(op.wc.vendor_err != 0, "no vendor_err");
	expect(b, RECEIVES, 51, IBV_WC_WR_FLUSH_ERR);
	expect_state(b, qp, IBV_QPS_ERR);
	expect_async(b, qp, IBV_EVENT_QP_ACCESS_ERR);
}

static void rule_36_write_imm_of_a_bad_key(struct pair *pair)
{
	struct end *b = &pair->b;
	struct op_region read_only;

	pair_connect(pair, WITH(.qps = 4));
	fill(b, 0, BUFFER, 0);
	read_only = add_region(b, (struct op_region){ .offset = TARGET,
						      .length = 2 * WINDOW_BYTES,
						      .access = IBV_ACCESS_REMOTE_READ });
	expect_write_imm_refused(pair, 0, b->rkey ^ 0x5a5a00, 64);
	expect_write_imm_refused(pair, 1, read_only.rkey, 1000);
	expect_write_imm_refused(pair, 2, read_only.rkey, 2 * WINDOW_BYTES + 1);
	expect_write_imm_refused(pair, 3, b->rkey ^ 0x5a5a00, 100000);
	expect_bytes(b, 0, BUFFER, 0);
}

/*
 * ------------------------------------------------------------------------------------------
 * Lengths, and the keys of windows.
 */

static void rule_37_atomics_of_8_bytes(struct pair *pair)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_ATOMIC_FETCH_AND_ADD,
						      IBV_WR_ATOMIC_CMP_AND_SWP,
						      IBV_WR_ATOMIC_WRITE };
	static const struct {
		int sges;
		uint32_t first, second;
		bool good;
	} rows[] = { { 1, 4, 0, false },  { 1, 0, 0, false }, { 1, 9, 0, false },
		     { 1, 16, 0, false }, { 2, 8, 8, false }, { 2, 4, 3, false },
		     { 2, 4, 4, true },	  { 2, 0, 8, true } };
	struct end *a = &pair->a, *b = &pair->b;

	for (int op = 0; op < 3; op++)
		for (int row = 0; row < 8; row++) {
			bool good = rows[row].good;
			struct request request =
				REQUEST(.wr_id = 7, .opcode = opcodes[op], TO(b, TARGET),
					.compare_add = 5, .swap = 6, .num_sge = rows[row].sges,
					.sge = { { a->addr, rows[row].first, a->lkey },
						 { a->addr + 4096, rows[row].second, a->lkey } });

			if (!op && !row)
				pair_connect(pair, WITH());
			else {
				end_move(a, b, 0, IBV_QPS_RESET);
				end_move(b, a, 0, IBV_QPS_RESET);
				end_ready(a, b, 0);
				end_ready(b, a, 0);
			}
			request.remote = b->addr + TARGET;
			request.rkey = b->rkey;
			for (int i = 0; i < rows[row].sges; i++) {
				request.sge[i].addr = a->addr + (uint64_t)i * 4096;
				request.sge[i].lkey = a->lkey;
			}
			poke(b, TARGET, 5);
			fill(a, 0, 64, 0);
			fill(a, 4096, 64, 3);
			post_send(a, 0, request);
			post_send(a, 0, SEND(.wr_id = 8));
			if (good) {
				expect(a, SENDS, 7, IBV_WC_SUCCESS);
				REQUIRE(peek(b, TARGET) != 5, "opcode %d, row %d: nothing was done",
					opcodes[op], row);
				post_receive(b, 0, RECEIVE(.wr_id = 50));
				expect(a, SENDS, 8, IBV_WC_SUCCESS);
				expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
				continue;
			}
			expect(a, SENDS, 7, IBV_WC_LOC_LEN_ERR);
			expect(a, SENDS, 8, IBV_WC_WR_FLUSH_ERR);
			REQUIRE(peek(b, TARGET) == 5, "opcode %d, row %d: the target is %d",
				opcodes[op], row, (int)peek(b, TARGET));
			expect_bytes(a, 0, 64, 0);
			expect_state(b, 0, IBV_QPS_RTS);
		}
	expect_no_async(b);
}

/* Only the low byte of the requested key counts; the program sets mw->rkey, as with adapters. */
static void rule_37_a_bind_takes_the_low_byte(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct window window;

	pair_connect(pair, WITH(.qps = 2));
	add_target(b);
	window = bind_type_2(b, 0, 0x12345678, WINDOW_BYTES);
	REQUIRE(window.status == IBV_WC_SUCCESS, "bind: %s", ibv_wc_status_str(window.status));
	REQUIRE(window.shown == window.rkey, "mw->rkey was changed");
	post_send(a, 0, WRITE(b, TARGET, .wr_id = 1, .length = 64, .rkey = window.rkey ^ 0x78));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	post_send(a, 0,
		  WRITE(b, TARGET, .wr_id = 2, .length = 64, .rkey = window.rkey ^ 0x12345678));
	expect(a, SENDS, 2, IBV_WC_REM_ACCESS_ERR);
}

static void rule_37_a_bind_of_nothing(struct pair *pair)
{
	struct window window;

	pair_connect(pair, WITH(.qps = 1));
	add_target(&pair->b);
	window = bind_type_2(&pair->b, 0, 1, 0);
	REQUIRE(window.status == IBV_WC_MW_BIND_ERR, "bind: %s", ibv_wc_status_str(window.status));
	expect_state(&pair->b, 0, IBV_QPS_ERR);
}

static const struct test tests[] = {
	PAIR(rule_34_local_inv_waits_alone),	 PAIR(rule_34_bind_waits_alone),
	PAIR(rule_34_send_with_inv_waits_alone), PAIR_WITHIN(60, rule_34_calls_end_within_a_bound),
	APART(rule_34_the_dead_do_not_copy),	 PAIR(rule_36_send_with_inv_of_a_bad_key),
	PAIR(rule_36_write_imm_of_a_bad_key),	 PAIR(rule_37_atomics_of_8_bytes),
	PAIR(rule_37_a_bind_takes_the_low_byte), PAIR(rule_37_a_bind_of_nothing),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
