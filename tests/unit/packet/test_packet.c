/* SPDX-License-Identifier: BSD-2-Clause */
/* Every opcode, valid or not, every length, and the fields of another implementation's packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "packet/packet.h"
#include "vector.h"

static void assert_fields(const struct packet *is, const struct packet *should)
{
	struct packet a = *is;

	a.payload = NULL;
	assert_int_equal(a.opcode, should->opcode);
	assert_int_equal(a.pad, should->pad);
	assert_int_equal(a.solicited, should->solicited);
	assert_int_equal(a.migrated, should->migrated);
	assert_int_equal(a.fecn, should->fecn);
	assert_int_equal(a.becn, should->becn);
	assert_int_equal(a.ack_req, should->ack_req);
	assert_int_equal(a.original, should->original);
	assert_int_equal(a.gap_report, should->gap_report);
	assert_int_equal(a.pkey, should->pkey);
	assert_int_equal(a.dest_qpn, should->dest_qpn);
	assert_int_equal(a.psn.number, should->psn.number);
	assert_int_equal(a.va, should->va);
	assert_int_equal(a.rkey, should->rkey);
	assert_int_equal(a.length, should->length);
	assert_int_equal(a.swap_add, should->swap_add);
	assert_int_equal(a.compare, should->compare);
	assert_int_equal(a.atomic_result, should->atomic_result);
	assert_int_equal(a.syndrome, should->syndrome);
	assert_int_equal(a.msn, should->msn);
	assert_int_equal(a.imm, should->imm);
	assert_int_equal(a.invalidate_rkey, should->invalidate_rkey);
	assert_int_equal(a.qkey, should->qkey);
	assert_int_equal(a.src_qpn, should->src_qpn);
	assert_int_equal(a.xrc_srqn, should->xrc_srqn);
	assert_int_equal(a.flush_types, should->flush_types);
	assert_int_equal(a.flush_level, should->flush_level);
	assert_int_equal(a.payload_bytes, should->payload_bytes);
}

/* Each valid opcode is twice among the vectors, and no other. */
static void test_opcodes_are_those_of_the_vectors(void **state)
{
	unsigned seen[256] = { 0 };

	for (size_t i = 0; i < vector_count; i++)
		seen[vector_at(i)->opcode]++;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		assert_int_equal(seen[opcode], packet_opcode((uint8_t)opcode)->kind ? 2 : 0);
		if (!seen[opcode]) {
			assert_int_equal(packet_header_bytes((uint8_t)opcode), 0);
			continue;
		}
		assert_non_null(packet_opcode((uint8_t)opcode)->name);
		assert_in_range(packet_header_bytes((uint8_t)opcode), PACKET_BTH_BYTES,
				PACKET_HEADER_BYTES);
	}
}

static void test_decode_and_encode_vectors(void **state)
{
	for (size_t i = 0; i < vector_count; i++) {
		const struct vector *vector = vector_at(i);
		struct packet should = vector_fields(vector);
		uint8_t bytes[VECTOR_BYTES_MAX], header[PACKET_HEADER_BYTES];
		size_t length = vector_bytes(vector, bytes) - ICRC_BYTES;
		struct packet packet;
		unsigned header_bytes;

		assert_int_equal(packet_decode(bytes, length, &packet), PACKET_GOOD);
		assert_fields(&packet, &should);
		header_bytes = packet_header_bytes(vector->opcode);
		assert_int_equal(packet.payload - bytes, header_bytes);
		assert_int_equal(packet_encode(&should, header), header_bytes);
		assert_memory_equal(header, bytes, header_bytes);
	}
}

static void test_copy(void **state)
{
	struct packet from, to;

	memset(&from, 1, sizeof(from)); /* no field is 0 */
	memset(&to, 0, sizeof(to));
	packet_copy(&to, &from);
	assert_fields(&to, &from);
	assert_true(to.migrated && to.fecn && to.becn);
	assert_ptr_equal(to.payload, from.payload);
}

