/* SPDX-License-Identifier: BSD-2-Clause */
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

#include "netdev/interface.h"

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
	static union any_address addresses[1024];
	static struct ifaddrs list[1024];

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

/*
 * getifaddrs lists the links first. Those without an address, like the veths of a host of
 * containers, take no place of others.
 */
static void any_number_of_links_without_an_address(void **state)
{
	static char names[600][IF_NAMESIZE];
	static struct row rows[602];
	struct interface *list;

	for (int i = 0; i < 600; i++) {
		snprintf(names[i], sizeof(names[i]), "veth%d", i);
		rows[i] = (struct row){ names[i], NULL, UP };
	}
	rows[600] = (struct row){ "eth0", NULL, UP };
	rows[601] = (struct row){ "eth0", "10.0.0.2", UP };
	assert_int_equal(collect(rows, COUNT(rows), &list), 1);
	assert_string_equal(list[0].name, "eth0");
	assert_memory_equal(list[0].mac, "\x02\0\0\0\0\x01", 6);
	free(list);
}

static void only_what_is_up_and_has_an_address(void **state)
{
	const struct row rows[] = {
		{ "lo", NULL, UP | IFF_LOOPBACK },
		{ "eth0", NULL, UP },
		{ "down", "10.0.0.1", 0 },
		{ "bare", NULL, UP },
		{ "lo", "127.0.0.1", UP | IFF_LOOPBACK },
		{ "eth0", "10.0.0.2", UP },
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

/* Interfaces by their index, from 1: "-" before a name: no carrier. lo is loopback. */
static const struct {
	int number;
	const char *interfaces, *first, *filter, *order;
} orders[] = {
	{ 1, "lo eth0 eth1 wlan0", "eth1", NULL, "eth1 eth0 wlan0 " },
	{ 2, "lo eth0 eth1 wlan0", "", NULL, "eth0 eth1 wlan0 " },
	{ 3, "lo eth0 eth1 wlan0", "wlan0", NULL, "wlan0 eth0 eth1 " },
	/* what is named is there, whatever it is */
	{ 4, "lo eth0 eth1 wlan0", "eth0", "lo", "lo " },
	{ 5, "lo eth0 eth1 wlan0", "eth0", "lo,eth1", "lo eth1 " },
	{ 6, "lo eth0 eth1 wlan0", "eth0", "vrb_eth1, vrb_eth0", "eth1 eth0 " },
	{ 7, "lo eth0 eth1 wlan0", "eth0", "eth", "" },
	{ 8, "lo eth0 eth1 wlan0", "eth0", "", "" },
	{ 9, "lo eth0 eth1 wlan0", "eth0", "eth9,,eth1,eth1", "eth1 " },
	{ 10, "lo docker0 eth0", "eth0", "docker0,eth0", "docker0 eth0 " },
	/* bridges and cables of containers */
	{ 11, "lo docker0 eth0", "eth0", NULL, "eth0 " },
	{ 12, "docker_gwbridge podman1 cni0 cni-podman0 veth1a2b3c4 lxcbr0 lxdbr0 eth0", "", NULL,
	  "eth0 " },
	{ 13, "virbr0 vnet3 cali12345 vxlan.calico cilium_host lxc0123 flannel.1 eth0", "", NULL,
	  "eth0 " },
	{ 14, "weave kube-ipvs0 nodelocaldns incusbr0 br-0123456789ab eth0", "", NULL, "eth0 " },
	/* those of a user are ordinary */
	{ 15, "br0 br-lan br-0123456789a bond0 ens1f0.100 wg0 tap0 ib0 docker1", "", NULL,
	  "br0 br-lan br-0123456789a bond0 ens1f0.100 wg0 tap0 ib0 docker1 " },
	/* and so is, in a container, what leads to other hosts */
	{ 16, "lo veth0", "veth0", NULL, "veth0 " },
	{ 17, "docker0 veth0 eth0", "veth0", NULL, "veth0 eth0 " },
	/* if there is nothing else */
	{ 18, "lo", "", NULL, "lo " },
	{ 19, "lo docker0", "", NULL, "docker0 " },
	{ 20, "lo -docker0", "", NULL, "docker0 lo " },
	{ 21, "lo -eth0", "", NULL, "eth0 lo " },
	{ 22, "lo docker0 -eth0", "", NULL, "eth0 docker0 " },
	{ 23, "lo -eth0 eth1", "", NULL, "eth0 eth1 " },
	{ 24, "-eth0", "", NULL, "eth0 " },
	{ 25, "", "", NULL, "" },
};

static int make_list(const char *names, struct interface list[16])
{
	int count = 0;

	while (*names) {
		size_t len = strcspn(names, " ");
		bool no_carrier = *names == '-';
		struct interface *interface = &list[count];

		*interface = (struct interface){ .index = ++count, .running = !no_carrier };
		memcpy(interface->name, names + no_carrier, len - no_carrier);
		interface->loopback = strcmp(interface->name, "lo") == 0;
		names += len;
		names += strspn(names, " ");
	}
	return count;
}

static void default_list_order_and_filter(void **state)
{
	for (size_t i = 0; i < COUNT(orders); i++) {
		struct interface list[16];
		char order[128] = "";
		int count = make_list(orders[i].interfaces, list);

		count = interface_order(list, count, orders[i].first, orders[i].filter);
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

#define ZERO "00000000000000000000000000000000"
#define ROUTE6(length, metric, name)                                                               \
	ZERO " " length " " ZERO " 00 fe800000000000000000000000000001 " metric                    \
	     " 00000001 00000000 00000003 " name "\n"

static void default_route6(void **state)
{
	const struct {
		int number;
		const char *text, *name;
	} rows[] = {
		{ 1, "", "" },
		{ 2, ROUTE6("00", "00000400", "eth0"), "eth0" },
		{ 3, ROUTE6("40", "00000400", "eth0"), "" },
		{ 4, ROUTE6("00", "00000400", "eth0") ROUTE6("00", "00000100", "eth1"), "eth1" },
		{ 5, ROUTE6("00", "00000400", "eth0") ROUTE6("00", "00000001", "lo"), "eth0" },
	};
	char text[1024], words[] = "one two", name[IF_NAMESIZE];

	/* A program that opens a device may have begun to cut a string. */
	assert_string_equal(strtok(words, " "), "one");
	for (size_t i = 0; i < COUNT(rows); i++) {
		snprintf(text, sizeof(text), "%s", rows[i].text);
		interface_parse_route6(text, name);
		if (strcmp(name, rows[i].name) != 0)
			fail_msg("row %d: %s", rows[i].number, name);
	}
	assert_string_equal(strtok(NULL, " "), "two");
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

/* As siw: the MAC and zeros; without a MAC bytes that are as good as one. */
static void rnic_has_its_mac_as_gid(void **state)
{
	struct interface interface = { .name = "eth0", .mac = { 2, 0, 0, 0, 0, 1 } };
	static const uint8_t mac[16] = { 2, 0, 0, 0, 0, 1 }, none[6];
	char name[DEVICE_NAME_MAX];
	union ibv_gid gid;

	interface_rnic_gid(&interface, &gid);
	assert_memory_equal(gid.raw, mac, sizeof(mac));
	memset(interface.mac, 0, sizeof(interface.mac));
	interface_rnic_gid(&interface, &gid);
	assert_memory_not_equal(gid.raw, none, sizeof(none));
	assert_memory_equal(gid.raw + sizeof(none), mac + sizeof(none), 16 - sizeof(none));

	interface_device_name(&interface, name);
	assert_string_equal(name, "vrb_eth0");
	setenv("VERBATIM_TRANSPORT", "iWARP", 1);
	interface_device_name(&interface, name);
	unsetenv("VERBATIM_TRANSPORT");
	assert_string_equal(name, "vrbw_eth0");
	assert_int_equal(interface_order(&interface, 1, "", "vrbw_eth0"), 1);
	assert_int_equal(interface_order(&interface, 1, "", "vrbw_eth1"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_up_and_has_an_address),
		cmocka_unit_test(any_number_of_links_without_an_address),
		cmocka_unit_test(ipv4_comes_first_and_labels_are_no_interfaces),
		cmocka_unit_test(an_interface_with_ipv6_only_has_it_as_gid_0),
		cmocka_unit_test(more_addresses_than_slots_are_left_out),
		cmocka_unit_test(default_list_order_and_filter),
		cmocka_unit_test(default_route),
		cmocka_unit_test(default_route6),
		cmocka_unit_test(guid_is_the_mac_or_made_up),
		cmocka_unit_test(rnic_has_its_mac_as_gid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
