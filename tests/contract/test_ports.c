/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of ports when a network interface changes. Rules 4 and 31.
 *
 * Each test has a network namespace of its own, with an interface that is its own to change. Needs
 * the right to make one.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"
#include "networks.h"

static void sh(const char *command)
{
	int status = system(command);

	REQUIRE(status == 0, "%s: status 0x%x", command, status);
}

/* A context on the only interface p0, with address 192.0.2.1. */
static struct side *open_alone(void)
{
	struct side *side = side_create();

	if (unshare(CLONE_NEWNET) < 0)
		skip_because("no network namespace: %s", strerror(errno));
	if (system("ip link add p0 type veth peer name p1 2>/dev/null") != 0)
		skip_because("no veth interfaces");
	sh("ip link set p1 up && ip addr add 192.0.2.1/24 dev p0 && ip link set p0 up");
	REQUIRE(networks_is_running("p0"), "no carrier");
	setenv("VERBATIM_DEVICES", "p0", 1);
	side->context = side_open_device();
	return side;
}

static enum ibv_port_state state_of(struct side *side)
{
	struct ibv_port_attr port;

	REQUIRE(ibv_query_port(side->context, 1, &port) == 0, "ibv_query_port");
	return port.state;
}

/* The next event of this type; others of ports may come before it. */
static void expect_port(struct side *side, enum ibv_event_type type)
{
	uint64_t until = now_ms() + WAIT_MS;

	while (now_ms() < until) {
		struct op_async op = { .timeout_ms = 100 };

		op_async(side, &op);
		if (op.type == (int)type)
			return;
		REQUIRE(op.type == -1 || op.type == IBV_EVENT_GID_CHANGE, "event %d", op.type);
	}
	FAIL("event %d did not come", type);
}

/* No event comes except those of addresses, which the kernel may delay. */
static void expect_quiet(struct side *side)
{
	struct op_async op = { .timeout_ms = 300 };

	op_async(side, &op);
	REQUIRE(op.type == -1 || op.type == IBV_EVENT_GID_CHANGE, "event %d", op.type);
}

static void rule_31_port_down_and_up(struct pair *pair)
{
	struct side *side = open_alone();

	REQUIRE(state_of(side) == IBV_PORT_ACTIVE, "state %d", state_of(side));
	sh("ip link set p0 down");
	expect_port(side, IBV_EVENT_PORT_ERR);
	REQUIRE(state_of(side) == IBV_PORT_DOWN, "state %d", state_of(side));
	expect_quiet(side);
	sh("ip link set p0 up");
	expect_port(side, IBV_EVENT_PORT_ACTIVE);
	REQUIRE(state_of(side) == IBV_PORT_ACTIVE, "state %d", state_of(side));
	expect_quiet(side);
}

static void rule_31_port_without_carrier(struct pair *pair)
{
	struct side *side = open_alone();

	sh("ip link set p1 down");
	expect_port(side, IBV_EVENT_PORT_ERR);
	sh("ip link set p1 up");
	expect_port(side, IBV_EVENT_PORT_ACTIVE);
}

/* The device is the same, as an adapter's is. */
static void rule_31_interface_is_renamed(struct pair *pair)
{
	struct side *side = open_alone();

	sh("ip link set p0 down");
	expect_port(side, IBV_EVENT_PORT_ERR);
	sh("ip link set p0 name q0 && ip link set q0 up");
	expect_port(side, IBV_EVENT_PORT_ACTIVE);
	REQUIRE(state_of(side) == IBV_PORT_ACTIVE, "state %d", state_of(side));
}

static bool has_gid(struct side *side, uint8_t last)
{
	union ibv_gid gid;

	for (int i = 0; ibv_query_gid(side->context, 1, i, &gid) == 0; i++)
		if (gid.raw[10] == 0xff && gid.raw[11] == 0xff && gid.raw[12] == 192 &&
		    gid.raw[15] == last)
			return true;
	return false;
}

/* GID_CHANGE comes when the table is different already. */
static void wait_for_gid(struct side *side, uint8_t last, bool there)
{
	for (int i = 0; i < 20 && has_gid(side, last) != there; i++)
		expect_port(side, IBV_EVENT_GID_CHANGE);
	REQUIRE(has_gid(side, last) == there, "192.0.2.%d is %sthere", last, there ? "not " : "");
}

static void rule_31_addresses(struct pair *pair)
{
	struct side *side = open_alone();

	REQUIRE(has_gid(side, 1) && !has_gid(side, 2), "the GIDs at first");
	sh("ip addr add 192.0.2.2/24 dev p0");
	wait_for_gid(side, 2, true);
	sh("ip addr del 192.0.2.2/24 dev p0");
	wait_for_gid(side, 2, false);
	REQUIRE(has_gid(side, 1), "the other address");
	sh("ip addr flush dev p0");
	wait_for_gid(side, 1, false);
	REQUIRE(state_of(side) == IBV_PORT_ACTIVE, "a port without address is up");
}

/* Each context gets an event once; a new one gets no earlier events. */
static void rule_31_each_context_once(struct pair *pair)
{
	struct side *side = open_alone(), *other = side_create();

	other->context = side_open_device();
	sh("ip link set p0 down");
	expect_port(side, IBV_EVENT_PORT_ERR);
	expect_port(other, IBV_EVENT_PORT_ERR);
	expect_quiet(side);
	expect_quiet(other);
	REQUIRE(ibv_close_device(other->context) == 0, "ibv_close_device");
	sh("ip link set p0 up");
	expect_port(side, IBV_EVENT_PORT_ACTIVE);
	other->context = side_open_device();
	expect_quiet(other);
}

/*
 * Starts verbatimd in its place, in the middle of ibv_open_device, after the interface got another
 * address.
 */
static void write_daemon(const char *path)
{
	const char *daemon = getenv("VERBATIM_DAEMON");
	FILE *script = fopen(path, "w");

	if (!daemon)
		skip_because("VERBATIM_DAEMON does not name verbatimd");
	REQUIRE(script, "%s", path);
	fprintf(script,
		"#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
		"ip addr add 192.0.2.2/24 dev p0\nexec %s \"$@\"\n",
		daemon);
	fclose(script);
	REQUIRE(chmod(path, 0700) == 0, "chmod");
	setenv("VERBATIM_DAEMON", path, 1);
}

static void rule_31_address_that_comes_while_the_device_is_opened(struct pair *pair)
{
	char path[] = "/tmp/contract-ports-XXXXXX";
	int fd = mkstemp(path);
	struct side *side;

	close(fd);
	write_daemon(path);
	side = open_alone();
	unlink(path);
	REQUIRE(has_gid(side, 1) && has_gid(side, 2), "the GIDs");
}

static const struct test tests[] = {
	HERE(rule_31_port_down_and_up),
	HERE(rule_31_port_without_carrier),
	HERE(rule_31_interface_is_renamed),
	HERE(rule_31_addresses),
	HERE(rule_31_address_that_comes_while_the_device_is_opened),
	HERE(rule_31_each_context_once),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
