/* SPDX-License-Identifier: BSD-2-Clause */
/* The GID table of a device whose interface gains and loses addresses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "netdev/device.h"
#include "netdev/interface.h"

static struct device device;

static union ibv_gid gid_of(char letter)
{
	union ibv_gid gid = { .raw = { 0xfd, [15] = (uint8_t)letter } };

	if (letter >= 'A' && letter <= 'Z') /* IPv4 */
		gid = (union ibv_gid){
			.raw = { [10] = 0xff, [11] = 0xff, 10, 0, 0, (uint8_t)letter }
		};
	return gid;
}

/* The interface has these addresses, one a letter; capitals are IPv4. */
static void update(const char *addresses)
{
	struct interface interface = { .name = "x0", .running = true, .mtu = 1500 };

	for (int i = 0; addresses[i]; i++)
		interface.gid[i] = gid_of(addresses[i]);
	device_update(&device, &interface, 1);
}

/* The same of the table, '-' where an entry is empty. */
static void expect_table(const char *expected, uint32_t changes)
{
	static const union ibv_gid none;

	for (size_t i = 0; i < DEVICE_GIDS; i++) {
		union ibv_gid wanted = none;

		if (i < strlen(expected) && expected[i] != '-')
			wanted = gid_of(expected[i]);
		assert_memory_equal(&device.gid[i], &wanted, sizeof(wanted));
	}
	assert_int_equal(device.gid_changes, changes);
}

static int setup(void **state)
{
	memset(&device, 0, sizeof(device));
	lock_init(&device.lock);
	strcpy(device.interface, "x0");
	strcpy(device.ib.name, "vrb_x0");
	return 0;
}

static void an_address_keeps_its_index(void **state)
{
	update("Aab");
	expect_table("Aab", 1);
	update("Ab");
	expect_table("A-b", 2);
	update("bA"); /* the order in which the system tells them is nothing */
	expect_table("A-b", 2);
	update("Abc");
	expect_table("Acb", 3);
	update("Bbc");
	expect_table("Bcb", 4);
}

/* As when an interface was down: first the link-local address, then the others. */
static void an_address_that_comes_back_has_its_index(void **state)
{
	update("Aab");
	update("A");
	expect_table("A", 2);
	update("Ab");
	expect_table("A-b", 3);
	update("Acab"); /* the new one is told of first */
	expect_table("Aabc", 4);
	update("Ac");
	update("Acd");
	expect_table("Ad-c", 6);
	update("Acdab"); /* another one has its index */
	expect_table("Adbca", 7);
}

static void a_full_table_takes_what_replaces_all(void **state)
{
	update("abcdefghijklmno");
	expect_table("abcdefghijklmno", 1);
	update("ABCDEFGHIJKLMNO");
	expect_table("ABCDEFGHIJKLMNO", 2);
	update("");
	expect_table("", 3);
}

static void what_is_gone_is_named(void **state)
{
	char text[128];

	update("Aa");
	update("");
	device_explain_gid(&device, 0, text, sizeof(text));
	assert_string_equal(text, "sgid_index 0 of vrb_x0: the interface lost 10.0.0.65");
	device_explain_gid(&device, 1, text, sizeof(text));
	assert_string_equal(text, "sgid_index 1 of vrb_x0: the interface lost fd00::61");
	device_explain_gid(&device, 2, text, sizeof(text));
	assert_string_equal(text, "sgid_index 2 of vrb_x0");
	device_explain_gid(&device, 1000, text, sizeof(text));
	assert_string_equal(text, "sgid_index 1000 of vrb_x0");
}

static int kernel_says; /* that an address is this host's: 1, 0 or -errno */
static unsigned kernel_asked;

int __wrap_host_has_address(const uint8_t gid[16], uint32_t ifindex);
int __wrap_host_has_address(const uint8_t gid[16], uint32_t ifindex)
{
	kernel_asked++;
	return kernel_says;
}

/* For want of a descriptor, say: the next question may have an answer. */
static void a_question_that_fails_is_no_answer(void **state)
{
	union ibv_gid gid = gid_of('A');

	kernel_says = -EMFILE;
	assert_int_equal(device_gid_is_local(&gid), -EMFILE);
	kernel_says = 1;
	assert_int_equal(device_gid_is_local(&gid), 1);
	assert_int_equal(kernel_asked, 2);
	for (int i = 0; i < 100; i++)
		assert_int_equal(device_gid_is_local(&gid), 1);
	assert_in_range(kernel_asked, 2, 50); /* once a second */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_address_keeps_its_index, setup),
		cmocka_unit_test_setup(an_address_that_comes_back_has_its_index, setup),
		cmocka_unit_test_setup(a_full_table_takes_what_replaces_all, setup),
		cmocka_unit_test_setup(what_is_gone_is_named, setup),
		cmocka_unit_test(a_question_that_fails_is_no_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
