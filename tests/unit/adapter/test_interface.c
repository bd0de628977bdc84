#include <arpa/inet.h>
#include <netpacket/packet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/interface.h"

/* One address of an interface, as getifaddrs gives it. */
struct row {
	const char *name, *address; /* address NULL: the MAC 02:00:00:00:00:01 */
	unsigned int flags;
};

union any_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_ll ll;
};

static void fill_address(union any_address *to, const char *text)
{
	memset(to, 0, sizeof(*to));
	if (!text) {
		to->ll.sll_family = AF_PACKET;
		to->ll.sll_halen = 6;
		memcpy(to->ll.sll_addr, (const uint8_t[]){ 2, 0, 0, 0, 0, 1 }, 6);
	} else if (strchr(text, ':')) {
		to->in6.sin6_family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, text, &to->in6.sin6_addr), 1);
	} else {
		to->in.sin_family = AF_INET;
		assert_int_equal(inet_pton(AF_INET, text, &to->in.sin_addr), 1);
	}
}

static int collect(const struct row *rows, int count, struct interface **out)
{
	static union any_address addresses[64];
	static struct ifaddrs list[64];

	for (int i = 0; i < count; i++) {
		fill_address(&addresses[i], rows[i].address);
		list[i] = (struct ifaddrs){
			.ifa_next = i + 1 < count ? &list[i + 1] : NULL,
			.ifa_name = (char *)rows[i].name,
			.ifa_flags = rows[i].flags,
			.ifa_addr = &addresses[i].sa,
		};
	}
	return interface_collect(list, out);
}

#define UP	 (IFF_UP | IFF_RUNNING)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void assert_gid(const union ibv_gid *gid, const char *text)
{
	char shown[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, gid->raw, shown, sizeof(shown));
	assert_string_equal(shown, text);
}

static void only_what_is_up_and_has_an_address(void **state)
{
	const struct row rows[] = {
		{ "lo", NULL, UP | IFF_LOOPBACK }, { "eth0", NULL, UP },
		{ "down", "10.0.0.1", 0 },	   { "bare", NULL, UP },
		{ "eth0", "10.0.0.2", UP },	   { "lo", "127.0.0.1", UP | IFF_LOOPBACK },
	};
	struct interface *list;

	assert_int_equal(collect(rows, COUNT(rows), &list), 2);
	assert_string_equal(list[0].name, "lo");
	assert_true(list[0].loopback);
	assert_string_equal(list[1].name, "eth0");
	assert_false(list[1].loopback);
	assert_true(list[1].running);
	free(list);
}

static void ipv4_comes_first_and_labels_are_no_interfaces(void **state)
{
	const struct row rows[] = {
		{ "eth0", "fe80::1", UP },
		{ "eth0", "10.0.0.2", UP },
		{ "eth0", "fd00::1", UP },
		{ "eth0:1", "10.0.0.3", UP },
	};
	struct interface *list;

	assert_int_equal(collect(rows, COUNT(rows), &list), 1);
	assert_int_equal(list[0].ipv4, 2);
	assert_int_equal(list[0].ipv6, 2);
	assert_gid(&list[0].gid[0], "::ffff:10.0.0.2");
	assert_gid(&list[0].gid[1], "::ffff:10.0.0.3");
	assert_gid(&list[0].gid[2], "fe80::1");
	assert_gid(&list[0].gid[3], "fd00::1");
	free(list);
}

static void an_interface_with_ipv6_only_has_it_as_gid_0(void **state)
{
	const struct row rows[] = { { "tun0", "fd00::7", UP } };
	struct interface *list;

	assert_int_equal(collect(rows, COUNT(rows), &list), 1);
	assert_gid(&list[0].gid[0], "fd00::7");
	free(list);
}

static void more_addresses_than_slots_are_left_out(void **state)
{
	struct row rows[20];
	char text[20][32];
	struct interface *list;

	for (int i = 0; i < 20; i++) {
		snprintf(text[i], sizeof(text[i]), "10.0.0.%d", i + 1);
		rows[i] = (struct row){ "eth0", text[i], UP };
	}
	assert_int_equal(collect(rows, 20, &list), 1);
	assert_int_equal(list[0].ipv4, INTERFACE_GIDS);
	free(list);
}

static const struct {
	int number;
	const char *first, *filter, *order;
} orders[] = {
	{ 1, "eth1", NULL, "eth1 eth0 wlan0 lo " },
	{ 2, "", NULL, "eth0 eth1 wlan0 lo " },
	{ 3, "wlan0", NULL, "wlan0 eth0 eth1 lo " },
	{ 4, "eth0", "lo", "lo " },
	{ 5, "eth0", "lo,eth1", "lo eth1 " },
	{ 6, "eth0", "vrb_eth1, vrb_eth0", "eth1 eth0 " },
	{ 7, "eth0", "eth", "" },
	{ 8, "eth0", "", "" },
	{ 9, "eth0", "eth9,,eth1,eth1", "eth1 " },
};

static void order_and_filter(void **state)
{
	for (size_t i = 0; i < COUNT(orders); i++) {
		struct interface list[] = {
			{ .name = "lo", .index = 1, .loopback = true },
			{ .name = "wlan0", .index = 7 },
			{ .name = "eth1", .index = 3 },
			{ .name = "eth0", .index = 2 },
		};
		char order[64] = "";
		int count = interface_order(list, COUNT(list), orders[i].first, orders[i].filter);

		for (int j = 0; j < count; j++)
			strcat(strcat(order, list[j].name), " ");
		if (strcmp(order, orders[i].order) != 0)
			fail_msg("row %d: %s", orders[i].number, order);
	}
}

#define HEAD "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"

static const struct {
	int number;
	const char *text, *name;
} routes[] = {
	{ 1, HEAD, "" },
	{ 2, "", "" },
	{ 3, HEAD "eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n", "eth0" },
	{ 4,
	  HEAD "eth1\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
	       "eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n",
	  "eth0" },
	{ 5, HEAD "eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", "" },
	{ 6, HEAD "eth0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n", "" },
	{ 7, HEAD "rubbish\n", "" },
};

static void default_route(void **state)
{
	for (size_t i = 0; i < COUNT(routes); i++) {
		char name[IF_NAMESIZE];

		interface_parse_route(routes[i].text, name);
		if (strcmp(name, routes[i].name) != 0)
			fail_msg("row %d: %s", routes[i].number, name);
	}
}

static void guid_is_the_mac_or_made_up(void **state)
{
	struct interface eth = { .mac = { 0x02, 0xfc, 0x00, 0x00, 0x12, 0x34 }, .index = 2 };
	struct interface lo = { .index = 1 }, tun = { .index = 9 };

	assert_true(interface_guid(&eth) == UINT64_C(0x00fc00fffe001234));
	assert_true(interface_guid(&lo) != 0);
	assert_true(interface_guid(&lo) != interface_guid(&tun));
	assert_true(interface_guid(&lo) == interface_guid(&lo));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_up_and_has_an_address),
		cmocka_unit_test(ipv4_comes_first_and_labels_are_no_interfaces),
		cmocka_unit_test(an_interface_with_ipv6_only_has_it_as_gid_0),
		cmocka_unit_test(more_addresses_than_slots_are_left_out),
		cmocka_unit_test(order_and_filter),
		cmocka_unit_test(default_route),
		cmocka_unit_test(guid_is_the_mac_or_made_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
