/* SPDX-License-Identifier: BSD-2-Clause */
/* Each error of a peer ends in its TERMINATE; each TERMINATE of a peer in the status of its
 * request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/bytes.h"
#include "iwarp/crc32c.h"
#include "rig.h"

#define ALL	 (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define NO_EVENT -1

enum key { KEY_GOOD, KEY_NONE, KEY_OF_OTHER_PD, KEY_WITHOUT_RIGHT, KEYS };

/* A segment that end 0 sends, and what end 1 says of it. */
static const struct row {
	const char *name;
	enum terminate expected;
	int event;	  /* at end 1 */
	uint32_t receive; /* bytes of a receive at end 1; 0: none */
	bool bad_receive; /* its key is unknown */
	enum ibv_wc_status receive_status;
	struct segment segment; /* ddp_version and rdmap_version: 0 is 1 */
	enum key key;
	uint32_t payload;
	uint32_t read_size;
	int64_t at; /* from the start of the region: TO of a WRITE, source of a READ */
	bool without_extensions;
	uint8_t atomic_code;
	uint64_t atomic_mask;
} rows[] = {
	{ "version of DDP, tagged", TERMINATE_DDP_TAGGED_VERSION, IBV_EVENT_QP_FATAL,
	  .segment = { .opcode = RDMAP_WRITE, .tagged = true, .last = true, .ddp_version = 2 } },
	{ "version of DDP, untagged", TERMINATE_DDP_UNTAGGED_VERSION, IBV_EVENT_QP_FATAL,
	  .segment = { .opcode = RDMAP_SEND, .last = true, .msn = 1, .ddp_version = 3 } },
	{ "version of RDMAP", TERMINATE_RDMAP_VERSION, IBV_EVENT_QP_FATAL,
	  .segment = { .opcode = RDMAP_SEND, .last = true, .msn = 1, .rdmap_version = 2 } },
	{ "opcode", TERMINATE_RDMAP_OPCODE, IBV_EVENT_QP_FATAL,
	  .segment = { .opcode = 12, .last = true, .msn = 1 } },
	{ "tagged SEND", TERMINATE_RDMAP_OPCODE, IBV_EVENT_QP_FATAL,
	  .segment = { .opcode = RDMAP_SEND, .tagged = true, .last = true } },
	{ "untagged WRITE", TERMINATE_RDMAP_OPCODE, IBV_EVENT_QP_FATAL,
	  .segment = { .opcode = RDMAP_WRITE, .last = true, .msn = 1 } },
	{ "immediate data unasked for", TERMINATE_RDMAP_OPCODE, IBV_EVENT_QP_FATAL, .payload = 8,
	  .without_extensions = true,
	  .segment = { .opcode = RDMAP_IMMEDIATE, .last = true, .msn = 1 } },
	{ "queue", TERMINATE_DDP_QN, IBV_EVENT_QP_FATAL,
	  .segment = { .opcode = RDMAP_SEND, .last = true, .queue = 1, .msn = 1 } },
	{ "unknown queue", TERMINATE_DDP_QN, IBV_EVENT_QP_FATAL,
	  .segment = { .opcode = RDMAP_SEND, .last = true, .queue = 77, .msn = 1 } },
	{ "MSN", TERMINATE_DDP_MSN, IBV_EVENT_QP_FATAL,
	  .segment = { .opcode = RDMAP_SEND, .last = true, .msn = 2 } },
	{ "MO", TERMINATE_DDP_MO, IBV_EVENT_QP_FATAL,
	  .segment = { .opcode = RDMAP_SEND, .last = true, .msn = 1, .mo = 4 } },
	{ "no receive", TERMINATE_DDP_NO_BUFFER, IBV_EVENT_QP_FATAL, .payload = 4,
	  .segment = { .opcode = RDMAP_SEND, .last = true, .msn = 1 } },
	{ "no receive for immediate data", TERMINATE_DDP_NO_BUFFER, IBV_EVENT_QP_FATAL,
	  .payload = 8, .segment = { .opcode = RDMAP_IMMEDIATE, .last = true, .msn = 1 } },
	{ "receive too short", TERMINATE_DDP_TOO_LONG, NO_EVENT, .receive = 3,
	  .receive_status = IBV_WC_LOC_LEN_ERR, .payload = 4,
	  .segment = { .opcode = RDMAP_SEND, .last = true, .msn = 1 } },
	{ "receive's memory", TERMINATE_DDP_LOCAL, NO_EVENT, .receive = 100, .bad_receive = true,
	  .receive_status = IBV_WC_LOC_PROT_ERR, .payload = 4,
	  .segment = { .opcode = RDMAP_SEND, .last = true, .msn = 1 } },
	{ "invalidates no window", TERMINATE_RDMAP_INVALIDATE, NO_EVENT, .receive = 10,
	  .receive_status = IBV_WC_REM_INV_REQ_ERR, .key = KEY_NONE,
	  .segment = { .opcode = RDMAP_SEND_INV, .last = true, .msn = 1 } },
	{ "WRITE, no such key", TERMINATE_DDP_STAG, IBV_EVENT_QP_ACCESS_ERR, .payload = 4,
	  .key = KEY_NONE, .segment = { .opcode = RDMAP_WRITE, .tagged = true, .last = true } },
	{ "WRITE, key without right", TERMINATE_DDP_STAG, IBV_EVENT_QP_ACCESS_ERR, .payload = 4,
	  .key = KEY_WITHOUT_RIGHT,
	  .segment = { .opcode = RDMAP_WRITE, .tagged = true, .last = true } },
	{ "WRITE, bounds", TERMINATE_DDP_BOUNDS, IBV_EVENT_QP_ACCESS_ERR, .payload = 8,
	  .at = RIG_BYTES - 7, .segment = { .opcode = RDMAP_WRITE, .tagged = true, .last = true } },
	{ "WRITE, other PD", TERMINATE_DDP_STREAM, IBV_EVENT_QP_ACCESS_ERR, .payload = 8,
	  .key = KEY_OF_OTHER_PD,
	  .segment = { .opcode = RDMAP_WRITE, .tagged = true, .last = true } },
	{ "WRITE, TO wraps", TERMINATE_DDP_WRAP, IBV_EVENT_QP_FATAL, .payload = 8,
	  .segment = { .opcode = RDMAP_WRITE,
		       .tagged = true,
		       .last = true,
		       .to = UINT64_MAX - 6 } },
	{ "READ, no such key", TERMINATE_RDMAP_STAG, IBV_EVENT_QP_ACCESS_ERR, .read_size = 1,
	  .key = KEY_NONE,
	  .segment = { .opcode = RDMAP_READ_REQUEST, .last = true, .queue = 1, .msn = 1 } },
	{ "READ, bounds", TERMINATE_RDMAP_BOUNDS, IBV_EVENT_QP_ACCESS_ERR, .read_size = RIG_BYTES,
	  .at = 1,
	  .segment = { .opcode = RDMAP_READ_REQUEST, .last = true, .queue = 1, .msn = 1 } },
	{ "READ, other PD", TERMINATE_RDMAP_STREAM, IBV_EVENT_QP_ACCESS_ERR, .read_size = 1,
	  .key = KEY_OF_OTHER_PD,
	  .segment = { .opcode = RDMAP_READ_REQUEST, .last = true, .queue = 1, .msn = 1 } },
	{ "READ, key without right", TERMINATE_RDMAP_ACCESS, IBV_EVENT_QP_ACCESS_ERR,
	  .read_size = 1, .key = KEY_WITHOUT_RIGHT,
	  .segment = { .opcode = RDMAP_READ_REQUEST, .last = true, .queue = 1, .msn = 1 } },
	{ "READ request of 27 bytes", TERMINATE_DDP_TOO_LONG, IBV_EVENT_QP_FATAL, .payload = 27,
	  .segment = { .opcode = RDMAP_READ_REQUEST, .last = true, .queue = 1, .msn = 1 } },
	{ "READ request in two segments", TERMINATE_DDP_TOO_LONG, IBV_EVENT_QP_FATAL, .payload = 28,
	  .segment = { .opcode = RDMAP_READ_REQUEST, .queue = 1, .msn = 1 } },
	{ "response to nothing", TERMINATE_DDP_STAG, IBV_EVENT_QP_FATAL, .payload = 4,
	  .segment = { .opcode = RDMAP_READ_RESPONSE, .tagged = true, .last = true } },
	{ "atomic response to nothing", TERMINATE_RDMAP_OPERATION, IBV_EVENT_QP_FATAL,
	  .payload = 12,
	  .segment = { .opcode = RDMAP_ATOMIC_RESPONSE, .last = true, .queue = 3, .msn = 1 } },
	{ "atomic with a mask", TERMINATE_RDMAP_OPERATION, IBV_EVENT_QP_FATAL,
	  .atomic_code = ATOMIC_COMPARE_SWAP, .atomic_mask = 0xff,
	  .segment = { .opcode = RDMAP_ATOMIC_REQUEST, .last = true, .queue = 1, .msn = 1 } },
	{ "atomic of an unknown kind", TERMINATE_RDMAP_OPERATION, IBV_EVENT_QP_FATAL,
	  .atomic_code = 5, .atomic_mask = UINT64_MAX,
	  .segment = { .opcode = RDMAP_ATOMIC_REQUEST, .last = true, .queue = 1, .msn = 1 } },
	{ "atomic, no such key", TERMINATE_RDMAP_STAG, IBV_EVENT_QP_ACCESS_ERR, .key = KEY_NONE,
	  .atomic_code = ATOMIC_COMPARE_SWAP, .atomic_mask = UINT64_MAX,
	  .segment = { .opcode = RDMAP_ATOMIC_REQUEST, .last = true, .queue = 1, .msn = 1 } },
	{ "TERMINATE of two bytes", TERMINATE_DDP_TOO_LONG, IBV_EVENT_QP_FATAL, .payload = 2,
	  .segment = { .opcode = RDMAP_TERMINATE, .last = true, .queue = 2, .msn = 1 } },
};
#define ROWS (sizeof(rows) / sizeof(*rows))

