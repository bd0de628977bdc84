/* SPDX-License-Identifier: BSD-2-Clause */
/* The unreliable services: rules 24 and 27 (UC) and 25 (UD) of the contract. */
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"

#define TARGET 65536u
#define BUFFER (1u << 20)

static void rule_24_uc_carries_sends_and_writes(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	static const uint32_t sizes[] = { 0, 1, 64, 1024, 1025, 4097, 65536, 300000 };
	struct ibv_wc wc;

	pair_connect(pair, WITH(.type = IBV_QPT_UC));
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t n = sizes[i];

		fill(a, 0, n, i + 1);
		fill(b, 0, BUFFER, 0);
		post_receive(b, 0, RECEIVE(.wr_id = 50, .offset = TARGET, .length = n));
		post_send(a, 0, SEND(.wr_id = 1, .length = n));
		expect(a, SENDS, 1, IBV_WC_SUCCESS);
		wc = expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
		REQUIRE(wc.byte_len == n && wc.wc_flags == 0, "completion of the receive");
		expect_bytes(b, TARGET, n, i + 1);
		expect_bytes(b, TARGET + n, 4096, 0);

		fill(b, 0, BUFFER, 0);
		post_receive(b, 0, RECEIVE(.wr_id = 51));
		post_send(a, 0, WRITE(b, TARGET, .wr_id = 2, .length = n));
		post_send(a, 0, WRITE_IMM(b, 2 * TARGET, .wr_id = 3, .length = n, .imm = htonl(i)));
		expect(a, SENDS, 2, IBV_WC_SUCCESS);
		expect(a, SENDS, 3, IBV_WC_SUCCESS);
		wc = expect(b, RECEIVES, 51, IBV_WC_SUCCESS);
		REQUIRE(wc.byte_len == n && wc.imm_data == htonl(i), "WRITE_WITH_IMM");
		expect_bytes(b, 2 * TARGET, n, i + 1);
		if (n <= TARGET)
			expect_bytes(b, TARGET, n, i + 1);
	}
	expect_no_async(a);
	expect_no_async(b);
}

/* Without a receive there is no RNR: the message is lost, and the next one is not. */
static void rule_24_uc_no_receive_drops(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UC));
	fill(a, 0, 20000, 1);
	fill(a, TARGET, 20000, 2);
	post_send(a, 0, SEND(.wr_id = 1, .length = 20000));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_none(b, RECEIVES);
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 20000));
	expect_none(b, RECEIVES);
	post_send(a, 0, SEND(.wr_id = 2, .offset = TARGET, .length = 20000));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_bytes(b, 0, 20000, 2);
	expect_state(b, 0, IBV_QPS_RTS);
}

/* The requester of UC learns nothing of it. The IBA leaves the state of the responder's QP open. */
static void rule_24_uc_bad_rkey_writes_nothing(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UC));
	fill(b, 0, BUFFER, 0);
	post_send(a, 0, WRITE(b, 0, .wr_id = 1, .length = 4096, .rkey = b->rkey ^ 0x5500));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_state(a, 0, IBV_QPS_RTS);
	sleep_ms(QUIET_MS);
	expect_bytes(b, 0, BUFFER, 0);
}

/*
 * The target spins on the flag at 0, and then checks at once that the message sent before it is
 * there, backwards: bytes that are copied late come first.
 */
struct op_watch {
	uint64_t flag;
	struct op_bytes bytes; /* first_bad: the last, here */
};

static void op_watch_flag(struct side *side, void *argument)
{
	struct op_watch *op = argument;
	const uint8_t *data = (uint8_t *)side->buf + op->bytes.offset;
	uint64_t end_ms = now_ms() + WAIT_MS;

	while (__atomic_load_n((uint64_t *)side->buf, __ATOMIC_ACQUIRE) != op->flag)
		REQUIRE(now_ms() < end_ms, "flag %llu never came", (unsigned long long)op->flag);
	op->bytes.first_bad = -1;
	for (uint64_t i = op->bytes.length; i-- > 0 && op->bytes.first_bad < 0;)
		if (data[i] != pattern(op->bytes.seed, i))
			op->bytes.first_bad = (int64_t)i;
}

