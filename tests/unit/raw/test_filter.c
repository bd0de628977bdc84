/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's filter takes the frames that flow_takes takes: flows and frames from a seed, sent
 * through a unix socket with the filter attached, which loads from the start of the datagram as
 * from that of a frame.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "object/context.h"
#include "object/qp.h"
#include "raw/filter.h"

#define FRAME_MAX 128
#define ROUNDS	  4000

static uint32_t seed;

static uint32_t random_below(uint32_t limit)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % limit;
}

struct attr {
	struct ibv_flow_attr head;
	uint8_t specs[200];
};

static void add(struct attr *attr, const void *spec, uint16_t size)
{
	memcpy(attr->specs + (attr->head.size - sizeof(attr->head)), spec, size);
	attr->head.size += size;
	attr->head.num_of_specs++;
}

/* Few values, so that frames and flows meet. */
static uint8_t byte(void)
{
	return (uint8_t)random_below(3);
}

static void fill(void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		((uint8_t *)bytes)[i] = byte();
}

static void fill_mask(void *bytes, size_t count)
{
	static const uint8_t masks[] = { 0, 0, 0, 0xff, 1 };

	for (size_t i = 0; i < count; i++)
		((uint8_t *)bytes)[i] = masks[random_below(sizeof(masks))];
}

#define SPEC(kind, name)                                                                           \
	struct ibv_flow_spec_##kind name = { .size = sizeof(name) };                               \
	fill(&name.val, sizeof(name.val));                                                         \
	fill_mask(&name.mask, sizeof(name.mask))

static struct flow *random_flow(struct qp *qp)
{
	struct attr attr = { .head = { .size = sizeof(struct ibv_flow_attr),
				       .port = 1,
				       .priority = (uint16_t)random_below(4) } };
	struct flow *flow;

	if (random_below(2)) {
		SPEC(eth, eth);
		eth.type = IBV_FLOW_SPEC_ETH;
		eth.mask.ether_type = 0;
		if (random_below(8))
			eth.mask.vlan_tag = 0;
		add(&attr, &eth, sizeof(eth));
	}
	switch (random_below(4)) {
	case 0: {
		SPEC(ipv4_ext, ip);
		ip.type = IBV_FLOW_SPEC_IPV4_EXT;
		ip.mask.flags = ip.mask.proto = 0;
		add(&attr, &ip, sizeof(ip));
		break;
	}
	case 1: {
		SPEC(ipv6, ip);
		ip.type = IBV_FLOW_SPEC_IPV6;
		ip.mask.next_hdr = 0;
		add(&attr, &ip, sizeof(ip));
		break;
	}
	default:
		break;
	}
	if (random_below(2)) {
		SPEC(tcp_udp, ports);
		ports.type = random_below(2) ? IBV_FLOW_SPEC_UDP : IBV_FLOW_SPEC_TCP;
		add(&attr, &ports, sizeof(ports));
	}
	assert_int_equal(flow_create(qp, &attr.head, &flow), 0);
	return flow;
}

/* One that flows may take: IPv4 or IPv6 with ports, or anything, and sometimes cut short. */
static size_t random_frame(uint8_t frame[FRAME_MAX])
{
	static const uint8_t protocols[] = { 6, 17, 1 };
	uint32_t kind = random_below(4);

	fill(frame, FRAME_MAX);
	if (kind < 2) {
		memcpy(frame + 12, "\x08\x00", 2);
		frame[14] = (uint8_t)(0x45 + random_below(3));
		frame[23] = protocols[random_below(3)];
		if (random_below(4))
			frame[20] = frame[21] = 0;
	} else if (kind == 2) {
		memcpy(frame + 12, "\x86\xdd", 2);
		frame[14] = 0x60;
		frame[20] = protocols[random_below(3)];
	}
	return random_below(8) ? FRAME_MAX - random_below(40) : 14 + random_below(60);
}

static bool kernel_takes(const int sockets[2], const uint8_t *frame, size_t length)
{
	uint8_t got[FRAME_MAX];

	assert_int_equal(send(sockets[0], frame, length, 0), length);
	return recv(sockets[1], got, sizeof(got), MSG_DONTWAIT) == (ssize_t)length;
}

static bool any_takes(const struct list *flows, const struct flow_frame *frame)
{
	struct list *pos;

	list_for_each(pos, flows)
		if (flow_takes(list_entry(pos, struct flow, link), frame))
			return true;
	return false;
}

static void filter_agrees_with_flows(void **state)
{
	static struct sock_filter code[FILTER_MAX];
	static struct context context;
	static struct qp qp = { .context = &context };
	struct filter_interface interface = { .mac = { 2 } };
	uint32_t taken = 0;

	for (seed = 1; seed < ROUNDS * 7919u; seed += 7919) {
		uint32_t round = seed, count = 1 + random_below(4);
		struct sock_fprog program = { .filter = code };
		struct list flows, *pos, *after;
		int sockets[2];

		list_init(&flows);
		while (count--)
			list_add_tail(&flows, &random_flow(&qp)->link);
		program.len = (unsigned short)filter_build(&flows, &interface, code, FILTER_MAX);
		assert_int_not_equal(program.len, 0);
		assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets), 0);
		assert_int_equal(setsockopt(sockets[1], SOL_SOCKET, SO_ATTACH_FILTER, &program,
					    sizeof(program)),
				 0);
		for (int i = 0; i < 8; i++) {
			uint8_t bytes[FRAME_MAX];
			struct flow_frame frame = { .bytes = bytes };
			bool takes;

			frame.length = random_frame(bytes);
			takes = any_takes(&flows, &frame);
			taken += takes;
			if (takes != kernel_takes(sockets, bytes, frame.length))
				fail_msg("round %u, frame %d: flows say %d", round, i, takes);
		}
		close(sockets[0]);
		close(sockets[1]);
		list_for_each_safe(pos, after, &flows)
			flow_free(list_entry(pos, struct flow, link));
		seed = round;
	}
	assert_in_range(taken, ROUNDS / 2, ROUNDS * 8 - ROUNDS / 2);
}

/* Then the filter passes everything, and only flow_takes decides. */
static void more_flows_than_a_program_holds(void **state)
{
	static struct sock_filter code[FILTER_MAX];
	static struct context context;
	static struct qp qp = { .context = &context };
	struct filter_interface interface = { .is_loopback = true };
	struct list flows, *pos, *after;
	unsigned none;

	list_init(&flows);
	none = filter_build(&flows, &interface, code, FILTER_MAX);
	assert_int_equal(code[none - 1].k, 0);
	for (int i = 0; i < 2000; i++) {
		seed = (uint32_t)i;
		list_add_tail(&flows, &random_flow(&qp)->link);
	}
	assert_int_equal(filter_build(&flows, &interface, code, FILTER_MAX), none);
	assert_int_equal(code[none - 1].k, UINT32_MAX);
	list_for_each_safe(pos, after, &flows)
		flow_free(list_entry(pos, struct flow, link));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filter_agrees_with_flows),
		cmocka_unit_test(more_flows_than_a_program_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