static uint32_t keys[KEYS];
static struct pd *other_pd;
static struct mr *of_other_pd, *without_right;

static void make_keys(void)
{
	struct mr_spec spec = { .pd = rig[1].qp->pd,
				.addr = rig[1].memory,
				.length = RIG_BYTES,
				.iova = (uintptr_t)rig[1].memory };

	assert_int_equal(mr_create(&spec, &without_right), 0);
	assert_int_equal(pd_create(rig[1].qp->ib.context, &other_pd), 0);
	spec.pd = other_pd;
	spec.access = ALL | IBV_ACCESS_LOCAL_WRITE;
	assert_int_equal(mr_create(&spec, &of_other_pd), 0);
	keys[KEY_GOOD] = rig[1].mr->ib.rkey;
	keys[KEY_NONE] = 0x12345600;
	keys[KEY_OF_OTHER_PD] = of_other_pd->ib.rkey;
	keys[KEY_WITHOUT_RIGHT] = without_right->ib.rkey;
}

static int setup(void **state)
{
	rig_create(ALL);
	make_keys();
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(mr_destroy(of_other_pd), 0);
	assert_int_equal(mr_destroy(without_right), 0);
	assert_int_equal(pd_destroy(other_pd), 0);
	return rig_destroy(state);
}

/* The segment as an FPDU; returns its length. */
static size_t make_fpdu(const struct segment *segment, const void *payload, uint32_t bytes,
			uint8_t *to)
{
	unsigned header = segment_encode(segment, to + 2);

	if (segment->ddp_version)
		to[2] = (uint8_t)((to[2] & ~3) | segment->ddp_version);
	if (segment->rdmap_version)
		to[3] = (uint8_t)((to[3] & 0x3f) | segment->rdmap_version << 6);
	put16(to, (uint16_t)(header + bytes));
	memcpy(to + 2 + header, payload, bytes);
	memset(to + 2 + header + bytes, 0, 7);
	return fpdu_bytes(header + bytes);
}