static void rule_27_uc_write_does_not_overtake(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	static const uint32_t sizes[] = { 5000, 65536, 300000, 2000000 };

	pair_connect(pair, WITH(.type = IBV_QPT_UC, .size = TARGET + 2000000));
	poke(b, 0, 0);
	for (uint32_t i = 0; i < 32; i++) {
		struct op_watch op = { .flag = i + 1,
				       .bytes = { TARGET, sizes[i / 2 % 4], i + 1, 0 } };
		struct request chain[] = {
			SEND(.wr_id = 1, .offset = TARGET, .length = sizes[i / 2 % 4]),
			WRITE(b, 0, .wr_id = 2, .length = 8),
		};
		int bad;

		if (i % 2)
			chain[0] = WRITE_IMM(b, TARGET, .wr_id = 1, .offset = TARGET,
					     .length = sizes[i / 2 % 4]);
		poke(a, 0, i + 1);
		fill(a, TARGET, sizes[i / 2 % 4], i + 1);
		fill(b, TARGET, sizes[i / 2 % 4], 0);
		post_receive(b, 0,
			     RECEIVE(.wr_id = 50, .offset = TARGET, .length = sizes[i / 2 % 4]));
		START(b, op_watch_flag, &op);
		REQUIRE(post_chain(a, 0, chain, 2, &bad) == 0, "ibv_post_send");
		end_finish(b);
		REQUIRE(op.bytes.first_bad < 0,
			"round %u: byte %lld of the %s of %u was not there when the flag was", i,
			(long long)op.bytes.first_bad, i % 2 ? "WRITE" : "SEND", sizes[i / 2 % 4]);
		expect(a, SENDS, 1, IBV_WC_SUCCESS);
		expect(a, SENDS, 2, IBV_WC_SUCCESS);
		expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	}
}

static void rule_24_uc_needs_no_peer(struct pair *pair)
{
	pair_make(pair, WITH(.type = IBV_QPT_UC));
	end_ready(&pair->a, &pair->b, 0);
	for (uint64_t i = 0; i < 200; i++) {
		post_send(&pair->a, 0, SEND(.wr_id = i, .length = 4096));
		expect(&pair->a, SENDS, i, IBV_WC_SUCCESS);
	}
	expect_state(&pair->a, 0, IBV_QPS_RTS);
}

static bool is_ipv4(const struct end *end)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	return memcmp(end->gid.raw, mapped, sizeof(mapped)) == 0;
}

static void expect_grh(struct end *from, struct end *to)
{
	struct end here = *to;
	uint8_t grh[GRH_BYTES];

	for (uint64_t i = 0; i < GRH_BYTES; i += 8) {
		uint64_t word = peek(&here, i);

		memcpy(grh + i, &word, 8);
	}
	if (!is_ipv4(from)) {
		REQUIRE(grh[0] >> 4 == 6, "no IPv6 header");
		REQUIRE(memcmp(grh + 8, from->gid.raw, 16) == 0, "source GID");
		REQUIRE(memcmp(grh + 24, to->gid.raw, 16) == 0, "destination GID");
		return;
	}
	REQUIRE(grh[20] == 0x45, "no IPv4 header in the last 20 bytes: %02x", grh[20]);
	REQUIRE(grh[29] == 17, "protocol %u is not UDP", grh[29]);
	REQUIRE(memcmp(grh + 32, from->gid.raw + 12, 4) == 0, "source address");
	REQUIRE(memcmp(grh + 36, to->gid.raw + 12, 4) == 0, "destination address");
}

