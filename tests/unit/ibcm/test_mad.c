/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs: what is encoded is decoded, fields lie where the IBA's tables put them, and nothing else is
 * taken for a message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ibcm/mad.h"

#define BODY 24 /* behind the MAD's header */

static const enum ibcm_type types[] = {
	IBCM_REQ,  IBCM_MRA,	  IBCM_REJ,	 IBCM_REP, IBCM_RTU, IBCM_DREQ,
	IBCM_DREP, IBCM_SIDR_REQ, IBCM_SIDR_REP, IBCM_LAP, IBCM_APR,
};

static struct ibcm_message make_req(void)
{
	struct ibcm_message m = {
		.type = IBCM_REQ,
		.transaction = 0x0102030405060708,
		.local_id = 0x11121314,
		.service_id = 0x0000000001061234,
		.ca_guid = 0x2122232425262728,
		.qpn = 0x313233,
		.psn = 0x414243,
		.responder_resources = 16,
		.initiator_depth = 4,
		.flow_control = 1,
		.rnr_retry_count = 5,
		.has_srq = 1,
		.retry_count = 6,
		.transport = IBCM_RC,
		.path_mtu = 3,
		.ack_timeout = 17,
		.max_tries = 15,
		.remote_timeout = 20,
		.local_timeout = 19,
		.traffic_class = 0x68,
		.hop_limit = 64,
		.flow_label = 0xabcde,
		.private_bytes = 92,
	};

	memset(m.local_gid, 0x51, sizeof(m.local_gid));
	memset(m.remote_gid, 0x52, sizeof(m.remote_gid));
	memset(m.private_data, 0x53, m.private_bytes);
	return m;
}

static void test_fields_of_a_req(void **state)
{
	static const struct {
		unsigned at, bytes;
		uint64_t value;
	} rows[] = {
		{ 0, 4, 0x01070203 }, /* base and class version, class, method */
		{ 8, 8, 0x0102030405060708 },
		{ 16, 2, 0x0010 },
		{ BODY + 0, 4, 0x11121314 },
		{ BODY + 8, 8, 0x0000000001061234 },
		{ BODY + 16, 8, 0x2122232425262728 },
		{ BODY + 32, 4, 0x31323310 },
		{ BODY + 39, 1, 4 },
		{ BODY + 43, 1, 20 << 3 | 0 << 1 | 1 },
		{ BODY + 44, 4, 0x41424300 | 19 << 3 | 6 },
		{ BODY + 48, 2, 0xffff },
		{ BODY + 50, 1, 3 << 4 | 5 },
		{ BODY + 51, 1, 15 << 4 | 1 << 3 },
		{ BODY + 52, 4, 0xffffffff }, /* no LIDs */
		{ BODY + 56, 8, 0x5151515151515151 },
		{ BODY + 72, 8, 0x5252525252525252 },
		{ BODY + 88, 4, 0xabcde000 | 3 },
		{ BODY + 92, 2, 0x6840 },
		{ BODY + 95, 1, 17 << 3 },
		{ BODY + 96, 8, 0 }, /* no alternate path */
		{ BODY + 140, 4, 0x53535353 },
		{ BODY + 228, 4, 0x53535353 },
	};
	struct ibcm_message m = make_req();
	uint8_t mad[MAD_BYTES];

	mad_encode(&m, mad);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint64_t value = 0;

		for (unsigned b = 0; b < rows[i].bytes; b++)
			value = value << 8 | mad[rows[i].at + b];
		if (value != rows[i].value)
			fail_msg("byte %u: 0x%llx instead of 0x%llx", rows[i].at,
				 (unsigned long long)value, (unsigned long long)rows[i].value);
	}
}