static void send_row(const struct row *row)
{
	struct segment segment = row->segment;
	uint64_t address = (uintptr_t)rig[1].memory + (uint64_t)row->at;
	uint8_t payload[64] = { 0 }, fpdu[256];
	uint32_t bytes = row->payload;

	segment.stag = keys[row->key];
	if (segment.tagged && !segment.to)
		segment.to = address;
	if (segment.opcode == RDMAP_READ_REQUEST && !bytes) {
		struct read_request request = { 1, keys[row->key], row->read_size, 2, address };

		read_request_encode(&request, payload);
		bytes = READ_REQUEST_BYTES;
	}
	if (segment.opcode == RDMAP_ATOMIC_REQUEST) {
		struct atomic_request request = { .code = row->atomic_code,
						  .stag = keys[row->key],
						  .to = address,
						  .swap_mask = row->atomic_mask,
						  .compare_mask = row->atomic_mask };

		atomic_request_encode(&request, payload);
		bytes = ATOMIC_REQUEST_BYTES;
	}
	rig_inject(0, fpdu, make_fpdu(&segment, payload, bytes, fpdu));
}

/* The last FPDU of the end's stream is this TERMINATE; returns its payload. */
static struct terminate_received expect_terminate(unsigned end, enum terminate expected)
{
	const uint8_t *at = rig[end].bytes + rig[end].head;
	const uint8_t *stop = rig[end].bytes + rig[end].tail;
	struct terminate_received received;
	struct segment segment;
	uint32_t length;