static void rule_25_grh_comes_first(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	static const uint32_t sizes[] = { 0, 1, 8, 64, 100, 256, 1024 };

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t n = sizes[i];
		struct ibv_wc wc;

		fill(a, 0, n, i + 1);
		fill(b, 0, BUFFER, 0);
		post_receive(b, 0, RECEIVE(.wr_id = 50, .length = GRH_BYTES + n));
		post_send(a, 0, DATAGRAM(b, .wr_id = 1, .length = n));
		wc = expect(a, SENDS, 1, IBV_WC_SUCCESS);
		REQUIRE(wc.opcode == IBV_WC_SEND, "opcode %d", wc.opcode);
		wc = expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
		REQUIRE(wc.byte_len == GRH_BYTES + n, "byte_len %u for %u", wc.byte_len, n);
		REQUIRE(wc.wc_flags == IBV_WC_GRH, "wc_flags 0x%x", wc.wc_flags);
		REQUIRE(wc.src_qp == a->qpn[0], "src_qp 0x%x", wc.src_qp);
		REQUIRE(wc.opcode == IBV_WC_RECV, "opcode %d", wc.opcode);
		REQUIRE(wc.pkey_index == 0, "pkey_index %u", wc.pkey_index);
		REQUIRE(wc.sl == (is_ipv4(a) ? 2 : 0), "sl %u is not the kind of header", wc.sl);
		expect_grh(a, b);
		expect_bytes(b, GRH_BYTES, n, i + 1);
		expect_bytes(b, GRH_BYTES + n, 4096, 0);
	}
}

/* The GRH is scattered like data, over any SGEs. */
static void rule_25_grh_across_sges(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	fill(a, 0, 100, 3);
	fill(b, 0, BUFFER, 0);
	post_receive(b, 0,
		     RECEIVE(.wr_id = 50, .num_sge = 3,
			     .sge = { { b->addr + 4096, 20, b->lkey },
				      { b->addr + 8192, 30, b->lkey },
				      { b->addr + 12288, 90, b->lkey } }));
	post_send(a, 0, DATAGRAM(b, .wr_id = 1, .length = 100));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	REQUIRE(expect(b, RECEIVES, 50, IBV_WC_SUCCESS).byte_len == 140, "byte_len");
	for (uint64_t i = 0; i < 10; i++)
		REQUIRE((uint8_t)peek(b, 8192 + 20 + i) == pattern(3, i), "byte %d", (int)i);
	for (uint64_t i = 10; i < 100; i++)
		REQUIRE((uint8_t)peek(b, 12288 + i - 10) == pattern(3, i), "byte %d", (int)i);
	expect_bytes(b, 8192 + 30, 100, 0);
}

static void rule_25_immediate(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct request request;
	struct ibv_wc wc;

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	request = DATAGRAM(b, .wr_id = 1, .length = 8, .imm = htonl(0x01020304));
	request.opcode = IBV_WR_SEND_WITH_IMM;
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 64));
	post_send(a, 0, request);
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	wc = expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	REQUIRE(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM), "wc_flags 0x%x", wc.wc_flags);
	REQUIRE(wc.imm_data == htonl(0x01020304), "imm_data");
}

static void rule_25_mtu_is_the_limit(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	uint32_t mtu;

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	mtu = 128u << a->mtu;
	fill(a, 0, mtu, 4);
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = GRH_BYTES + mtu + 1));
	post_receive(b, 0, RECEIVE(.wr_id = 51, .length = GRH_BYTES + mtu + 1));
	post_send(a, 0, DATAGRAM(b, .wr_id = 1, .length = mtu));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	REQUIRE(expect(b, RECEIVES, 50, IBV_WC_SUCCESS).byte_len == GRH_BYTES + mtu, "byte_len");
	expect_bytes(b, GRH_BYTES, mtu, 4);
	post_send(a, 0, DATAGRAM(b, .wr_id = 2, .length = mtu + 1));
	expect(a, SENDS, 2, IBV_WC_LOC_LEN_ERR);
	expect_none(b, RECEIVES);
	expect_state(b, 0, IBV_QPS_RTS);
}

/* Each row is lost without a trace; a good datagram afterwards is not. */
/*
 * The pair has two QPs at each end. Behind the request comes a datagram for the second one of `b`:
 * when that is there, the request was dropped, however long the two were on their way.
 */
static void expect_dropped(struct pair *pair, struct request request)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct request witness = DATAGRAM(b, .wr_id = 98, .length = 8);

	post_receive(b, 1, RECEIVE(.wr_id = 99, .offset = BUFFER - 64, .length = 64));
	request.wr_id = 1;
	post_send(a, 0, request);
	witness.qpn = b->qpn[1];
	post_send(a, 0, witness);
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(a, SENDS, 98, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 99, IBV_WC_SUCCESS);
	expect_state(a, 0, IBV_QPS_RTS);
	expect_state(b, 0, IBV_QPS_RTS);
	expect_no_async(b);
}

