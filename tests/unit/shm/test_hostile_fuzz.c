/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that writes anything into its ring, its control line and its arena. This process does
 * not crash, memory without a right for the peer is not written, QPs that are not connected to it
 * do not change, and two other QPs still exchange messages. Takes a seed as its argument; prints
 * it.
 */
#include "rig.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/heap.h"
#include "shm/progress.h"
#include "shm/rendezvous.h"
#include "shm/retry.h"

#define RECORDS	   10000
#define FAR_SLOT   9
#define OTHER_SLOT 10
#define FAR_QPN	   (FAR_SLOT << ARENA_QP_BITS | 1)
#define REMOTE	   (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define CANARY	   0xc5
/* The peer's region, and its place in the peer's heap: sources of records by key. */
#define FAR_KEY	     0x12000134u
#define FAR_PD	     77
#define FAR_ADDR     0x10000000ull
#define HEAP_PLACE   (HEAP_FIRST + 4096)
#define REGION_BYTES 65536

/*
 * Memory that the peer may write, may only read, and that is only for receives; canaries between.
 */
#define ZONE	  1024
#define ZONES	  7
#define OPEN	  1
#define READABLE  3
#define RECEIVING 5

static uint32_t random_state;
static struct rig rig;
static struct far far, other;
static struct qp *targets[3], *bystander, *left, *right;
static struct mr *open_mr, *readable_mr, *receiving_mr;
static uint8_t memory[ZONES * ZONE] __attribute__((aligned(64)));
static uint8_t payload[RECORD_PAYLOAD_MAX];
static uint32_t records, breaks, failures, said;
static uint64_t fetched;

static uint32_t below(uint32_t limit)
{
	return draw(&random_state) % limit;
}

static uint64_t any_number(void)
{
	static const uint64_t special[] = {
		0, 1, 63, 64, 255, 1 << 14, UINT32_MAX, 1ull << 63, UINT64_MAX - 7, UINT64_MAX
	};
	uint64_t high = (uint64_t)draw(&random_state) << 40;

	return below(2) ? special[below(10)]
			: high ^ (uint64_t)draw(&random_state) << 20 ^ below(4096);
}

static uint8_t *zone(int number)
{
	return memory + number * ZONE;
}

static void check_memory(void)
{
	for (int n = 0; n < ZONES; n++) {
		if (n == OPEN || n == RECEIVING)
			continue;
		for (int i = 0; i < ZONE; i++)
			if (zone(n)[i] != CANARY)
				fail_msg("zone %d, byte %d, after record %u", n, i, records);
	}
}

static void connect_target(struct qp *qp)
{
	rig_connect(qp, &(struct rig_connection){
				.slot = FAR_SLOT,
				.access = REMOTE,
				.timeout = 1,
				.retry_cnt = 1,
				.rnr_retry = (uint8_t)below(8),
				.psn = 0xfffffe,
			});
}

static void post_receives(struct qp *qp)
{
	while (qp->rq->tail - qp->rq->released < qp->rq->max_wr) {
		uint32_t length = 64 + below(128);
		struct ibv_sge sge = {
			.addr = (uintptr_t)zone(RECEIVING) + below(ZONE - 192),
			.length = length,
			.lkey = below(50) ? receiving_mr->ib.lkey : (uint32_t)any_number(),
		};

		rig_post_receive(qp, length, &sge);
	}
}