	assert_true(stop - at >= 8);
	while (at + fpdu_bytes(get16(at)) < stop)
		at += fpdu_bytes(get16(at));
	length = get16(at);
	assert_ptr_equal(at + fpdu_bytes(length), stop);
	segment_decode(at + 2, &segment);
	assert_int_equal(segment.opcode, RDMAP_TERMINATE);
	assert_int_equal(segment.queue, QUEUE_TERMINATE);
	assert_int_equal(segment.msn, 1);
	assert_true(segment.last);
	assert_true(terminate_decode(at + 2 + UNTAGGED_BYTES, length - UNTAGGED_BYTES, &received));
	assert_string_equal(terminate_sentence(received.terminate), terminate_sentence(expected));
	return received;
}

static void check_row(const struct row *row)
{
	struct iwarp_options options = rig_options();
	struct terminate_received received;

	print_message("  %s\n", row->name);
	options.mpa.extensions = !row->without_extensions;
	rig_connect(&options);
	if (row->bad_receive)
		rig[1].mr->ib.lkey ^= 1;
	if (row->receive)
		rig_receive(1, 5, row->receive);
	if (row->bad_receive)
		rig[1].mr->ib.lkey ^= 1;
	send_row(row);
	rig_read(1);
	received = expect_terminate(1, row->expected);
	assert_true(received.has_segment);
	assert_int_equal(received.segment.opcode, row->segment.opcode);
	assert_int_equal(received.segment.msn, row->segment.msn);
	assert_int_equal(qp_state(rig[1].qp), IBV_QPS_ERR);
	assert_int_equal(rig_has_event(), row->event != NO_EVENT);
	if (row->event != NO_EVENT)
		assert_int_equal(rig_event(), row->event);
	if (row->receive)
		rig_expect(1, 5, row->receive_status);
	assert_true(rig_is_quiet(1));
	/* the other end reads it, and closes; then this one is done */
	rig_run();
	assert_int_equal(rig[0].end, IWARP_END_TERMINATED);
	assert_int_equal(rig_read(1), IWARP_OVER);
	assert_int_equal(rig[1].end, IWARP_END_ERROR);
	assert_int_equal(rig[1].ends, 1);
	for (size_t i = 0; i < RIG_BYTES; i += 999)
		assert_int_equal(rig[1].memory[i], 0xee);
}

static void test_bad_segments(void **state)
{
	for (size_t i = 0; i < ROWS; i++) {
		check_row(&rows[i]);
		assert_int_equal(teardown(NULL), 0);
		setup(NULL);
	}
}

