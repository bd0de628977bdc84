/* SPDX-License-Identifier: BSD-2-Clause */
/* The congestion window: how it grows and shrinks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "roce/window.h"

#define MTU	      4096
#define RMEM	      (208 * 1024)
#define TRUESIZE(mtu) ((mtu) + 1280) /* what the kernel counts for a packet, at least */

static struct window window;

static int setup(void **state)
{
	window_start(&window, MTU, 0);
	return 0;
}

static void test_bounds(void **state)
{
	for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2) {
		window_start(&window, mtu, RMEM);
		assert_in_range(window.size, WINDOW_MIN, window.max);
		assert_true(window.size * TRUESIZE(mtu) < RMEM);
	}
}

/* The window uses a part of a larger buffer, up to a limit. */
static void test_buffers(void **state)
{
	uint32_t small, before = 0;

	window_start(&window, MTU, 0);
	small = window.max;
	for (uint32_t buffer = RMEM; buffer <= 64u << 20; buffer *= 2) {
		window_start(&window, MTU, buffer);
		assert_true(window.max >= before);
		assert_true(window.max == small || window.max * TRUESIZE(MTU) < buffer);
		before = window.max;
	}
	assert_int_equal(before, 524288 / (MTU + WIRE_PACKET_EXTRA));
}

/* On a longer path it grows further, as far as the buffer goes. */
static void test_round_trips(void **state)
{
	const struct {
		uint64_t ns;
		uint32_t times, buffer; /* of the window of a short round trip */
	} rows[] = {
		{ 1, 1, 64 << 20 },
		{ WINDOW_TRIP_NS, 1, 64 << 20 },
		{ 3 * WINDOW_TRIP_NS, 3, 64 << 20 },
		{ 10 * WINDOW_TRIP_NS, 10, 64 << 20 },
		{ UINT32_MAX, 16, 64 << 20 },
		{ UINT32_MAX, 8, 16 << 20 },
		{ UINT32_MAX, 1, RMEM },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		window_start(&window, MTU, rows[i].buffer);
		window_on_round_trip(&window, rows[i].ns);
		assert_in_range(window.max, rows[i].times * window.max_short,
				rows[i].times * (window.max_short + 1));
		assert_true(window.max <= window.most);
		for (uint32_t una = 0, n = 0; n < 20; n++)
			window_on_ack(&window, window.size, psn_of(una += window.size), true);
		assert_int_equal(window.size, window.max);
	}
}

/* A first round trip was long because of a process that had to wait. */
static void test_a_shorter_round_trip(void **state)
{
	window_start(&window, MTU, 64 << 20);
	window_on_round_trip(&window, 20 * WINDOW_TRIP_NS);
	window.size = window.max;
	window.counted = window.size - 1;
	window_on_loss(&window, psn_of(1));
	assert_true(window.threshold > window.max_short);
	window_on_round_trip(&window, WINDOW_TRIP_NS / 2);
	assert_int_equal(window.max, window.max_short);
	assert_int_equal(window.size, window.max);
	assert_int_equal(window.threshold, window.max);
	assert_true(window.counted < window.size);
}

/* A long round trip begins no slow start after a loss. */
static void test_a_round_trip_after_a_loss(void **state)
{
	uint32_t threshold;

	window_start(&window, MTU, 64 << 20);
	window_on_loss(&window, psn_of(1));
	threshold = window.threshold;
	window_on_round_trip(&window, 10 * WINDOW_TRIP_NS);
	assert_int_equal(window.threshold, threshold);
}

static void test_slow_start(void **state)
{
	uint32_t una = 0, size = window.size;

	una += size;
	window_on_ack(&window, size, psn_of(una), true);
	assert_int_equal(window.size, 2 * size);
	for (unsigned i = 0; i < 20; i++)
		window_on_ack(&window, window.size, psn_of(una += window.size), true);
	assert_int_equal(window.size, window.max);
}

/* A window that was not the limit does not grow. */
static void test_unused(void **state)
{
	uint32_t size = window.size;

	window_on_ack(&window, 1, psn_of(1), false);
	assert_int_equal(window.size, size);
}

static void test_loss(void **state)
{
	uint32_t size;

	window.size = 40;
	window_on_loss(&window, psn_of(100));
	size = window.size;
	assert_int_equal(size, 35);
	window_on_loss(&window, psn_of(110)); /* of the same window */
	window_on_mark(&window, psn_of(110));
	assert_int_equal(window.size, size);
	window_on_ack(&window, size, psn_of(90), true); /* from here on so many for each window */
	assert_int_equal(window.size, size + WINDOW_GROWTH);
	window_on_ack(&window, 10, psn_of(100), true);
	window_on_mark(&window, psn_of(140));
	assert_int_equal(window.size, (size + WINDOW_GROWTH) / 2);
	for (unsigned i = 1; i < 20; i++) {
		window_on_ack(&window, 0, psn_of(100 + i * 100), false);
		window_on_loss(&window, psn_of(150 + i * 100));
	}
	assert_int_equal(window.size, WINDOW_MIN);
}

/* Each costs one packet, also several of one window: it stands still at WINDOW_GROWTH of them. */
static void test_single_losses(void **state)
{
	uint32_t una = 0;

	window.size = window.threshold = 40;
	window.counted = 39;
	for (unsigned i = 0; i < WINDOW_GROWTH; i++)
		window_on_gap(&window, 1, psn_of(1));
	assert_int_equal(window.size, 40 - WINDOW_GROWTH);
	assert_int_equal(window.threshold, window.size);
	assert_true(window.counted < window.size);
	window.counted = 0;
	window_on_ack(&window, window.size, psn_of(una += window.size), true);
	assert_int_equal(window.size, 40);
	for (unsigned i = 0; i < 100; i++)
		window_on_gap(&window, 1, psn_of(1));
	assert_int_equal(window.size, WINDOW_MIN);
	window_on_probe(&window);
	window_on_gap(&window, 1, psn_of(1));
	assert_int_equal(window.size, 1);
}

static void test_probe(void **state)
{
	window.size = 40;
	window_on_probe(&window);
	window_on_probe(&window);
	assert_int_equal(window.size, 1);
	window_undo(&window);
	assert_int_equal(window.size, 40);
	window_on_probe(&window);
	for (uint32_t una = 1; una < 100; una++)
		window_on_ack(&window, 1, psn_of(una), true);
	/* slow start to the half, then slowly */
	assert_in_range(window.size, 20, 20 + 4 * WINDOW_GROWTH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_bounds, setup),
		cmocka_unit_test_setup(test_buffers, setup),
		cmocka_unit_test_setup(test_round_trips, setup),
		cmocka_unit_test_setup(test_a_shorter_round_trip, setup),
		cmocka_unit_test_setup(test_a_round_trip_after_a_loss, setup),
		cmocka_unit_test_setup(test_slow_start, setup),
		cmocka_unit_test_setup(test_unused, setup),
		cmocka_unit_test_setup(test_loss, setup),
		cmocka_unit_test_setup(test_single_losses, setup),
		cmocka_unit_test_setup(test_probe, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