/* Requests of ours, so that answers and acknowledgements mean something. */
static void post_sends(struct qp *qp)
{
	static const enum ibv_wr_opcode kinds[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						    IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct ibv_sge sge = {
		.addr = (uintptr_t)zone(RECEIVING) + 8 * below(64),
		.length = 8 + 8 * below(32),
		.lkey = receiving_mr->ib.lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = 1000,
		.opcode = kinds[below(qp->type == IBV_QPT_RC ? 4 : 2)],
		.sg_list = &sge,
		.num_sge = 1,
	};

	if (qp->type == IBV_QPT_UD || qp->sq.tail - qp->sq.released >= qp->sq.max_wr)
		return;
	rig_post_send(qp, &wr);
}

static void make_far(void)
{
	int fd = memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	far_create(&far, FAR_SLOT);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, HEAP_PLACE + REGION_BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	heap_init(&far.link->heap, fd);
}

/* The peer's QP and region are as they should be, but for one field at times. */
static struct record_source any_source(struct qp *qp, uint32_t bytes)
{
	struct arena_qp *far_qp = &arena_qps(far.arena)[1];
	struct arena_key *far_key = &arena_keys(far.arena)[KEY_INDEX(FAR_KEY)];
	struct record_source source = { .address = FAR_ADDR + below(REGION_BYTES - 200),
					.key = FAR_KEY,
					.bytes = bytes,
					.generation = 3 };

	*far_qp = (struct arena_qp){ .word = ARENA_QP_WORD(qp->type, IBV_QPS_RTS),
				     .dest_qpn = qp->ib.qp_num,
				     .pd = FAR_PD,
				     .generation = 3 };
	*far_key = (struct arena_key){ .key = FAR_KEY,
				       .start = FAR_ADDR,
				       .length = REGION_BYTES,
				       .addr = FAR_ADDR,
				       .pd = FAR_PD,
				       .heap = HEAP_PLACE };
	switch (below(20)) {
	case 0:
		source.address += any_number();
		break;
	case 1:
		source.key = (uint32_t)any_number();
		break;
	case 2:
		source.bytes = (uint32_t)any_number();
		break;
	case 3:
		source.generation = (uint32_t)any_number();
		break;
	case 4:
		far_key->length = any_number();
		break;
	case 5:
		far_key->heap = any_number();
		break;
	case 6:
		far_key->heap_edges = (uint32_t)any_number();
		break;
	case 7:
		far_key->start = any_number();
		break;
	case 8:
		far_key->addr = any_number();
		break;
	default:
		break;
	}
	return source;
}

static struct record_header likely_header(struct qp *qp)
{
	struct shm_qp *lq = shm_of(qp);
	struct record_header header = {
		.dst_qpn = qp->ib.qp_num,
		.src_qpn = FAR_QPN,
		.msn = lq->expecting ? lq->expected_msn : 0xfffffe,
		.total = below(200),
		.imm = below(8),
		.rkey = below(3) ? open_mr->ib.rkey : readable_mr->ib.rkey,
		.acked = below(4) ? 0 : far.rx.head,
	};

	if (qp->type == IBV_QPT_UD)
		header.rkey = 0x11;
	header.remote_addr =
		(uintptr_t)(header.rkey == open_mr->ib.rkey ? zone(OPEN) : zone(READABLE)) +
		8 * below(100);
	header.bytes = header.total;
	return header;
}

/* At most two wrong fields, so that later checks are reached, too. */
static void spoil(struct record_header *header)
{
	switch (below(16)) {
	case 0:
		header->dst_qpn = below(2) ? bystander->ib.qp_num : (uint32_t)any_number();
		break;
	case 1:
		header->src_qpn = (uint32_t)any_number();
		break;
	case 2:
		header->msn = (header->msn + below(5) - 2) & MSN_MASK;
		break;
	case 3:
		header->total = (uint32_t)any_number();
		break;
	case 4:
		header->bytes = below(RECORD_PAYLOAD_MAX + 1);
		break;
	case 5:
		header->rkey = (uint32_t)any_number();
		break;
	case 6:
		header->remote_addr += any_number();
		break;
	case 7:
		header->acked = any_number();
		break;
	case 8:
		header->bytes = below(header->bytes + 1);
		break;
	default:
		break;
	}
}

static void send_some(struct qp *qp)
{
	struct record_header header = likely_header(qp);
	struct record_source source;
	uint32_t flags = below(3) ? RECORD_FIRST | RECORD_LAST : below(256);
	uint32_t kind = below(4) ? OPERATION_SEND + below(OPERATIONS_OF_PEER - 1)
				 : OPERATION_SEND + below(RECORD_KINDS - 1);

	if (qp->type == IBV_QPT_UD && below(2))
		kind = RECORD_DATAGRAM;
	if (qp->type == IBV_QPT_UC && below(8))
		flags |= RECORD_UNACKED;
	if (kind > OPERATION_READ && kind < OPERATIONS_OF_PEER)
		header.bytes = sizeof(struct operands);
	if (kind >= RECORD_READ_RESPONSE) {
		/* an answer to one of our requests, as far as can be guessed */
		header.msn = (shm_of(qp)->next_msn - below(4)) & MSN_MASK;
		header.msn |= (uint32_t)shm_of(qp)->attempt << 24;
		header.bytes = kind == RECORD_NAK ? 0 : 8 * below(34);
	}
	if ((kind == OPERATION_SEND || kind == OPERATION_WRITE) && below(2)) {
		source = any_source(qp, header.total);
		memcpy(payload, &source, sizeof(source));
		flags |= RECORD_BY_KEY;
		header.bytes = (uint16_t)(rendezvous_room(header.total) + below(1000));
	}
	spoil(&header);
	spoil(&header);
	if (!ring_reserve(&far.tx, header.bytes, 0))
		return;
	far_send(&far, kind, flags, header, payload);
	records++;
}

/* Bytes straight into the ring, the control lines, the arena. */
static void scribble(void)
{
	uint8_t *at = (uint8_t *)far.tx.data + far.tx.tail % RING_BYTES;
	uint8_t *control = (uint8_t *)far.shared;

	switch (below(6)) {
	case 0: /* a header of chance */
		for (int i = 0; i < 64; i++)
			at[i] = (uint8_t)below(256);
		break;
	case 1: /* a sane word before a header of chance */
		for (int i = 4; i < 48; i++)
			at[i] = (uint8_t)below(256);
		((struct record_header *)at)->bytes = 0;
		__atomic_store_n((uint32_t *)at, record_word(1 + below(9), below(256), 0),
				 __ATOMIC_RELEASE);
		far.tx.tail += RECORD_UNIT;
		__atomic_store_n((uint32_t *)(far.tx.data + far.tx.tail % RING_BYTES), 0,
				 __ATOMIC_RELAXED);
		break;
	case 2:
		atomic_store(&far.control[0].head, any_number());
		break;
	case 3:
		atomic_store(&far.control[0].acked, any_number());
		break;
	case 4: /* our own lines */
		control[64 + below(64)] = (uint8_t)below(256);
		break;
	default:
		for (int i = 0; i < 100; i++)
			((uint8_t *)far.arena)[below(ARENA_BYTES)] = (uint8_t)below(256);
		break;
	}
}

static void check_completions(void)
{
	struct ibv_wc wc;

	while (cq_pop(rig.cq, 1, &wc)) {
		assert_in_range(wc.status, IBV_WC_SUCCESS, IBV_WC_TM_RNDV_INCOMPLETE);
		assert_int_not_equal(wc.qp_num, bystander->ib.qp_num);
		/* the wr_id of a receive is its length; a WRITE's length is not of its memory */
		if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id < 1000)
			assert_in_range(wc.byte_len, 0, wc.wr_id);
	}
}

