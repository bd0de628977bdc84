/* SPDX-License-Identifier: BSD-2-Clause */
/* The entries of the arena that ports count in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "adapter/contexts.h"
#include "adapter/port_table.h"
#include "base/arena.h"
#include "netdev/device.h"
#include "udp/udp.h"
#include "udp/udp_port.h"

static _Alignas(4096) uint8_t arena[ARENA_BYTES];
static struct device devices[2];
static struct context contexts[2];

static int begin(void **state)
{
	memset(arena, 0, sizeof(arena));
	contexts_init(arena);
	for (int i = 0; i < 2; i++) {
		snprintf(devices[i].ib.name, sizeof(devices[i].ib.name), "vrb_eth%d", i);
		contexts[i].device = &devices[i];
		contexts_add(&contexts[i]);
	}
	return 0;
}

static int end(void **state)
{
	for (int i = 0; i < 2; i++)
		contexts_remove(&contexts[i]);
	return 0;
}

static void an_entry_is_of_one_port_at_a_time(void **state)
{
	struct arena_traffic *first = contexts_take_traffic("vrb_eth1"),
			     *second = contexts_take_traffic("vrb_eth1");

	assert_non_null(first);
	assert_non_null(second);
	assert_ptr_not_equal(first, second);
	assert_int_equal(first->device, contexts[1].device_index + 1);
	assert_int_equal(second->device, first->device);
	assert_null(contexts_take_traffic("vrb_eth2"));
}

static void an_entry_goes_to_the_next_port_of_its_device(void **state)
{
	struct arena_traffic *first = contexts_take_traffic("vrb_eth0"), *other;

	first->received_unicast = 7;
	contexts_give_traffic_back(first);
	other = contexts_take_traffic("vrb_eth1");
	assert_ptr_not_equal(first, other);
	assert_ptr_equal(contexts_take_traffic("vrb_eth0"), first);
	assert_int_equal(first->received_unicast, 7);
	contexts_give_traffic_back(NULL);
}

static void a_port_that_finds_none_does_without(void **state)
{
	struct arena_traffic *last = NULL;

	for (int i = 0; i < ARENA_TRAFFIC; i++)
		assert_non_null(last = contexts_take_traffic("vrb_eth0"));
	assert_null(contexts_take_traffic("vrb_eth0"));
	contexts_give_traffic_back(last);
	assert_null(contexts_take_traffic("vrb_eth1"));
	assert_ptr_equal(contexts_take_traffic("vrb_eth0"), last);
}

static const uint8_t address[WIRE_GID_BYTES] = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 1 },
		     group[WIRE_GID_BYTES] = { [10] = 0xff, [11] = 0xff, 239, 1, 1, 1 };

/* Adds the port of a socket that is bound to nothing. */
static struct wire_port *add_port(const uint8_t gid[WIRE_GID_BYTES], bool is_group,
				  const char *device)
{
	struct wire_port *wire;

	assert_int_equal(udp_open(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), gid, 7, &wire), 0);
	lock_acquire(&port_table_lock);
	assert_int_equal(port_table_add(wire, gid, 7, is_group, device), 0);
	lock_release(&port_table_lock);
	return wire;
}

static void remove_group(void)
{
	struct port *port;
	struct wire_port *wire;

	lock_acquire(&port_table_lock);
	port = port_table_find(group, 7, true);
	wire = port_table_remove(port);
	lock_release(&port_table_lock);
	port_table_close(port, wire);
}

/* The group's place in the table goes to another device's; its entry here does not. */
static void ports_count_for_their_devices(void **state)
{
	struct arena_traffic *entries = arena_traffic(arena);

	assert_int_equal(port_table_init(arena), 0);
	assert_ptr_equal(add_port(address, false, "vrb_eth1")->traffic, &entries[0]);
	assert_ptr_equal(add_port(group, true, "vrb_eth1")->traffic, &entries[1]);
	remove_group();
	assert_ptr_equal(add_port(group, true, "vrb_eth0")->traffic, &entries[2]);
	remove_group();
	assert_ptr_equal(add_port(group, true, "vrb_eth1")->traffic, &entries[1]);
	assert_int_equal(entries[0].device, contexts[1].device_index + 1);
	assert_int_equal(entries[1].device, contexts[1].device_index + 1);
	assert_int_equal(entries[2].device, contexts[0].device_index + 1);
	port_table_reset_after_fork();
}

static const uint8_t *shown(unsigned i)
{
	return (const uint8_t *)&arena_header(arena)->addresses[i];
}

static bool is_shown(const uint8_t gid[16])
{
	for (unsigned i = 0; i < ARENA_ADDRESSES; i++)
		if (!memcmp(shown(i), gid, 16))
			return true;
	return false;
}

static void peers_see_the_addresses_of_open_devices(void **state)
{
	static const uint8_t none[16], second[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 2 },
				       third[16] = { [10] = 0xff, 0xff, 192, 0, 2, 3 },
				       local[16] = { 0xfe, 0x80, [15] = 1 },
				       loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

	memcpy(devices[0].gid[0].raw, address, 16);
	memcpy(devices[0].gid[1].raw, local, 16);
	memcpy(devices[0].gid[5].raw, second, 16);
	memcpy(devices[1].gid[0].raw, loopback, 16);
	memcpy(devices[1].gid[1].raw, second, 16); /* once is enough */
	contexts_show_addresses();
	assert_memory_equal(shown(0), address, 16);
	assert_memory_equal(shown(1), second, 16);
	for (unsigned i = 2; i < ARENA_ADDRESSES; i++)
		assert_memory_equal(shown(i), none, 16);

	/* what stays keeps its place */
	memcpy(devices[0].gid[0].raw, none, 16);
	memcpy(devices[1].gid[7].raw, third, 16);
	contexts_show_addresses();
	assert_memory_equal(shown(1), second, 16);
	assert_true(is_shown(third) && !is_shown(address));

	contexts_remove(&contexts[1]);
	assert_true(is_shown(second) && !is_shown(third));
	contexts_add(&contexts[1]);
	assert_true(is_shown(third));
	memset(devices, 0, sizeof(devices));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_entry_is_of_one_port_at_a_time),
		TEST(an_entry_goes_to_the_next_port_of_its_device),
		TEST(a_port_that_finds_none_does_without),
		TEST(ports_count_for_their_devices),
		TEST(peers_see_the_addresses_of_open_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
