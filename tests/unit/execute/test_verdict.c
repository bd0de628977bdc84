/* SPDX-License-Identifier: BSD-2-Clause */
/* The reactions to each verdict (IBA 9.9.3.1), and the RNR timers (IBA table 45). */
#include "execute/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "execute/rnr.h"

/*
 * RC: a refusal that fails the QP ends the request, except class J, for which the requester gets no
 * NAK.
 */
static void test_refusals_that_fail_the_qp_end_the_request(void **state)
{
	for (int v = 0; v < VERDICTS; v++) {
		const struct reaction *rc = verdict_reaction(v, VERDICT_RC);
		enum ibv_wc_status status = verdict_requester_status(rc->refusal);

		assert_int_equal(rc->fails_qp && v != VERDICT_INVALIDATE, status != IBV_WC_SUCCESS);
		assert_int_equal(rc->ends_message, rc->fails_qp);
		if (rc->receive_status)
			assert_true(rc->fails_qp);
	}
}

static void test_uc_refuses_silently(void **state)
{
	for (int v = 0; v < VERDICTS; v++) {
		const struct reaction *uc = verdict_reaction(v, VERDICT_UC);

		assert_int_equal(uc->refusal, REFUSAL_SILENT);
		assert_int_equal(uc->fails_qp, v == VERDICT_RECEIVE_FAULT);
		assert_int_equal(uc->ends_message, v != VERDICT_OK);
		assert_int_equal(uc->event, VERDICT_NO_EVENT);
	}
}

static void test_rnr_timers(void **state)
{
	assert_int_equal(rnr_timer_ns(0), 655360000);
	assert_int_equal(rnr_timer_ns(1), 10000);
	for (uint8_t code = 2; code < 32; code++)
		assert_true(rnr_timer_ns(code) > rnr_timer_ns(code - 1));
	assert_int_equal(rnr_timer_ns(31), 491520000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals_that_fail_the_qp_end_the_request),
		cmocka_unit_test(test_uc_refuses_silently),
		cmocka_unit_test(test_rnr_timers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