/* The header comes alone, so the payload would be received in place: nothing of it is stored. */
static void test_write_over_the_end(void **state)
{
	struct ibv_sge sge = { (uintptr_t)rig[0].memory, 8000, rig[0].mr->ib.lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { (uintptr_t)rig[1].memory + RIG_BYTES - 7996,
					       rig[1].mr->ib.rkey } };
	struct iwarp_options options = rig_options();

	options.mulpdu = 20000;
	rig_connect(&options);
	rig_post_wr(0, &wr);
	rig[1].piece = FPDU_LENGTH_BYTES + TAGGED_BYTES;
	rig_read(1);
	rig[1].piece = SIZE_MAX;
	rig_read(1);
	expect_terminate(1, TERMINATE_DDP_BOUNDS);
	for (size_t i = RIG_BYTES - 8000; i < RIG_BYTES; i++)
		assert_int_equal(rig[1].memory[i], 0xee);
}

/* A third READ request, if two are the limit. */
static void test_too_many_reads(void **state)
{
	struct iwarp_options options = rig_options();
	struct segment segment = { .opcode = RDMAP_READ_REQUEST, .last = true, .queue = 1 };
	uint8_t payload[READ_REQUEST_BYTES], fpdu[256];
	struct read_request request = { 1, rig[1].mr->ib.rkey, 100, 2, (uintptr_t)rig[1].memory };

	options.mpa.ord = 2;
	rig_connect(&options);
	rig[1].room = 0;
	read_request_encode(&request, payload);
	for (segment.msn = 1; segment.msn <= 3; segment.msn++)
		rig_inject(0, fpdu, make_fpdu(&segment, payload, sizeof(payload), fpdu));
	rig_read(1);
	assert_int_equal(qp_state(rig[1].qp), IBV_QPS_ERR);
	rig[1].room = SIZE_MAX;
	lock_acquire(&rig[1].qp->lock);
	iwarp_on_writable(rig[1].qp);
	lock_release(&rig[1].qp->lock);
	expect_terminate(1, TERMINATE_DDP_NO_BUFFER);
}

static void test_short_ulpdu(void **state)
{
	static const uint8_t fpdu[12] = { 0, 6, 0x41, 0x43 };

	rig_connect(NULL);
	rig_inject(0, fpdu, sizeof(fpdu));
	rig_read(1);
	expect_terminate(1, TERMINATE_MPA_MARKER);
}

/* One bit of an FPDU is wrong: nothing of it is stored. */
static void test_bad_crc(void **state)
{
	struct iwarp_options options = rig_options();

	options.mpa.crc = true;
	rig_connect(&options);
	rig_post(0, IBV_WR_RDMA_WRITE, 1000, 1);
	rig[0].bytes[500] ^= 4;
	rig_read(1);
	expect_terminate(1, TERMINATE_MPA_CRC);
	assert_int_equal(rig[1].memory[0], 0xee);
	assert_int_equal(rig_event(), IBV_EVENT_QP_FATAL);
}

static void test_bad_marker(void **state)
{
	struct iwarp_options options = rig_options();

	options.mpa.sends_markers = true;
	rig_connect(&options);
	rig_post(0, IBV_WR_RDMA_WRITE, 1000, 1);
	assert_int_equal(get16(rig[0].bytes + 512 + 2), 508);
	put16(rig[0].bytes + 512 + 2, 504);
	rig_read(1);
	expect_terminate(1, TERMINATE_MPA_MARKER);
}