static void rule_25_wrong_qkey_is_dropped(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct request request;

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .qps = 2));
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 64));
	request = DATAGRAM(b, .length = 8);
	request.qkey = QKEY + 1;
	expect_dropped(pair, request);
	post_send(a, 0, DATAGRAM(b, .wr_id = 2, .length = 8));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
}

/* A Q_Key with the high bit set stands for the sending QP's own. */
static void rule_25_privileged_qkey(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct request request;

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 64));
	request = DATAGRAM(b, .wr_id = 2, .length = 8);
	request.qkey = 0x80000000;
	post_send(a, 0, request);
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
}

static void rule_25_no_receive_is_dropped(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .qps = 2));
	expect_dropped(pair, DATAGRAM(b, .length = 8));
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 64));
	expect_none(b, RECEIVES);
	post_send(a, 0, DATAGRAM(b, .wr_id = 2, .length = 8));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
}

static void rule_25_receive_too_small_is_dropped(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .qps = 2));
	fill(b, 0, BUFFER, 0);
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = GRH_BYTES + 8));
	expect_dropped(pair, DATAGRAM(b, .length = 9));
	expect_bytes(b, GRH_BYTES + 8, 4096, 0);
	/* The receive was not used up. */
	post_send(a, 0, DATAGRAM(b, .wr_id = 2, .length = 8));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
}

/* Datagrams that did not fit left a receive at the front: the QP's end completes it, once. */
static void rule_25_receive_kept_is_flushed(struct pair *pair)
{
	struct end *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .qps = 2));
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = GRH_BYTES + 8));
	post_receive(b, 0, RECEIVE(.wr_id = 51, .length = GRH_BYTES + 8));
	expect_dropped(pair, DATAGRAM(b, .length = 9));
	expect_dropped(pair, DATAGRAM(b, .length = 10));
	REQUIRE(end_modify(b, 0, (struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE) ==
			0,
		"to ERR");
	expect(b, RECEIVES, 50, IBV_WC_WR_FLUSH_ERR);
	expect(b, RECEIVES, 51, IBV_WC_WR_FLUSH_ERR);
	expect_none(b, RECEIVES);
}

/* RESET releases the kept receive: the queue takes as many as before, each time. */
static void rule_25_receive_kept_is_given_back(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .qps = 2,
				.cap = { .max_send_wr = 4,
					 .max_recv_wr = 2,
					 .max_send_sge = 1,
					 .max_recv_sge = 1 }));
	for (int round = 0; round < 4; round++) {
		for (uint64_t i = 0; i < 2; i++)
			post_receive(b, 0, RECEIVE(.wr_id = 50 + i, .length = GRH_BYTES + 8));
		expect_dropped(pair, DATAGRAM(b, .length = 9));
		REQUIRE(end_modify(b, 0, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET },
				   IBV_QP_STATE) == 0,
			"to RESET");
		expect_none(b, RECEIVES);
		end_ready(b, a, 0);
	}
	post_receive(b, 0, RECEIVE(.wr_id = 60, .length = GRH_BYTES + 8));
	post_send(a, 0, DATAGRAM(b, .wr_id = 2, .length = 8));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 60, IBV_WC_SUCCESS);
}

static void rule_25_unknown_qp_is_dropped(struct pair *pair)
{
	struct request request;

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .qps = 2));
	request = DATAGRAM(&pair->b, .length = 8);
	request.qpn ^= 0x3ff;
	expect_dropped(pair, request);
}

/* If a receive's memory is not writable, the receiver has the error, the sender none. */
static void rule_25_bad_receive_key(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	post_receive(
		b, 0,
		RECEIVE(.wr_id = 50, .num_sge = 1, .sge = { { b->addr, 64, b->lkey ^ 0x5500 } }));
	post_receive(b, 0, RECEIVE(.wr_id = 51, .length = 64));
	post_send(a, 0, DATAGRAM(b, .wr_id = 1, .length = 8));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_LOC_PROT_ERR);
	expect(b, RECEIVES, 51, IBV_WC_WR_FLUSH_ERR);
	expect_state(a, 0, IBV_QPS_RTS);
	expect_state(b, 0, IBV_QPS_ERR);
}

