/* SPDX-License-Identifier: BSD-2-Clause */
/* The ICRC of another implementation's packets, each identification, and each single damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "packet/icrc.h"
#include "vector.h"

static uint32_t last_word(const uint8_t *bytes, size_t length)
{
	const uint8_t *at = bytes + length - ICRC_BYTES;

	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	       (uint32_t)at[3] << 24;
}

static void append(uint8_t *bytes, size_t length, uint32_t icrc)
{
	for (int i = 0; i < ICRC_BYTES; i++)
		bytes[length + i] = (uint8_t)(icrc >> 8 * i);
}

static void test_compute_vectors(void **state)
{
	for (size_t i = 0; i < vector_count; i++) {
		const struct vector *vector = vector_at(i);
		struct icrc_path path = vector_path(vector);
		uint8_t bytes[VECTOR_BYTES_MAX];
		size_t length = vector_bytes(vector, bytes);
		size_t header_bytes = packet_header_bytes(vector->opcode);
		uint8_t *payload = bytes + header_bytes;

		/* in three pieces, one of them empty, wherever the cut is */
		for (size_t cut = 0; cut <= vector->payload_bytes; cut += 1 + cut / 3) {
			struct iovec pieces[] = { { payload, cut },
						  { NULL, 0 },
						  { payload + cut, vector->payload_bytes - cut } };

			assert_int_equal(icrc_compute(NULL, &path, vector->identification, bytes,
						      header_bytes, pieces, 3, vector->pad),
					 last_word(bytes, length));
		}
		/* as one long header */
		assert_int_equal(icrc_compute(NULL, &path, vector->identification, bytes,
					      length - ICRC_BYTES, NULL, 0, 0),
				 last_word(bytes, length));
	}
}

static void test_check_vectors(void **state)
{
	for (size_t i = 0; i < vector_count; i++) {
		const struct vector *vector = vector_at(i);
		struct icrc_path path = vector_path(vector);
		uint8_t bytes[VECTOR_BYTES_MAX];
		size_t length = vector_bytes(vector, bytes);
		uint16_t identification = 0;

		assert_true(icrc_check(NULL, &path, bytes, length, &identification));
		assert_int_equal(identification, vector->identification);
		assert_true(icrc_check(NULL, &path, bytes, length, &identification));
		assert_int_equal(identification, vector->identification);
		bytes[4] ^= 0xc0; /* FECN and BECN are not covered */
		assert_true(icrc_check(NULL, &path, bytes, length, &identification));
	}
}

static struct icrc_path make_path(bool v6)
{
	struct vector vector = { .v6 = v6 };

	return vector_path(&vector);
}

static void test_each_identification(void **state)
{
	static const size_t lengths[] = { 12, 16, 268, 1036, 4124, 65503 };
	static uint8_t bytes[65536];
	struct icrc_path path = make_path(false);

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t length = lengths[i];
		unsigned step = length > 2000 ? 251 : 1;

		for (unsigned id = 0; id < 65536; id += step) {
			uint16_t found = (uint16_t)(id * 7 + 1);

			append(bytes, length,
			       icrc_compute(NULL, &path, (uint16_t)id, bytes, length, NULL, 0, 0));
			assert_true(icrc_check(NULL, &path, bytes, length + ICRC_BYTES, &found));
			assert_int_equal(found, id);
		}
	}
}

/*
 * Any damage confined to 16 bits in a row is found: it would have to equal, as a polynomial, a
 * change of the identification, which is 16 bits at another place.
 */
static void test_damage(void **state)
{
	for (size_t i = 0; i < vector_count; i++) {
		const struct vector *vector = vector_at(i);
		struct icrc_path path = vector_path(vector);
		uint8_t bytes[VECTOR_BYTES_MAX];
		size_t length = vector_bytes(vector, bytes);

		for (size_t at = 0; at < length; at++) {
			for (unsigned bit = 1; bit < 256; bit <<= 1) {
				uint16_t identification = vector->identification;

				if (at == 4)
					continue;
				bytes[at] ^= (uint8_t)bit;
				assert_false(
					icrc_check(NULL, &path, bytes, length, &identification));
				assert_int_equal(identification, vector->identification);
				bytes[at] ^= (uint8_t)bit;
			}
		}
	}
}