/* A copy of exactly that size, so that a sanitizer detects a read beyond it. */
static enum packet_error decode_exactly(const uint8_t *bytes, size_t length)
{
	uint8_t *exact = test_malloc(length + 1);
	enum packet_error error;
	struct packet packet;

	memcpy(exact + 1, bytes, length);
	error = packet_decode(exact + 1, length, &packet);
	test_free(exact);
	return error;
}

static void test_truncated(void **state)
{
	for (size_t i = 0; i < vector_count; i++) {
		const struct vector *vector = vector_at(i);
		uint8_t bytes[VECTOR_BYTES_MAX];
		size_t length = vector_bytes(vector, bytes) - ICRC_BYTES;
		size_t header_bytes = packet_header_bytes(vector->opcode);

		for (size_t cut = 0; cut < length; cut++) {
			enum packet_error error = decode_exactly(bytes, cut);

			if (cut < header_bytes + vector->pad)
				assert_int_equal(error, PACKET_TOO_SHORT);
			else
				assert_int_equal(error, (cut - header_bytes) % 4 ? PACKET_BAD_LENGTH
										 : PACKET_GOOD);
		}
	}
}

static void test_refused(void **state)
{
	static const struct {
		uint8_t bytes[16];
		size_t length;
		enum packet_error error;
	} rows[] = {
		{ { 0x04, 0x00, 0xff, 0xff }, 12, PACKET_GOOD },
		{ { 0x04, 0x00, 0x7f, 0xff }, 12, PACKET_GOOD }, /* a limited member */
		{ { 0x04, 0x01, 0xff, 0xff }, 12, PACKET_BAD_VERSION },
		{ { 0x04, 0x0f, 0xff, 0xff }, 12, PACKET_BAD_VERSION },
		{ { 0x04, 0x00, 0xff, 0xfe }, 12, PACKET_BAD_PKEY },
		{ { 0x04, 0x00, 0x00, 0x00 }, 12, PACKET_BAD_PKEY },
		{ { 0x15, 0x00, 0xff, 0xff }, 12, PACKET_BAD_OPCODE },
		{ { 0x04, 0x10, 0xff, 0xff }, 12, PACKET_TOO_SHORT }, /* less than its pad */
		{ { 0x04, 0x30, 0xff, 0xff }, 16, PACKET_GOOD },
		{ { 0x04, 0x00, 0xff, 0xff }, 15, PACKET_BAD_LENGTH },
		{ { 0x11, 0x00, 0xff, 0xff }, 16, PACKET_GOOD },
		{ { 0x11, 0x10, 0xff, 0xff }, 16, PACKET_TOO_SHORT },
	};
	uint8_t acknowledge[20] = { 0x11, 0x00, 0xff, 0xff };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(decode_exactly(rows[i].bytes, rows[i].length), rows[i].error);
	assert_int_equal(decode_exactly(acknowledge, 20), PACKET_BAD_LENGTH);
}

/* Reserved bits are ignored, and sent as 0 (IBA 9.2), but for those that are ours. */
static void test_reserved_bits(void **state)
{
	const uint8_t bytes[12] = { 0x04, 0, 0xff, 0xff, 0x3f, 1, 2, 3, 0x7a, 4, 5, 6 };
	uint8_t header[PACKET_HEADER_BYTES];
	struct packet packet;

	assert_int_equal(packet_decode(bytes, sizeof(bytes), &packet), PACKET_GOOD);
	assert_false(packet.fecn || packet.becn || packet.ack_req || packet.original);
	assert_int_equal(packet.dest_qpn, 0x010203);
	assert_int_equal(packet.psn.number, 0x040506);
	packet_encode(&packet, header);
	assert_int_equal(header[4], 0);
	assert_int_equal(header[8], 0);
	packet.original = true;
	packet_encode(&packet, header);
	assert_int_equal(header[8], 1);
	assert_int_equal(packet_decode(header, sizeof(bytes), &packet), PACKET_GOOD);
	assert_true(packet.original && !packet.ack_req);
	header[8] = 2; /* that of a response */
	assert_int_equal(packet_decode(header, sizeof(bytes), &packet), PACKET_GOOD);
	assert_false(packet.original);
	packet.gap_report = true;
	packet_encode(&packet, header);
	assert_int_equal(header[8], 4);
	assert_int_equal(packet_decode(header, sizeof(bytes), &packet), PACKET_GOOD);
	assert_true(packet.gap_report && !packet.original);
	header[8] = 8;
	assert_int_equal(packet_decode(header, sizeof(bytes), &packet), PACKET_GOOD);
	assert_false(packet.gap_report);
}