/* A page of its own for receives, registered. */
static struct ibv_mr *register_page(struct side *side, void **page)
{
	size_t length = (size_t)sysconf(_SC_PAGESIZE);
	struct ibv_mr *mr;

	*page = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(*page != MAP_FAILED, "mmap: %s", strerror(errno));
	mr = ibv_reg_mr(side->pd, *page, length, IBV_ACCESS_LOCAL_WRITE);
	REQUIRE(mr, "ibv_reg_mr: %s", strerror(errno));
	return mr;
}

static void receive_into(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 50, .sg_list = &sge, .num_sge = 1 }, *bad;

	REQUIRE(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
}

static void op_post_unmapped(struct side *side, void *argument)
{
	struct ibv_mr **mr = argument;
	void *page;

	*mr = register_page(side, &page);
	receive_into(side->qp[0], *mr);
	munmap(page, (*mr)->length);
}

static void op_end_unmapped(struct side *side, void *argument)
{
	REQUIRE(ibv_dereg_mr(*(struct ibv_mr **)argument) == 0, "ibv_dereg_mr");
}

/*
 * UCX unmaps the memory of its receives before it destroys the QP. That an adapter would store in
 * the pages that were there is not asked for; that the receiver goes on is. Nobody polls at its end
 * when the datagram comes.
 */
static void rule_25_receive_that_is_unmapped(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_mr *mr;

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	RUN(b, op_post_unmapped, &mr);
	sleep_ms(QUIET_MS); /* longer than a poll lease */
	post_send(a, 0, DATAGRAM(b, .wr_id = 1, .length = 8));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	sleep_ms(QUIET_MS); /* the progress thread receives it */
	expect(b, RECEIVES, 50, IBV_WC_LOC_PROT_ERR);
	expect_state(b, 0, IBV_QPS_ERR);
	RUN(b, op_end_unmapped, &mr);
}

struct op_flood {
	uint32_t qpn, ms;
};

/* Sends to that QP all the time. */
static void op_flood(struct side *side, void *argument)
{
	const struct op_flood *op = argument;
	struct ibv_sge sge = { (uintptr_t)side->buf, 8, side->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = side->ah, .remote_qpn = op->qpn, .remote_qkey = QKEY },
	};
	uint64_t end_ms = now_ms() + op->ms;
	struct ibv_send_wr *bad;
	struct ibv_wc wc[16];
	int outstanding = 0;

	while (now_ms() < end_ms || outstanding) {
		for (; outstanding < 32 && now_ms() < end_ms; outstanding++)
			REQUIRE(ibv_post_send(side->qp[0], &wr, &bad) == 0, "ibv_post_send");
		outstanding -= ibv_poll_cq(side->cq[SENDS], 16, wc);
		REQUIRE(now_ms() < end_ms + WAIT_MS, "a datagram does not leave");
	}
}

/* Receives for so long, then takes the memory away and, at once, the QP. */
static void op_receive_unmap_destroy(struct side *side, void *argument)
{
	int qp = *(int *)argument, received = 0;
	uint64_t end_ms = now_ms() + 10;
	struct ibv_wc wc[16];
	struct ibv_mr *mr;
	void *page;

	mr = register_page(side, &page);
	for (unsigned i = 0; i < side->options.cap.max_recv_wr; i++)
		receive_into(side->qp[qp], mr);
	while (now_ms() < end_ms || !received) {
		int n = ibv_poll_cq(side->cq[RECEIVES], 16, wc);

		for (received += n; n > 0; n--)
			receive_into(side->qp[qp], mr);
		REQUIRE(now_ms() < end_ms + WAIT_MS, "no datagram comes");
	}
	munmap(page, mr->length);
	REQUIRE(ibv_destroy_qp(side->qp[qp]) == 0, "ibv_destroy_qp");
	side->qp[qp] = NULL;
	REQUIRE(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* The same while datagrams come, and the thread that destroys the QP is the one that polled. */
static void rule_25_destroyed_with_receives_unmapped(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .qps = 8));
	for (int qp = 0; qp < 8; qp++) {
		struct op_flood flood = { .qpn = b->qpn[qp], .ms = 50 };

		START(a, op_flood, &flood);
		RUN(b, op_receive_unmap_destroy, &qp);
		end_finish(a);
	}
}

