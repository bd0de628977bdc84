/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which addresses are this host's, in a network namespace of its own.
 */
#include "base/host_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define EXIT_SKIPPED 77

static const char network[] =
	"exec 2>&1; ip link set lo up && ip link add left type veth peer name right && "
	"ip link set left addrgenmode none && ip link set right addrgenmode none && "
	"ip addr add 10.9.0.1/24 dev left && ip addr add fd09::1/64 dev left nodad && "
	"ip addr add fe80::1/64 dev left nodad && ip link set left up && ip link set right up";

static const char any_may_be_bound[] = "echo 1 >/proc/sys/net/ipv4/ip_nonlocal_bind && "
				       "echo 1 >/proc/sys/net/ipv6/ip_nonlocal_bind";

static int ask(const char *text, uint32_t ifindex)
{
	uint8_t gid[16] = { [10] = 0xff, [11] = 0xff };

	if (strchr(text, ':'))
		assert_int_equal(inet_pton(AF_INET6, text, gid), 1);
	else
		assert_int_equal(inet_pton(AF_INET, text, gid + 12), 1);
	if (host_has_address(gid, ifindex) == 1)
		assert_int_equal(host_holds_address(gid, ifindex), 1);
	return host_has_address(gid, ifindex);
}

static void check_all(void)
{
	static const struct {
		const char *address;
		int is_local;
	} rows[] = {
		{ "10.9.0.1", 1 },   { "127.0.0.1", 1 }, { "127.1.2.3", 1 }, { "10.9.0.2", 0 },
		{ "10.9.0.255", 0 }, { "224.0.0.1", 0 }, { "8.8.8.8", 0 },   { "0.0.0.0", 0 },
		{ "fd09::1", 1 },    { "::1", 1 },	 { "fd09::2", 0 },   { "2001:db8::1", 0 },
		{ "ff02::1", 0 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		print_message("%s\n", rows[i].address);
		assert_int_equal(ask(rows[i].address, 0), rows[i].is_local);
	}
}

static int ask_all(const char *text)
{
	uint8_t gid[16] = { [10] = 0xff, [11] = 0xff };

	assert_int_equal(inet_pton(AF_INET, text, gid + 12), 1);
	return host_holds_address(gid, 0);
}

/* A rule sends packets for an own address through a cable, as policy routing and VRFs do. */
static void test_rules_lead_elsewhere(void **state)
{
	assert_int_equal(system("ip rule add pref 5 iif lo to 10.9.0.1 lookup 77 && "
				"ip route add 10.9.0.1 dev right table 77"),
			 0);
	assert_int_equal(system("ip rule add pref 100 lookup local && ip rule del pref 0"), 0);
	assert_int_equal(ask("10.9.0.1", 0), 0);
	assert_int_equal(ask_all("10.9.0.1"), 1);
	assert_int_equal(ask_all("10.9.0.2"), 0);
	assert_int_equal(system("ip rule add pref 0 lookup local && ip rule del pref 100 && "
				"ip rule del pref 5"),
			 0);
	assert_int_equal(ask("10.9.0.1", 0), 1);
}

static void test_addresses(void **state)
{
	check_all();
}

static void test_link_local_is_of_an_interface(void **state)
{
	assert_int_equal(ask("fe80::1", if_nametoindex("left")), 1);
	assert_int_equal(ask("fe80::1", if_nametoindex("right")), 0);
	assert_int_equal(ask("fe80::2", if_nametoindex("left")), 0);
	/* With others the interface does not matter. */
	assert_int_equal(ask("fd09::1", if_nametoindex("right")), 1);
	assert_int_equal(ask("10.9.0.1", if_nametoindex("right")), 1);
}

/* net.ipv4.ip_nonlocal_bind and net.ipv6.ip_nonlocal_bind. */
static void test_what_can_be_bound_does_not_matter(void **state)
{
	struct sockaddr_in foreign = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(system(any_may_be_bound), 0);
	assert_int_equal(inet_pton(AF_INET, "8.8.8.8", &foreign.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&foreign, sizeof(foreign)), 0);
	close(fd);
	check_all();
}

static void test_address_comes_and_goes(void **state)
{
	assert_int_equal(ask("10.9.0.7", 0), 0);
	assert_int_equal(system("ip addr add 10.9.0.7/24 dev left"), 0);
	assert_int_equal(ask("10.9.0.7", 0), 1);
	assert_int_equal(system("ip addr del 10.9.0.7/24 dev left"), 0);
	assert_int_equal(ask("10.9.0.7", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_rules_lead_elsewhere),
		cmocka_unit_test(test_link_local_is_of_an_interface),
		cmocka_unit_test(test_what_can_be_bound_does_not_matter),
		cmocka_unit_test(test_address_comes_and_goes),
	};

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		puts("skipped: no network namespaces here");
		return EXIT_SKIPPED;
	}
	if (system(network)) {
		puts("skipped: no veth in a network namespace");
		return EXIT_SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