/* IBA 12.6.8: the QP's number and XRC's, each in its place; the vendor of ECE options in three. */
static void test_numbers_of_a_rep(void **state)
{
	struct ibcm_message m = {
		.type = IBCM_REP,
		.qpn = 0x313233,
		.eecn = 0x414243,
		.psn = 0x515253,
		.ece_vendor = 0x616263,
		.ece_options = 0x71727374,
	};
	struct ibcm_message out;
	uint8_t mad[MAD_BYTES];

	mad_encode(&m, mad);
	assert_memory_equal(mad + BODY + 12, "\x31\x32\x33\x61", 4);
	assert_memory_equal(mad + BODY + 16, "\x41\x42\x43\x62", 4);
	assert_memory_equal(mad + BODY + 20, "\x51\x52\x53\x63", 4);
	assert_true(mad_decode(mad, sizeof(mad), &out));
	assert_int_equal(out.qpn, m.qpn);
	assert_int_equal(out.eecn, m.eecn);
	assert_int_equal(out.psn, m.psn);
	assert_int_equal(out.ece_vendor, m.ece_vendor);
	assert_int_equal(out.ece_options, m.ece_options);
}

/* Encoding drops fields that a type does not have: a second round gives the same message. */
static void test_all_types_come_back(void **state)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		struct ibcm_message m = make_req(), once, twice;
		uint8_t mad[MAD_BYTES];

		m.type = types[i];
		m.remote_id = 0x61626364;
		m.subject = IBCM_ABOUT_REP;
		m.reason = 28;
		m.service_timeout = 24;
		m.info_bytes = 8;
		m.private_bytes = (uint16_t)mad_private_bytes(types[i]);
		memset(m.private_data, 0x54, m.private_bytes);
		mad_encode(&m, mad);
		assert_true(mad_decode(mad, sizeof(mad), &once));
		assert_int_equal(once.type, types[i]);
		assert_int_equal(once.private_bytes, mad_private_bytes(types[i]));
		assert_memory_equal(once.private_data, m.private_data, m.private_bytes);
		if (types[i] != IBCM_SIDR_REP)
			assert_int_equal(once.local_id, m.local_id);
		if (types[i] != IBCM_REQ && types[i] != IBCM_SIDR_REQ)
			assert_int_equal(once.remote_id, m.remote_id);
		mad_encode(&once, mad);
		assert_true(mad_decode(mad, sizeof(mad), &twice));
		assert_memory_equal(&once, &twice, sizeof(once));
	}
}

static void test_rooms_for_private_data(void **state)
{
	assert_int_equal(mad_private_bytes(IBCM_REQ), 92);
	assert_int_equal(mad_private_bytes(IBCM_REP), 196);
	assert_int_equal(mad_private_bytes(IBCM_REJ), 148);
	assert_int_equal(mad_private_bytes(IBCM_SIDR_REQ), 216);
	assert_int_equal(mad_private_bytes(IBCM_SIDR_REP), 136);
	assert_int_equal(mad_private_bytes(IBCM_LAP), 168);
	assert_int_equal(mad_private_bytes(IBCM_APR), 148);
	assert_int_equal(mad_private_bytes((enum ibcm_type)0x1b), 0);
	assert_int_equal(mad_private_bytes((enum ibcm_type)0), 0);
}

static void test_others_are_refused(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
	} rows[] = { { 0, 2 },	   { 1, 0x03 }, { 2, 1 }, { 3, 0x81 },
		     { 17, 0x1b }, { 17, 0 },	{ 16, 1 } };
	struct ibcm_message m = make_req(), out;
	uint8_t mad[MAD_BYTES];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		mad_encode(&m, mad);
		mad[rows[i].at] = rows[i].value;
		assert_false(mad_decode(mad, sizeof(mad), &out));
	}
	mad_encode(&m, mad);
	assert_false(mad_decode(mad, sizeof(mad) - 1, &out));
	assert_true(mad_decode(mad, sizeof(mad), &out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields_of_a_req),
		cmocka_unit_test(test_numbers_of_a_rep),
		cmocka_unit_test(test_all_types_come_back),
		cmocka_unit_test(test_rooms_for_private_data),
		cmocka_unit_test(test_others_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