static void test_wrong_path(void **state)
{
	const struct vector *vector = vector_at(0);
	uint8_t bytes[VECTOR_BYTES_MAX];
	size_t length = vector_bytes(vector, bytes);
	struct icrc_path path = vector_path(vector), wrong;
	uint16_t identification = 0;

	wrong = path;
	wrong.source[15] ^= 1;
	assert_false(icrc_check(NULL, &wrong, bytes, length, &identification));
	wrong = path;
	wrong.destination[12] ^= 0x80;
	assert_false(icrc_check(NULL, &wrong, bytes, length, &identification));
	wrong = path;
	wrong.source_port ^= 1;
	assert_false(icrc_check(NULL, &wrong, bytes, length, &identification));
	wrong = path;
	wrong.destination_port ^= 0x100;
	assert_false(icrc_check(NULL, &wrong, bytes, length, &identification));
	assert_true(icrc_check(NULL, &path, bytes, length, &identification));
}

static void test_lengths(void **state)
{
	static const uint8_t zeroes[70000];

	for (int v6 = 0; v6 < 2; v6++) {
		struct icrc_path path = make_path(v6);
		uint16_t identification = 0;

		for (size_t length = 0; length < sizeof(zeroes); length += length < 64 ? 1 : 997)
			assert_false(icrc_check(NULL, &path, zeroes, length, &identification));
	}
}

/* One memo for packets of all paths and lengths, taken in turns: each is as if it were alone. */
static void test_memo(void **state)
{
	struct icrc_memo memo = { 0 };

	for (size_t step = 1; step < 8; step++)
		for (size_t turn = 0; turn < 2 * vector_count; turn++) {
			/* some in a row, some in turns */
			const struct vector *vector =
				vector_at((turn / 2 + turn % 3 % 2) * step % vector_count);
			struct icrc_path path = vector_path(vector);
			uint8_t bytes[VECTOR_BYTES_MAX];
			size_t length = vector_bytes(vector, bytes);
			uint16_t found = 0;

			assert_int_equal(icrc_compute(&memo, &path, vector->identification, bytes,
						      length - ICRC_BYTES, NULL, 0, 0),
					 last_word(bytes, length));
			assert_true(icrc_check(&memo, &path, bytes, length, &found));
			assert_int_equal(found, vector->identification);
			/* the same path, another length */
			assert_int_equal(
				icrc_compute(&memo, &path, 0, bytes, PACKET_BTH_BYTES, NULL, 0, 0),
				icrc_compute(NULL, &path, 0, bytes, PACKET_BTH_BYTES, NULL, 0, 0));
			path.source[15] ^= 1;
			assert_false(icrc_check(&memo, &path, bytes, length, &found));
		}
}

/* Of random packets one in 65536 passes for one with another identification: expect no more. */
static void test_noise(void **state)
{
	struct icrc_path path = make_path(false);
	uint32_t random = 2463534242;
	uint8_t bytes[64];
	unsigned passed = 0;

	for (int i = 0; i < 200000; i++) {
		uint16_t identification = 0;

		for (size_t at = 0; at < sizeof(bytes); at += sizeof(random)) {
			random ^= random << 13;
			random ^= random >> 17;
			random ^= random << 5;
			memcpy(bytes + at, &random, sizeof(random));
		}
		passed += icrc_check(NULL, &path, bytes, sizeof(bytes), &identification);
	}
	assert_in_range(passed, 0, 12); /* expected: 3 */
}

static int setup(void **state)
{
	icrc_init();
	icrc_init();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compute_vectors),
		cmocka_unit_test(test_check_vectors),
		cmocka_unit_test(test_each_identification),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_wrong_path),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_memo),
		cmocka_unit_test(test_noise),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
