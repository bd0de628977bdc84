/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets with a wrong ICRC: a cause if all of a source have one, none if only some do. */
#include "udp/damage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/cause.h"

static struct damage damage;
static unsigned reports;

void __wrap_cause_report_ratelimited(enum cause cause, uint32_t qpn, const char *fmt, ...);

void __wrap_cause_report_ratelimited(enum cause cause, uint32_t qpn, const char *fmt, ...)
{
	assert_int_equal(cause, CAUSE_ICRC_TRANSLATED);
	reports++;
}

static struct wire_flow from(uint8_t host)
{
	return (struct wire_flow){ .remote = { [10] = 0xff, 0xff, 10, 0, 0, host } };
}

static int setup(void **state)
{
	memset(&damage, 0, sizeof(damage));
	reports = 0;
	return 0;
}

static void wrong(uint8_t host, unsigned times)
{
	struct wire_flow flow = from(host);

	for (unsigned i = 0; i < times; i++)
		damage_on_wrong(&damage, &flow);
}

static void right(uint8_t host)
{
	struct wire_flow flow = from(host);

	damage_on_right(&damage, &flow);
}

static void test_all_are_wrong(void **state)
{
	wrong(1, DAMAGE_IN_A_ROW - 1);
	assert_int_equal(reports, 0);
	wrong(1, 1);
	assert_int_equal(reports, 1);
	wrong(1, 1);
	assert_int_equal(reports, 2); /* and so on, once a second */
}

static void test_some_are_wrong(void **state)
{
	for (int i = 0; i < 100; i++) {
		wrong(2, DAMAGE_IN_A_ROW - 1);
		right(2);
	}
	assert_int_equal(reports, 0);
}

/* Correct packets of others do not count for a source. */
static void test_others_are_right(void **state)
{
	for (int i = 0; i < DAMAGE_IN_A_ROW; i++) {
		wrong(3, 1);
		right(4);
	}
	assert_int_equal(reports, 1);
}

static void test_of_many_each_is_wrong_once(void **state)
{
	for (unsigned host = 0; host < 200; host++)
		wrong((uint8_t)host, 1);
	assert_int_equal(reports, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(test_##name, setup)
	const struct CMUnitTest tests[] = {
		TEST(all_are_wrong),
		TEST(some_are_wrong),
		TEST(others_are_right),
		TEST(of_many_each_is_wrong_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
