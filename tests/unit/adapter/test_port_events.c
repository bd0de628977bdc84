/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes of network interfaces, also where they cannot be read at once. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/contexts.h"
#include "adapter/port_events.h"
#include "netdev/interface.h"
#include "netdev/watch.h"

#define SECOND_NS 1000000000ull
#define NEVER	  UINT64_MAX

static bool announced;
static int scan_error;
static unsigned scans, comparisons;

bool __wrap_watch_take(void);
bool __wrap_watch_take(void)
{
	bool taken = announced;

	announced = false;
	return taken;
}

int __wrap_interface_scan(struct interface **out);
int __wrap_interface_scan(struct interface **out)
{
	scans++;
	*out = NULL;
	return scan_error;
}

void __wrap_contexts_visit(void (*visit)(struct context *context, void *arg), void *arg);
void __wrap_contexts_visit(void (*visit)(struct context *context, void *arg), void *arg)
{
	comparisons++;
}

/* The announcement is taken, so the scan is repeated until it succeeds. */
static void test_a_scan_that_fails_is_repeated(void **state)
{
	uint64_t now = SECOND_NS;

	port_events_poll(now);
	assert_int_equal(scans, 0);
	assert_true(port_events_due_ns() == NEVER);
	announced = true;
	scan_error = -EMFILE;
	port_events_poll(now);
	assert_int_equal(scans, 1);
	assert_int_equal(comparisons, 0);
	assert_true(port_events_due_ns() == now + SECOND_NS);
	port_events_poll(now + SECOND_NS - 1);
	assert_int_equal(scans, 1);
	port_events_poll(now += SECOND_NS);
	assert_int_equal(scans, 2);
	assert_true(port_events_due_ns() == now + SECOND_NS);
	scan_error = 0;
	port_events_poll(now += SECOND_NS);
	assert_int_equal(comparisons, 1);
	assert_true(port_events_due_ns() == NEVER);
	port_events_poll(now += 10 * SECOND_NS);
	assert_int_equal(scans, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_scan_that_fails_is_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
