/* SPDX-License-Identifier: BSD-2-Clause */
/* The results of functions for texts, rates and MTUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "verbs/query.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	enum ibv_rate rate;
	int mult, mbps;
} rates[] = {
	{ IBV_RATE_2_5_GBPS, 1, 2500 },	      { IBV_RATE_5_GBPS, 2, 5000 },
	{ IBV_RATE_10_GBPS, 4, 10000 },	      { IBV_RATE_20_GBPS, 8, 20000 },
	{ IBV_RATE_30_GBPS, 12, 30000 },      { IBV_RATE_40_GBPS, 16, 40000 },
	{ IBV_RATE_60_GBPS, 24, 60000 },      { IBV_RATE_80_GBPS, 32, 80000 },
	{ IBV_RATE_120_GBPS, 48, 120000 },    { IBV_RATE_14_GBPS, -1, 14062 },
	{ IBV_RATE_56_GBPS, -1, 56250 },      { IBV_RATE_112_GBPS, -1, 112500 },
	{ IBV_RATE_168_GBPS, -1, 168750 },    { IBV_RATE_25_GBPS, -1, 25781 },
	{ IBV_RATE_100_GBPS, -1, 103125 },    { IBV_RATE_200_GBPS, -1, 206250 },
	{ IBV_RATE_300_GBPS, -1, 309375 },    { IBV_RATE_28_GBPS, 11, 28125 },
	{ IBV_RATE_50_GBPS, 20, 53125 },      { IBV_RATE_400_GBPS, 160, 425000 },
	{ IBV_RATE_600_GBPS, 240, 637500 },   { IBV_RATE_800_GBPS, 320, 850000 },
	{ IBV_RATE_1200_GBPS, 480, 1275000 },
};

static void rates_there_and_back(void **state)
{
	for (size_t i = 0; i < COUNT(rates); i++) {
		assert_int_equal(ibv_rate_to_mult(rates[i].rate), rates[i].mult);
		assert_int_equal(ibv_rate_to_mbps(rates[i].rate), rates[i].mbps);
		assert_int_equal(mbps_to_ibv_rate(rates[i].mbps), rates[i].rate);
		if (rates[i].mult > 0)
			assert_int_equal(mult_to_ibv_rate(rates[i].mult), rates[i].rate);
	}
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_MAX), -1);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
	assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(3), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(2501), IBV_RATE_MAX);
}

static void texts_that_programs_look_for(void **state)
{
	assert_string_equal(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
	assert_string_equal(ibv_wc_status_str(IBV_WC_REM_ACCESS_ERR), "remote access error");
	assert_string_equal(ibv_wc_status_str(IBV_WC_REM_OP_ERR), "remote operation error");
	assert_string_equal(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), "Work Request Flushed Error");
	assert_string_equal(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR),
			    "transport retry counter exceeded");
	assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
	assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_COMM_EST), "communication established");
}

static void each_value_has_a_text_and_others_are_unknown(void **state)
{
	for (int i = IBV_WC_SUCCESS; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++)
		assert_string_not_equal(ibv_wc_status_str(i), "unknown");
	for (int i = IBV_EVENT_CQ_ERR; i <= IBV_EVENT_WQ_FATAL; i++)
		assert_string_not_equal(ibv_event_type_str(i), "unknown");
	for (int i = IBV_PORT_NOP; i <= IBV_PORT_ACTIVE_DEFER; i++)
		assert_string_not_equal(ibv_port_state_str(i), "unknown");
	for (int i = IBV_NODE_CA; i <= IBV_NODE_UNSPECIFIED; i++)
		assert_string_not_equal(ibv_node_type_str(i), "unknown");
	assert_string_equal(ibv_wc_status_str(-1), "unknown");
	assert_string_equal(ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE + 1), "unknown");
	assert_string_equal(ibv_event_type_str(-1), "unknown");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_WQ_FATAL + 1), "unknown");
	assert_string_equal(ibv_port_state_str(-1), "unknown");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	assert_string_equal(ibv_node_type_str(0), "unknown");
}

static void mtus(void **state)
{
	assert_int_equal(query_active_mtu(0), IBV_MTU_256);
	assert_int_equal(query_active_mtu(576), IBV_MTU_256);
	assert_int_equal(query_active_mtu(1500), IBV_MTU_1024);
	assert_int_equal(query_active_mtu(2048 + 95), IBV_MTU_1024);
	assert_int_equal(query_active_mtu(2048 + 96), IBV_MTU_2048);
	assert_int_equal(query_active_mtu(4096 + 95), IBV_MTU_2048);
	assert_int_equal(query_active_mtu(4096 + 96), IBV_MTU_4096);
	assert_int_equal(query_active_mtu(9000), IBV_MTU_4096);
	assert_int_equal(query_active_mtu(65536), IBV_MTU_4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_there_and_back),
		cmocka_unit_test(texts_that_programs_look_for),
		cmocka_unit_test(each_value_has_a_text_and_others_are_unknown),
		cmocka_unit_test(mtus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
