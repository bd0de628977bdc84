/* SPDX-License-Identifier: BSD-2-Clause */
/* The QP type that a request names on the wire. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "cmserver/cm_end.h"
#include "ibcm/ip_header.h"
#include "ibcm/mad.h"

#define BODY 24 /* behind the MAD's header */

static struct ctl_cm_request make_request(void)
{
	struct ctl_cm_request t = {
		.local = { .gid = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 }, .family = AF_INET },
		.remote = { .gid = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 2 }, .family = AF_INET },
		.end = { .qpn = 7,
			 .responder_resources = 3,
			 .initiator_depth = 4,
			 .retry_count = 5,
			 .rnr_retry_count = 6,
			 .has_srq = 1 },
	};

	return t;
}

/* IBA 12.6.6: the service's two bits are in byte 43, the extended ones in byte 51. */
static void test_transport_of_a_request(void **state)
{
	static const struct {
		enum ctl_cm_qp_type asks, wants;
		uint8_t service, extended;
	} rows[] = {
		{ CTL_CM_QP_RC, CTL_CM_QP_RC, 0, 0 },
		{ CTL_CM_QP_UC, CTL_CM_QP_UC, 1, 0 },
		{ CTL_CM_QP_XRC_SEND, CTL_CM_QP_XRC_RECV, 3, 1 },
	};
	struct ctl_cm_request request = make_request();

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ibcm_message m, arrived;
		uint8_t mad[MAD_BYTES];
		bool is_xrc = rows[i].extended;

		assert_int_equal(cm_end_fill_request(&m, CTL_CM_IB, rows[i].asks, &request), 0);
		mad_encode(&m, mad);
		assert_int_equal(mad[BODY + 43] >> 1 & 3, rows[i].service);
		assert_int_equal(mad[BODY + 51] & 7, rows[i].extended);
		assert_true(mad_decode(mad, sizeof(mad), &arrived));
		assert_int_equal(cm_end_wanted_type(&arrived), rows[i].wants);
		assert_int_equal(arrived.initiator_depth, 4);
		assert_int_equal(arrived.responder_resources, is_xrc ? 0 : 3);
		assert_int_equal(arrived.retry_count, is_xrc ? 0 : 5);
		assert_int_equal(arrived.rnr_retry_count, is_xrc ? 0 : 6);
		assert_int_equal(arrived.has_srq, !is_xrc);
	}
}

/* RD, and unknown extended transports. */
static void test_transports_that_there_are_not(void **state)
{
	struct ibcm_message m = { .type = IBCM_REQ, .transport = IBCM_RD };

	assert_int_equal(cm_end_wanted_type(&m), CTL_CM_QP_NONE);
	m.transport = IBCM_EXTENDED;
	for (m.extended_transport = 0; m.extended_transport < 8; m.extended_transport++)
		assert_int_equal(cm_end_wanted_type(&m) == CTL_CM_QP_NONE,
				 m.extended_transport != IBCM_EXTENDED_XRC);
}

static void test_datagrams_are_looked_up(void **state)
{
	struct ctl_cm_request request = make_request();
	struct ibcm_message m;

	assert_int_equal(cm_end_fill_request(&m, CTL_CM_UDP, CTL_CM_QP_UD, &request), 0);
	assert_int_equal(m.type, IBCM_SIDR_REQ);
	assert_int_equal(cm_end_wanted_type(&m), CTL_CM_QP_UD);
}

/* This end keeps what the other end reads: a DREQ names the QP. */
static void test_numbers_are_cut_to_their_fields(void **state)
{
	static const enum ctl_cm_qp_type types[] = { CTL_CM_QP_RC, CTL_CM_QP_UC,
						     CTL_CM_QP_XRC_SEND };
	struct ctl_cm_request request = make_request();
	struct ibcm_message m;

	request.end.qpn = 0xff000007;
	request.end.psn = 0xff000008;
	for (unsigned i = 0; i < sizeof(types) / sizeof(*types); i++) {
		assert_int_equal(cm_end_fill_request(&m, CTL_CM_TCP, types[i], &request), 0);
		assert_int_equal(m.qpn, 7);
		assert_int_equal(m.psn, 8);
	}
	assert_int_equal(cm_end_fill_answer(&m, IBCM_REP, request.local.gid, &request), 0);
	assert_int_equal(m.qpn, 7);
	assert_int_equal(m.psn, 8);
}

static void test_room_for_private_data(void **state)
{
	struct ctl_cm_request request = make_request();
	unsigned room = mad_private_bytes(IBCM_REQ) - IP_HEADER_BYTES;
	struct ibcm_message m;

	request.end.private_bytes = (uint16_t)room;
	assert_int_equal(cm_end_fill_request(&m, CTL_CM_TCP, CTL_CM_QP_RC, &request), 0);
	request.end.private_bytes++;
	assert_int_equal(cm_end_fill_request(&m, CTL_CM_TCP, CTL_CM_QP_RC, &request), -EINVAL);
	request.end.private_bytes = UINT16_MAX;
	assert_int_equal(cm_end_fill_request(&m, CTL_CM_TCP, CTL_CM_QP_RC, &request), -EINVAL);
	assert_int_equal(cm_end_fill_answer(&m, IBCM_REP, request.local.gid, &request), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transport_of_a_request),
		cmocka_unit_test(test_transports_that_there_are_not),
		cmocka_unit_test(test_datagrams_are_looked_up),
		cmocka_unit_test(test_numbers_are_cut_to_their_fields),
		cmocka_unit_test(test_room_for_private_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