/* One AH, many destinations: the QP is chosen by the request. */
static void rule_25_one_address_many_qps(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .qps = 4));
	for (int qp = 0; qp < 4; qp++)
		post_receive(b, qp, RECEIVE(.wr_id = 50 + (uint64_t)qp, .length = 64));
	for (int qp = 3; qp >= 0; qp--) {
		struct request request = DATAGRAM(b, .wr_id = 1, .length = 8);

		request.qpn = b->qpn[qp];
		post_send(a, 0, request);
		expect(a, SENDS, 1, IBV_WC_SUCCESS);
		REQUIRE(expect(b, RECEIVES, 50 + (uint64_t)qp, IBV_WC_SUCCESS).qp_num == b->qpn[qp],
			"qp_num");
	}
}

/* The answer goes to an address made from the completion and the GRH. */
struct op_answer {
	struct ibv_wc wc;
	int error, reply;
};

static void op_answer_from_completion(struct side *side, void *argument)
{
	struct op_answer *op = argument;
	struct ibv_ah *ah =
		ibv_create_ah_from_wc(side->pd, &op->wc, (struct ibv_grh *)side->buf, 1);
	struct ibv_sge sge = { (uintptr_t)side->buf, 8, side->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = 9,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.ud = { ah, op->wc.src_qp, QKEY } };

	op->error = ah ? 0 : errno;
	if (!ah)
		return;
	op->reply = ibv_post_send(side->qp[0], &wr, &bad);
	/* An address may be destroyed while a request still needs it. */
	REQUIRE(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
}

static void rule_09_address_from_completion(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_answer op = { .error = -1 };

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 64));
	post_receive(a, 0, RECEIVE(.wr_id = 51, .length = 64));
	post_send(a, 0, DATAGRAM(b, .wr_id = 1, .length = 8));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	op.wc = expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	RUN(b, op_answer_from_completion, &op);
	REQUIRE(op.error == 0, "ibv_create_ah_from_wc: %s", strerror(op.error));
	REQUIRE(op.reply == 0, "ibv_post_send: %s", strerror(op.reply));
	expect(b, SENDS, 9, IBV_WC_SUCCESS);
	REQUIRE(expect(a, RECEIVES, 51, IBV_WC_SUCCESS).src_qp == b->qpn[0], "src_qp");
}

/* ::ffff:239.77.88.99 */
static const union ibv_gid group = { .raw = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 77, 88,
					      99 } };

struct op_group {
	int qp;
	bool detach;
	int result;
};

static void op_group(struct side *side, void *argument)
{
	struct op_group *op = argument;

	op->result = op->detach ? ibv_detach_mcast(side->qp[op->qp], &group, 0)
				: ibv_attach_mcast(side->qp[op->qp], &group, 0);
}

static void op_address_group(struct side *side, void *argument)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .grh = { .dgid = group, .hop_limit = 1 },
				    .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(side->pd, &attr);

	*(int *)argument = ah ? 0 : errno;
	if (ah)
		side->ah = ah;
}

static void rule_25_multicast_reaches_all(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct end *members[] = { a, b };
	struct op_destroy_qp destroy = { .qp = 0 };
	struct request request;
	int error;

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .qps = 2));
	for (int i = 0; i < 4; i++) {
		struct op_group op = { .qp = i % 2 };

		RUN(members[i / 2], op_group, &op);
		if (op.result == EOPNOTSUPP || op.result == ENOSYS)
			skip_because("ibv_attach_mcast: %s", strerror(op.result));
		REQUIRE(op.result == 0, "ibv_attach_mcast: %s", strerror(op.result));
		post_receive(members[i / 2], i % 2, RECEIVE(.wr_id = 50, .length = 64));
		post_receive(members[i / 2], i % 2, RECEIVE(.wr_id = 51, .length = 64));
	}
	/* one that is not destroyed after all goes on */
	RUN(b, op_destroy_qp, &destroy);
	REQUIRE(destroy.result == EBUSY, "ibv_destroy_qp of a group's member: %s",
		strerror(destroy.result));
	RUN(a, op_address_group, &error);
	REQUIRE(error == 0, "ibv_create_ah: %s", strerror(error));
	request = DATAGRAM(b, .wr_id = 1, .length = 8);
	request.qpn = 0xffffff;
	post_send(a, 0, request);
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < 4; i++)
		expect(members[i / 2], RECEIVES, 50, IBV_WC_SUCCESS);
	expect_none(a, RECEIVES);
	expect_none(b, RECEIVES);

	for (int i = 0; i < 4; i++) {
		struct op_group op = { .qp = i % 2, .detach = true };

		RUN(members[i / 2], op_group, &op);
		REQUIRE(op.result == 0, "ibv_detach_mcast: %s", strerror(op.result));
	}
	post_send(a, 0, request);
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_none(a, RECEIVES);
	expect_none(b, RECEIVES);
}