static void test_reserved_bits_of_response(void **state)
{
	uint8_t bytes[20] = { 0x10, 0, 0xff, 0xff, 0, 1, 2, 3, 0x75, 4, 5, 6 };
	uint8_t header[PACKET_HEADER_BYTES];
	struct packet packet;

	assert_int_equal(packet_decode(bytes, sizeof(bytes), &packet), PACKET_GOOD);
	/* those of a request come back */
	assert_false(packet.original || packet.gap_report);
	packet.original = true;
	packet_encode(&packet, header);
	assert_int_equal(header[8], 2);
	assert_int_equal(packet_decode(header, sizeof(bytes), &packet), PACKET_GOOD);
	assert_true(packet.original && !packet.gap_report);
	header[8] = 8;
	assert_int_equal(packet_decode(header, sizeof(bytes), &packet), PACKET_GOOD);
	assert_true(packet.gap_report && !packet.original);
}

static void test_find_opcode(void **state)
{
	const unsigned carried = PACKET_HAS_IMM | PACKET_HAS_IETH;

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		const struct packet_opcode *row = packet_opcode((uint8_t)opcode);

		if (row->kind)
			assert_int_equal(packet_find_opcode(packet_service((uint8_t)opcode),
							    row->kind, row->first, row->last,
							    row->headers & carried),
					 opcode);
	}
	assert_int_equal(packet_find_opcode(PACKET_UC, OPERATION_SEND, true, true, PACKET_HAS_IETH),
			 -1);
	assert_int_equal(packet_find_opcode(PACKET_UC, OPERATION_READ, true, true, 0), -1);
	assert_int_equal(packet_find_opcode(PACKET_UD, OPERATION_SEND, true, false, 0), -1);
	assert_int_equal(packet_find_opcode(PACKET_RC, OPERATION_SEND, true, false, PACKET_HAS_IMM),
			 -1);
	assert_int_equal(packet_find_opcode(PACKET_RD, OPERATION_SEND, true, true, 0), -1);
}

/* The first row of the table that fits. */
static int search(unsigned service, unsigned kind, bool first, bool last, unsigned headers)
{
	const unsigned carried = PACKET_HAS_IMM | PACKET_HAS_IETH;

	for (unsigned opcode = service << 5; opcode < (service + 1) << 5; opcode++) {
		const struct packet_opcode *row = packet_opcode((uint8_t)opcode);

		if (row->kind == kind && row->first == first && row->last == last &&
		    (row->headers & carried) == (headers & carried))
			return (int)opcode;
	}
	return -1;
}

static void test_find_any_opcode(void **state)
{
	const unsigned sets[] = { 0, PACKET_HAS_IMM, PACKET_HAS_IETH,
				  PACKET_HAS_IMM | PACKET_HAS_IETH, PACKET_HAS_RETH };

	for (unsigned service = 0; service < 8; service++)
		for (unsigned kind = 1; kind < 64; kind++)
			for (unsigned i = 0; i < 4 * sizeof(sets) / sizeof(sets[0]); i++)
				assert_int_equal(packet_find_opcode(service, kind, i & 1, i & 2,
								    sets[i / 4]),
						 search(service, kind, i & 1, i & 2, sets[i / 4]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opcodes_are_those_of_the_vectors),
		cmocka_unit_test(test_decode_and_encode_vectors),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_reserved_bits),
		cmocka_unit_test(test_reserved_bits_of_response),
		cmocka_unit_test(test_find_opcode),
		cmocka_unit_test(test_find_any_opcode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