static void mend(struct qp *qp)
{
	if (qp_state(qp) == IBV_QPS_ERR || qp_state(qp) == IBV_QPS_SQE) {
		failures++;
		rig_reset(qp);
		connect_target(qp);
	}
	post_receives(qp);
}

static void renew_link(void)
{
	breaks++;
	for (int i = 0; i < 3; i++)
		rig_reset(targets[i]);
	fetched += far.link->fetched;
	far_destroy(&far);
	make_far();
	for (int i = 0; i < 3; i++)
		connect_target(targets[i]);
}

/* Two QPs of this process exchange a message over the link to itself. */
static void talk(void)
{
	static uint8_t from[32], to[32];
	struct mr *mr = rig_mr(&rig, from, sizeof(from), 0),
		  *receive = rig_mr(&rig, to, sizeof(to), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge here = { .addr = (uintptr_t)from, .length = 32, .lkey = mr->ib.lkey };
	struct ibv_sge there = { .addr = (uintptr_t)to, .length = 32, .lkey = receive->ib.lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &here, .num_sge = 1 };
	struct ibv_wc wc[3];

	memset(from, (int)++said, sizeof(from));
	rig_post_receive(right, 0, &there);
	rig_post_send(left, &wr);
	rig_progress(rig.self);
	assert_int_equal(cq_pop(rig.cq, 3, wc), 2);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	assert_int_equal(wc[1].status, IBV_WC_SUCCESS);
	assert_memory_equal(to, from, sizeof(to));
	assert_int_equal(mr_destroy(mr), 0);
	assert_int_equal(mr_destroy(receive), 0);
}

static void connect_to(struct qp *qp, uint32_t slot, uint32_t qpn)
{
	rig_connect(qp, &(struct rig_connection){ .slot = slot, .qpn = qpn, .access = REMOTE });
}

static void start(void)
{
	static const enum ibv_qp_type types[3] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	rig_create(&rig);
	make_far();
	far_create(&other, OTHER_SLOT);
	memset(memory, CANARY, sizeof(memory));
	open_mr = rig_mr(&rig, zone(OPEN), ZONE, IBV_ACCESS_LOCAL_WRITE | REMOTE);
	readable_mr = rig_mr(&rig, zone(READABLE), ZONE, IBV_ACCESS_REMOTE_READ);
	receiving_mr = rig_mr(&rig, zone(RECEIVING), ZONE, IBV_ACCESS_LOCAL_WRITE);
	for (int i = 0; i < 3; i++) {
		targets[i] = rig_qp(&rig, types[i]);
		connect_target(targets[i]);
		post_receives(targets[i]);
	}
	bystander = rig_qp(&rig, IBV_QPT_RC);
	connect_to(bystander, OTHER_SLOT, 0);
	rig_post_receive(bystander, 1, NULL);
	left = rig_qp(&rig, IBV_QPT_RC);
	right = rig_qp(&rig, IBV_QPT_RC);
	connect_to(left, RIG_SLOT, right->ib.qp_num);
	connect_to(right, RIG_SLOT, left->ib.qp_num);
}

static void finish(void)
{
	struct qp *qps[] = { targets[0], targets[1], targets[2], bystander, left, right };

	for (int i = 0; i < 6; i++)
		assert_int_equal(qp_destroy(qps[i]), 0);
	assert_int_equal(mr_destroy(open_mr), 0);
	assert_int_equal(mr_destroy(readable_mr), 0);
	assert_int_equal(mr_destroy(receiving_mr), 0);
	far_destroy(&far);
	far_destroy(&other);
	/* its QPs are gone; so are the events that nobody fetched */
	rig_destroy(&rig);
}

static void one_turn(void)
{
	for (uint32_t n = below(8); n; n--)
		send_some(targets[below(3)]);
	if (below(3) == 0)
		post_sends(targets[below(3)]);
	if (below(12) == 0)
		scribble();
	for (int turns = 0; turns < 4 && progress_link(far.link); turns++)
		;
	if (below(4) == 0)
		shm_retry_run(now_ns() + below(2) * 1000000000ull);
	if (below(3)) {
		struct record_header header;

		while (far_next(&far, &header))
			;
		far_acknowledge(&far);
	}
	check_completions();
	if (far.link->rx.broken || far.link->tx.broken || far.rx.broken || below(100) == 0)
		renew_link();
	for (int i = 0; i < 3; i++)
		mend(targets[i]);
	check_completions();
}

static void test_whatever_a_peer_writes(void **state)
{
	struct shm_qp path;
	struct qp before;

	start();
	for (uint32_t i = 0; i < RECORD_PAYLOAD_MAX; i++)
		payload[i] = (uint8_t)below(256);
	before = *bystander;
	path = *shm_of(bystander);
	while (records < RECORDS) {
		one_turn();
		check_memory();
		talk();
		assert_memory_equal(shm_of(bystander), &path, sizeof(path));
		assert_int_equal(qp_state(bystander), IBV_QPS_RTS);
		assert_memory_equal(&bystander->attr, &before.attr, sizeof(before.attr));
		assert_memory_equal(&bystander->sq, &before.sq, sizeof(before.sq));
		assert_int_equal(bystander->own_rq.head, before.own_rq.head);
		assert_int_equal(bystander->comm_established, before.comm_established);
	}
	printf("%u records, %u links, %u failures of QPs, %u messages of others, %u bytes "
	       "fetched\n",
	       records, breaks + 1, failures, said, (uint32_t)fetched);
	assert_true(fetched > 1000);
	assert_true(failures > 100);
	assert_true(breaks > 10);
	finish();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whatever_a_peer_writes),
	};

	random_state = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
	printf("seed %u\n", random_state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