static void op_address_of_other_pd(struct side *side, void *argument)
{
	struct ibv_ah_attr attr = { .is_global = 1, .grh.hop_limit = 1, .port_num = 1 };

	*(int *)argument = ibv_query_gid(side->context, 1, 0, &attr.grh.dgid);
	side->ah = ibv_create_ah(side->other_pd, &attr);
	if (!side->ah)
		*(int *)argument = errno;
}

/* IBA C10-10: the post succeeds, the request fails, and nothing is sent. */
static void rule_12_address_handle_of_another_pd(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	int error;

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 64));
	RUN(a, op_address_of_other_pd, &error);
	REQUIRE(error == 0, "ibv_create_ah: %s", strerror(error));
	post_send(a, 0, DATAGRAM(b, .wr_id = 1, .length = 8));
	expect(a, SENDS, 1, IBV_WC_LOC_QP_OP_ERR);
	expect_none(b, RECEIVES);
}

/* Overwrites the memory of a datagram right after the post, before its completion. */
static void op_post_and_overwrite(struct side *side, void *argument)
{
	struct ibv_sge sge = { (uintptr_t)side->buf, 64, side->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1,
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = side->ah,
			   .remote_qpn = *(uint32_t *)argument,
			   .remote_qkey = QKEY },
	};

	REQUIRE(ibv_post_send(side->qp[0], &wr, &bad) == 0, "ibv_post_send");
	memset(side->buf, 0xff, 64);
}

/* The two have not met yet: the datagram waits for verbatimd, but leaves as it was posted. */
static void rule_25_first_datagram_leaves_with_its_post(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	fill(a, 0, 64, 1);
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = GRH_BYTES + 64));
	RUN(a, op_post_and_overwrite, &b->qpn[0]);
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_bytes(b, GRH_BYTES, 64, 1);
}

static const struct test tests[] = {
	EVERY(rule_12_address_handle_of_another_pd),
	EVERY(rule_24_uc_carries_sends_and_writes),
	PAIR(rule_24_uc_no_receive_drops),
	PAIR(rule_24_uc_bad_rkey_writes_nothing),
	PAIR(rule_24_uc_needs_no_peer),
	PAIR(rule_27_uc_write_does_not_overtake),
	EVERY(rule_25_grh_comes_first),
	PAIR(rule_25_grh_across_sges),
	PAIR(rule_25_first_datagram_leaves_with_its_post),
	PAIR(rule_25_immediate),
	PAIR(rule_25_mtu_is_the_limit),
	PAIR(rule_25_wrong_qkey_is_dropped),
	PAIR(rule_25_privileged_qkey),
	PAIR(rule_25_no_receive_is_dropped),
	PAIR(rule_25_receive_too_small_is_dropped),
	APART(rule_25_receive_that_is_unmapped),
	APART(rule_25_destroyed_with_receives_unmapped),
	PAIR(rule_25_receive_kept_is_flushed),
	PAIR(rule_25_receive_kept_is_given_back),
	PAIR(rule_25_unknown_qp_is_dropped),
	PAIR(rule_25_bad_receive_key),
	PAIR(rule_25_one_address_many_qps),
	PAIR(rule_25_multicast_reaches_all),
	PAIR(rule_09_address_from_completion),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