/* The CRC that siw, iSCSI and tshark expect: RFC 3720 B.4. */
static void test_crc32c(void **state)
{
	uint8_t bytes[32] = { 0 }, stored[4];
	static const uint8_t of_zeros[4] = { 0xaa, 0x36, 0x91, 0x8a };
	static const uint8_t of_ones[4] = { 0x43, 0xab, 0xa8, 0x62 };
	static const uint8_t of_ascending[4] = { 0x4e, 0x79, 0xdd, 0x46 };

	assert_int_equal(crc32c("123456789", 9), 0xe3069283);
	crc32c_put(stored, crc32c(bytes, sizeof(bytes)));
	assert_memory_equal(stored, of_zeros, 4);
	memset(bytes, 0xff, sizeof(bytes));
	crc32c_put(stored, crc32c(bytes, sizeof(bytes)));
	assert_memory_equal(stored, of_ones, 4);
	for (uint8_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = i;
	crc32c_put(stored, crc32c(bytes, sizeof(bytes)));
	assert_memory_equal(stored, of_ascending, 4);
}

/* Layer, type and code of each row, as the RFCs have them, there and back. */
static void test_codes(void **state)
{
	static const struct {
		enum terminate terminate;
		uint8_t first, code;
	} codes[] = {
#define X(name, layer, type, code, status, sentence)                                               \
	{ TERMINATE_##name, (layer) << 4 | (type), code },
#include "iwarp/terminate.def"
#undef X
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		uint8_t bytes[TERMINATE_BYTES_MAX];
		struct terminate_received received;

		assert_int_equal(terminate_encode(bytes, codes[i].terminate, 0, NULL, 0), 4);
		assert_int_equal(bytes[0], codes[i].first);
		assert_int_equal(bytes[1], codes[i].code);
		assert_true(terminate_decode(bytes, 4, &received));
		assert_int_equal(received.terminate, codes[i].terminate);
		assert_false(received.has_segment);
	}
}

/* A peer's TERMINATE that names a READ ends it with the status of the table; all else is flushed.
 */
static void terminate_read(enum terminate terminate)
{
	struct segment refused = {
		.opcode = RDMAP_READ_REQUEST, .last = true, .queue = 1, .msn = 2
	};
	struct segment segment = { .opcode = RDMAP_TERMINATE, .last = true, .queue = 2, .msn = 1 };
	uint8_t header[UNTAGGED_BYTES + READ_REQUEST_BYTES] = { 0 };
	uint8_t bytes[TERMINATE_BYTES_MAX], fpdu[256];
	size_t n;

	rig_connect(NULL);
	rig_receive(0, 9, 100);
	for (int i = 1; i <= 3; i++)
		rig_post(0, IBV_WR_RDMA_READ, 100, i);
	segment_encode(&refused, header);
	n = terminate_encode(bytes, terminate, 46, header, sizeof(header));
	rig_inject(1, fpdu, make_fpdu(&segment, bytes, (uint32_t)n, fpdu));
	rig_read(0);
	rig_expect(0, 1, IBV_WC_WR_FLUSH_ERR);
	rig_expect(0, 2, terminate_status(terminate));
	rig_expect(0, 3, IBV_WC_WR_FLUSH_ERR);
	rig_expect(0, 9, IBV_WC_WR_FLUSH_ERR);
	assert_false(rig_has_event());
	assert_int_equal(iwarp_end_of(rig[0].qp), IWARP_END_NONE);
	rig_run();
	assert_int_equal(iwarp_end_of(rig[0].qp), IWARP_END_TERMINATED);
}

static void test_received(void **state)
{
	for (int i = TERMINATE_NONE + 1; i < TERMINATES; i++) {
		terminate_read((enum terminate)i);
		assert_int_equal(teardown(NULL), 0);
		setup(NULL);
	}
}

/* One that names no request that waits: an event. */
static void test_received_without_segment(void **state)
{
	struct segment segment = { .opcode = RDMAP_TERMINATE, .last = true, .queue = 2, .msn = 1 };
	static const uint8_t unknown[4] = { 0x77, 0x77 };
	uint8_t fpdu[256];

	rig_connect(NULL);
	rig_inject(1, fpdu, make_fpdu(&segment, unknown, sizeof(unknown), fpdu));
	rig_read(0);
	assert_int_equal(rig_event(), IBV_EVENT_QP_FATAL);
	assert_int_equal(qp_state(rig[0].qp), IBV_QPS_ERR);
}

/* A part of the first SEND has left, nothing of the second. The peer refuses one of them. */
static void refuse_a_send(uint32_t msn)
{
	struct segment refused = { .opcode = RDMAP_SEND, .last = true, .msn = msn };
	struct segment segment = { .opcode = RDMAP_TERMINATE, .last = true, .queue = 2, .msn = 1 };
	uint8_t header[UNTAGGED_BYTES], bytes[TERMINATE_BYTES_MAX], fpdu[256];
	size_t n;

	rig_connect(NULL);
	rig[0].room = 200;
	rig_post(0, IBV_WR_SEND, 3000, 1);
	rig_post(0, IBV_WR_SEND, 3000, 2);
	segment_encode(&refused, header);
	n = terminate_encode(bytes, TERMINATE_DDP_NO_BUFFER, 3018, header, sizeof(header));
	rig_inject(1, fpdu, make_fpdu(&segment, bytes, (uint32_t)n, fpdu));
	rig_read(0);
}

static void test_blames_a_send(void **state)
{
	refuse_a_send(1);
	rig_expect(0, 1, terminate_status(TERMINATE_DDP_NO_BUFFER));
	rig_expect(0, 2, IBV_WC_WR_FLUSH_ERR);
	assert_false(rig_has_event());
}

static void test_blames_no_send_that_has_not_begun(void **state)
{
	refuse_a_send(2);
	rig_expect(0, 1, IBV_WC_WR_FLUSH_ERR);
	rig_expect(0, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig_event(), IBV_EVENT_QP_FATAL);
}

/* A request with a bad L_Key: LOC_PROT_ERR, and the peer learns of a local error. */
static void test_local_error(void **state)
{
	struct ibv_sge sge = { (uintptr_t)rig[0].memory, 5000, 0xdead00 };
	struct ibv_send_wr wr = {
		.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
	};

	rig_connect(NULL);
	rig_receive(1, 9, 100);
	rig_receive(1, 10, 100);
	rig_post(0, IBV_WR_RDMA_READ, 100, 1);
	rig_post_wr(0, &wr);
	rig_post(0, IBV_WR_SEND, 100, 3);
	assert_true(rig_is_quiet(0)); /* after the READ */
	rig_read(1);
	rig_read(0);
	rig_expect(0, 1, IBV_WC_SUCCESS);
	rig_expect(0, 2, IBV_WC_LOC_PROT_ERR);
	rig_expect(0, 3, IBV_WC_WR_FLUSH_ERR);
	expect_terminate(0, TERMINATE_RDMAP_LOCAL);
	rig_run();
	rig_expect(1, 9, IBV_WC_WR_FLUSH_ERR);
	rig_expect(1, 10, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig[0].end, IWARP_END_ERROR);
	assert_int_equal(rig[1].end, IWARP_END_TERMINATED);
}

/* What this connection has not. */
static void test_unsupported(void **state)
{
	static const enum ibv_wr_opcode unsupported[] = { IBV_WR_RDMA_WRITE_WITH_IMM,
							  IBV_WR_SEND_WITH_IMM,
							  IBV_WR_ATOMIC_WRITE };
	struct iwarp_options options = rig_options();

	for (int i = 0; i < 3; i++) {
		options.mpa.extensions = i > 0;
		rig_connect(&options);
		rig_post(0, unsupported[i], 8, 1);
		rig_expect(0, 1, IBV_WC_LOC_QP_OP_ERR);
		expect_terminate(0, TERMINATE_RDMAP_LOCAL);
		assert_int_equal(teardown(NULL), 0);
		setup(NULL);
	}
	options.mpa.ord = 0;
	rig_connect(&options);
	rig_post(0, IBV_WR_RDMA_READ, 8, 1);
	rig_expect(0, 1, IBV_WC_LOC_QP_OP_ERR);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_bad_segments),
		TEST(test_write_over_the_end),
		TEST(test_too_many_reads),
		TEST(test_short_ulpdu),
		TEST(test_bad_crc),
		TEST(test_bad_marker),
		cmocka_unit_test(test_crc32c),
		cmocka_unit_test(test_codes),
		TEST(test_received),
		TEST(test_received_without_segment),
		TEST(test_blames_a_send),
		TEST(test_blames_no_send_that_has_not_begun),
		TEST(test_local_error),
		TEST(test_unsupported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
