/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw Ethernet: RAW_PACKET QPs, flows and their counters: rule 9, and what rules 1, 2 and 12 say of
 * them.
 *
 * Runs in network namespaces of its own, so that no frame of it leaves the machine. All frames go
 * to a group address and have an EtherType for experiments.
 */
#include <net/ethernet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "expect.h"

#define ETHERTYPE 0x88b5
#define OTHER	  0x88b6
#define HEADER	  14
#define FRAME_MAX 1514

static const uint8_t group[6] = { 0x03, 0x56, 0x42, 0x00, 0x00, 0x01 };
static const uint8_t sender[6] = { 0x02, 0x56, 0x42, 0x00, 0x00, 0x02 };

static const struct options *raw_options(void)
{
	static struct options options;
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0)
		skip_because("no packet socket: %s", strerror(errno));
	close(fd);
	options = *WITH(.type = IBV_QPT_RAW_PACKET, .qps = 2);
	return &options;
}

static void raw_ready(struct end *end, int qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	REQUIRE(end_modify(end, qp, attr, IBV_QP_STATE | IBV_QP_PORT) == 0, "to INIT");
	attr.qp_state = IBV_QPS_RTR;
	REQUIRE(end_modify(end, qp, attr, IBV_QP_STATE) == 0, "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	REQUIRE(end_modify(end, qp, attr, IBV_QP_STATE) == 0, "to RTS");
}

static void raw_pair(struct pair *pair)
{
	pair_make(pair, raw_options());
	for (int qp = 0; qp < 2; qp++) {
		raw_ready(&pair->a, qp);
		raw_ready(&pair->b, qp);
	}
}

/*
 * Flows and counters of an end, by slot; both ends may live in one process, so a's slots are not
 * b's.
 */
static struct ibv_flow *flows[8];
static struct ibv_counters *counters;

struct flow_spec_list {
	struct ibv_flow_attr attr;
	uint8_t specs[256];
};

struct op_flow {
	int slot, qp, error;
	bool with_counters;
	struct flow_spec_list list;
};

static void add_spec(struct op_flow *op, const void *spec, size_t size)
{
	uint8_t *at = op->list.specs;

	for (int i = 0; i < op->list.attr.num_of_specs; i++) {
		uint16_t length;

		memcpy(&length, at + offsetof(struct ibv_flow_spec_eth, size), sizeof(length));
		at += length;
	}
	REQUIRE(at + size <= op->list.specs + sizeof(op->list.specs), "too many specs");
	memcpy(at, spec, size);
	op->list.attr.num_of_specs++;
	op->list.attr.size += (uint16_t)size;
}

static void op_create_flow(struct side *side, void *argument)
{
	struct op_flow *op = argument;
	struct flow_spec_list list __attribute__((aligned(8)));
	struct ibv_flow *flow;

	if (op->with_counters) {
		struct ibv_flow_spec_counter_action count = {
			.type = IBV_FLOW_SPEC_ACTION_COUNT,
			.size = sizeof(count),
			.counters = counters,
		};

		add_spec(op, &count, sizeof(count));
	}
	list = op->list;
	flow = ibv_create_flow(side->qp[op->qp], &list.attr);
	op->error = flow ? 0 : errno;
	if (flow)
		flows[op->slot] = flow;
}

static void op_destroy_flow(struct side *side, void *argument)
{
	struct op_flow *op = argument;

	op->error = ibv_destroy_flow(flows[op->slot]);
}

static struct op_flow flow_of_type(int slot, enum ibv_flow_attr_type type)
{
	return (struct op_flow){
		.slot = slot,
		.list.attr = { .type = type, .size = sizeof(struct ibv_flow_attr), .port = 1 }
	};
}

static struct op_flow flow_of_ethertype(int slot, uint16_t type)
{
	struct op_flow op = flow_of_type(slot, IBV_FLOW_ATTR_NORMAL);
	struct ibv_flow_spec_eth eth = {
		.type = IBV_FLOW_SPEC_ETH,
		.size = sizeof(eth),
		.val = { .ether_type = htons(type) },
		.mask = { .ether_type = 0xffff },
	};

	memcpy(eth.val.dst_mac, group, 6);
	memset(eth.mask.dst_mac, 0xff, 6);
	add_spec(&op, &eth, sizeof(eth));
	return op;
}

static void create_flow_at(const char *file, int line, struct end *end, struct op_flow op)
{
	RUN(end, op_create_flow, &op);
	if (op.error)
		fail_here(file, line, "%s: ibv_create_flow: %s", end->name, strerror(op.error));
}
#define create_flow(end, ...) create_flow_at(__FILE__, __LINE__, end, __VA_ARGS__)

static void destroy_flow(struct end *end, int slot)
{
	struct op_flow op = { .slot = slot };

	RUN(end, op_destroy_flow, &op);
	REQUIRE(op.error == 0, "ibv_destroy_flow: %s", strerror(op.error));
}

/* The bytes of a frame at `offset` of an end's buffer. */
struct op_frame {
	uint32_t offset, length;
	uint8_t bytes[FRAME_MAX];
};

static void op_put(struct side *side, void *argument)
{
	struct op_frame *op = argument;

	memcpy(side->buf + op->offset, op->bytes, op->length);
}

static void op_get(struct side *side, void *argument)
{
	struct op_frame *op = argument;

	memcpy(op->bytes, side->buf + op->offset, op->length);
}

static struct op_frame make_frame(uint16_t type, uint32_t length, uint32_t seed)
{
	struct op_frame frame = { .length = length };

	memcpy(frame.bytes, group, 6);
	memcpy(frame.bytes + 6, sender, 6);
	frame.bytes[12] = (uint8_t)(type >> 8);
	frame.bytes[13] = (uint8_t)type;
	for (uint32_t i = HEADER; i < length; i++)
		frame.bytes[i] = pattern(seed, i);
	return frame;
}

static void send_frame(struct end *end, struct op_frame frame, unsigned int flags)
{
	RUN(end, op_put, &frame);
	post_send(end, 0,
		  SEND(.wr_id = 1, .length = frame.length, .flags = IBV_SEND_SIGNALED | flags));
	expect(end, SENDS, 1, IBV_WC_SUCCESS);
}

static void expect_frame_at(const char *file, int line, struct end *end, uint64_t wr_id,
			    const struct op_frame *frame, uint32_t offset)
{
	struct ibv_wc wc = expect_at(file, line, end, RECEIVES, wr_id, IBV_WC_SUCCESS);
	struct op_frame got = { .offset = offset, .length = frame->length };

	if (wc.byte_len != frame->length || wc.opcode != IBV_WC_RECV || wc.wc_flags)
		fail_here(file, line, "%u bytes, opcode %d, flags 0x%x; expected %u bytes",
			  wc.byte_len, wc.opcode, wc.wc_flags, frame->length);
	RUN(end, op_get, &got);
	if (memcmp(got.bytes, frame->bytes, frame->length))
		fail_here(file, line, "its bytes differ");
}
#define expect_frame(...) expect_frame_at(__FILE__, __LINE__, __VA_ARGS__)

/* Each as long as a frame can be, at 2048 times its number. */
static void post_frames(struct end *end, int qp, uint64_t first, int count)
{
	for (uint64_t id = first; id < first + (uint64_t)count; id++)
		post_receive(end, qp,
			     RECEIVE(.wr_id = id, .offset = (uint32_t)id * 2048, .length = 2048));
}

static void rule_09_raw_frames(struct pair *pair)
{
	const uint32_t lengths[] = { 60, 64, 1000, FRAME_MAX };
	struct op_frame frame;

	raw_pair(pair);
	create_flow(&pair->b, flow_of_ethertype(0, ETHERTYPE));
	post_frames(&pair->b, 0, 10, 8);
	for (uint32_t i = 0; i < 4; i++) {
		frame = make_frame(OTHER, 60, 90);
		send_frame(&pair->a, frame, 0);
		frame = make_frame(ETHERTYPE, lengths[i], i);
		send_frame(&pair->a, frame, i == 0 ? IBV_SEND_INLINE : 0);
		expect_frame(&pair->b, 10 + i, &frame, (10 + i) * 2048);
	}
	expect_none(&pair->b, RECEIVES);
	/* a QP without flows receives nothing, nor does a QP whose flow was destroyed */
	post_frames(&pair->b, 1, 20, 1);
	destroy_flow(&pair->b, 0);
	send_frame(&pair->a, frame, 0);
	expect_none(&pair->b, RECEIVES);
	expect_no_async(&pair->a);
	expect_no_async(&pair->b);
}

/* A frame without a receive, or with a short one, is dropped, and the QP still works. */
static void rule_12_raw_frames_dropped(struct pair *pair)
{
	struct op_frame frame = make_frame(ETHERTYPE, 500, 3),
			shorter = make_frame(ETHERTYPE, 100, 4);

	raw_pair(pair);
	create_flow(&pair->b, flow_of_ethertype(0, ETHERTYPE));
	send_frame(&pair->a, frame, 0);
	sleep_ms(QUIET_MS);
	expect_none(&pair->b, RECEIVES);
	post_receive(&pair->b, 0, RECEIVE(.wr_id = 5, .offset = 4096, .length = 499));
	send_frame(&pair->a, frame, 0);
	expect_none(&pair->b, RECEIVES);
	send_frame(&pair->a, shorter, 0);
	expect_frame(&pair->b, 5, &shorter, 4096);
	expect_state(&pair->b, 0, IBV_QPS_RTS);
}

static void rule_16_raw_frame_lengths(struct pair *pair)
{
	raw_pair(pair);
	post_send(&pair->a, 0, SEND(.wr_id = 1, .length = HEADER - 1));
	expect(&pair->a, SENDS, 1, IBV_WC_LOC_LEN_ERR);
	expect_state(&pair->a, 0, IBV_QPS_ERR);
	post_send(&pair->a, 0, SEND(.wr_id = 2, .length = 60));
	expect(&pair->a, SENDS, 2, IBV_WC_WR_FLUSH_ERR);
	post_send(&pair->a, 1, SEND(.wr_id = 3, .length = 100000));
	expect(&pair->a, SENDS, 3, IBV_WC_LOC_LEN_ERR);
}

/* Headers of IPv4 and UDP, without checksums. */
static void fill_udp(uint8_t ip[28], uint16_t port)
{
	ip[0] = 0x45;
	ip[3] = 28;
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, "\x0a\x6f\x00\x01", 4);
	memcpy(ip + 16, "\x0a\x6f\x00\x02", 4);
	ip[20] = 0x12;
	ip[21] = 0x34;
	ip[22] = (uint8_t)(port >> 8);
	ip[23] = (uint8_t)port;
	ip[25] = 8;
}

static struct op_frame make_udp(uint16_t port, uint8_t words_of_options)
{
	struct op_frame frame = make_frame(ETHERTYPE_IP, 80, 9);
	uint8_t plain[28] = { 0 };

	fill_udp(plain, port);
	plain[0] = (uint8_t)(0x45 + words_of_options);
	memcpy(frame.bytes + HEADER, plain, 20);
	memset(frame.bytes + HEADER + 20, 1, words_of_options * 4u);
	memcpy(frame.bytes + HEADER + 20 + words_of_options * 4u, plain + 20, 8);
	return frame;
}

/* UDP ports without addresses: of IPv4, with options too, and IPv6. */
static void rule_09_raw_flow_of_ports(struct pair *pair)
{
	struct op_flow op = flow_of_type(0, IBV_FLOW_ATTR_NORMAL);
	struct ibv_flow_spec_tcp_udp ports = {
		.type = IBV_FLOW_SPEC_UDP,
		.size = sizeof(ports),
		.val = { .dst_port = htons(4000) },
		.mask = { .dst_port = 0xffff },
	};
	struct op_frame frame;

	raw_pair(pair);
	add_spec(&op, &ports, sizeof(ports));
	create_flow(&pair->b, op);
	post_frames(&pair->b, 0, 1, 8);
	frame = make_udp(4001, 0);
	send_frame(&pair->a, frame, 0);
	frame = make_udp(4000, 0);
	frame.bytes[HEADER + 7] = 1; /* a later fragment has no ports */
	send_frame(&pair->a, frame, 0);
	frame = make_udp(4000, 0);
	frame.bytes[HEADER + 9] = IPPROTO_TCP;
	send_frame(&pair->a, frame, 0);
	frame = make_udp(4000, 0);
	send_frame(&pair->a, frame, 0);
	expect_frame(&pair->b, 1, &frame, 2048);
	frame = make_udp(4000, 3);
	send_frame(&pair->a, frame, 0);
	expect_frame(&pair->b, 2, &frame, 2 * 2048);
	frame = make_frame(ETHERTYPE_IPV6, 80, 8);
	memset(frame.bytes + HEADER, 0, 48);
	frame.bytes[HEADER] = 0x60;
	frame.bytes[HEADER + 5] = 26;
	frame.bytes[HEADER + 6] = IPPROTO_UDP;
	frame.bytes[HEADER + 42] = 4000 >> 8;
	frame.bytes[HEADER + 43] = 4000 & 0xff;
	send_frame(&pair->a, frame, 0);
	expect_frame(&pair->b, 3, &frame, 3 * 2048);
	expect_none(&pair->b, RECEIVES);
}

static void rule_09_raw_flow_of_addresses(struct pair *pair)
{
	struct op_flow op = flow_of_type(0, IBV_FLOW_ATTR_NORMAL);
	struct ibv_flow_spec_ipv4_ext ip = {
		.type = IBV_FLOW_SPEC_IPV4_EXT,
		.size = sizeof(ip),
		.val = { .dst_ip = htonl(0x0a6f0002), .proto = IPPROTO_UDP },
		.mask = { .dst_ip = 0xffffffff, .proto = 0xff },
	};
	struct op_frame frame;

	raw_pair(pair);
	add_spec(&op, &ip, sizeof(ip));
	create_flow(&pair->b, op);
	post_frames(&pair->b, 0, 1, 2);
	frame = make_udp(1, 0);
	frame.bytes[HEADER + 19] = 3;
	send_frame(&pair->a, frame, 0);
	frame = make_udp(2, 0);
	send_frame(&pair->a, frame, 0);
	expect_frame(&pair->b, 1, &frame, 2048);
	expect_none(&pair->b, RECEIVES);
}

/* The tag is in the frame, at both ends. */
static void rule_09_raw_flow_of_vlan(struct pair *pair)
{
	struct op_flow op = flow_of_type(0, IBV_FLOW_ATTR_NORMAL);
	struct ibv_flow_spec_eth eth = {
		.type = IBV_FLOW_SPEC_ETH,
		.size = sizeof(eth),
		.val = { .vlan_tag = htons(0x123) },
		.mask = { .vlan_tag = htons(0xfff) },
	};
	struct op_frame frame;

	raw_pair(pair);
	add_spec(&op, &eth, sizeof(eth));
	create_flow(&pair->b, op);
	post_frames(&pair->b, 0, 1, 2);
	frame = make_frame(ETHERTYPE_VLAN, 100, 5);
	memcpy(frame.bytes + HEADER, "\x01\x24\x88\xb5", 4);
	send_frame(&pair->a, frame, 0);
	memcpy(frame.bytes + HEADER, "\x61\x23\x88\xb5", 4);
	send_frame(&pair->a, frame, 0);
	expect_frame(&pair->b, 1, &frame, 2048);
	expect_none(&pair->b, RECEIVES);
}

static void rule_09_raw_default_flows(struct pair *pair)
{
	struct op_frame frame = make_frame(ETHERTYPE, 60, 1), single;

	raw_pair(pair);
	create_flow(&pair->b, flow_of_type(0, IBV_FLOW_ATTR_MC_DEFAULT));
	post_frames(&pair->b, 0, 1, 2);
	single = frame;
	memcpy(single.bytes, "\x02\x56\x42\x00\x00\x09", 6); /* of no station */
	send_frame(&pair->a, single, 0);
	send_frame(&pair->a, frame, 0);
	expect_frame(&pair->b, 1, &frame, 2048);
	create_flow(&pair->b, flow_of_type(1, IBV_FLOW_ATTR_ALL_DEFAULT));
	send_frame(&pair->a, single, 0);
	expect_frame(&pair->b, 2, &single, 2 * 2048);
	destroy_flow(&pair->b, 1);
	destroy_flow(&pair->b, 0);
	create_flow(&pair->b, flow_of_type(0, IBV_FLOW_ATTR_SNIFFER));
	post_frames(&pair->b, 0, 3, 1);
	send_frame(&pair->a, single, 0);
	expect_frame(&pair->b, 3, &single, 3 * 2048);
}

struct op_counters {
	uint64_t values[2];
	int error;
};

static void op_create_counters(struct side *side, void *argument)
{
	struct op_counters *op = argument;
	struct ibv_counters_init_attr init = { 0 };
	struct ibv_counter_attach_attr bytes = { .counter_desc = IBV_COUNTER_BYTES, .index = 0 };
	struct ibv_counter_attach_attr packets = { .counter_desc = IBV_COUNTER_PACKETS,
						   .index = 1 };

	counters = ibv_create_counters(side->context, &init);
	op->error = counters ? 0 : errno;
	if (!op->error)
		op->error = ibv_attach_counters_point_flow(counters, &bytes, NULL);
	if (!op->error)
		op->error = ibv_attach_counters_point_flow(counters, &packets, NULL);
}

static void op_read_counters(struct side *side, void *argument)
{
	struct op_counters *op = argument;

	op->error = ibv_read_counters(counters, op->values, 2, 0);
}

static void op_destroy_counters(struct side *side, void *argument)
{
	struct op_counters *op = argument;

	op->error = ibv_destroy_counters(counters);
}

/* rule 1 as well: counters stay while a flow has them */
static void rule_09_raw_counters(struct pair *pair)
{
	struct op_flow flow = flow_of_ethertype(0, ETHERTYPE);
	struct op_frame frame = make_frame(ETHERTYPE, 200, 1);
	struct op_counters op = { .error = -1 };

	raw_pair(pair);
	RUN(&pair->b, op_create_counters, &op);
	REQUIRE(op.error == 0, "ibv_create_counters: %s", strerror(op.error));
	flow.with_counters = true;
	create_flow(&pair->b, flow);
	post_frames(&pair->b, 0, 1, 3);
	for (uint64_t i = 1; i <= 3; i++) {
		send_frame(&pair->a, make_frame(OTHER, 60, 2), 0);
		send_frame(&pair->a, frame, 0);
		expect_frame(&pair->b, i, &frame, (uint32_t)i * 2048);
	}
	RUN(&pair->b, op_read_counters, &op);
	REQUIRE(op.error == 0 && op.values[0] == 600 && op.values[1] == 3,
		"%llu bytes, %llu frames", (unsigned long long)op.values[0],
		(unsigned long long)op.values[1]);
	RUN(&pair->b, op_destroy_counters, &op);
	REQUIRE(op.error == EBUSY, "ibv_destroy_counters: %s", strerror(op.error));
	destroy_flow(&pair->b, 0);
	RUN(&pair->b, op_destroy_counters, &op);
	REQUIRE(op.error == 0, "ibv_destroy_counters: %s", strerror(op.error));
}

static void rule_01_raw_qp_with_flow(struct pair *pair)
{
	struct op_frame frame = make_frame(ETHERTYPE, 60, 1);
	struct op_destroy_qp op = { .qp = 0 };

	raw_pair(pair);
	create_flow(&pair->b, flow_of_ethertype(0, ETHERTYPE));
	RUN(&pair->b, op_destroy_qp, &op);
	REQUIRE(op.result == EBUSY, "ibv_destroy_qp: %s", strerror(op.result));
	post_frames(&pair->b, 0, 1, 1);
	send_frame(&pair->a, frame, 0);
	expect_frame(&pair->b, 1, &frame, 2048);
	destroy_flow(&pair->b, 0);
	RUN(&pair->b, op_destroy_qp, &op);
	REQUIRE(op.result == 0, "ibv_destroy_qp: %s", strerror(op.result));
}

static void expect_no_flow(struct end *end, struct op_flow op, int error)
{
	RUN(end, op_create_flow, &op);
	REQUIRE(op.error == error, "ibv_create_flow: %s, expected %s", strerror(op.error),
		strerror(error));
}

static void rule_09_raw_bad_flows(struct pair *pair)
{
	struct ibv_flow_spec_action_drop drop = { IBV_FLOW_SPEC_ACTION_DROP, sizeof(drop) };
	struct ibv_flow_spec_eth eth = { .type = IBV_FLOW_SPEC_ETH, .size = 8 };
	struct op_flow op;

	raw_pair(pair);
	op = flow_of_ethertype(0, ETHERTYPE);
	op.list.attr.port = 2;
	expect_no_flow(&pair->a, op, EINVAL);
	op = flow_of_ethertype(0, ETHERTYPE);
	op.list.attr.comp_mask = 1;
	expect_no_flow(&pair->a, op, EINVAL);
	op = flow_of_ethertype(0, ETHERTYPE);
	op.list.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	expect_no_flow(&pair->a, op, EOPNOTSUPP);
	expect_no_flow(&pair->a, flow_of_type(0, (enum ibv_flow_attr_type)9), EOPNOTSUPP);
	op = flow_of_type(0, IBV_FLOW_ATTR_NORMAL);
	add_spec(&op, &drop, sizeof(drop));
	expect_no_flow(&pair->a, op, EOPNOTSUPP);
	op = flow_of_type(0, IBV_FLOW_ATTR_NORMAL);
	add_spec(&op, &eth, sizeof(eth));
	expect_no_flow(&pair->a, op, EINVAL);
	REQUIRE(try_send(&pair->a, 0, WRITE(&pair->b, 0, .length = 8)) == EINVAL,
		"a WRITE of raw Ethernet");
	REQUIRE(try_send(&pair->a, 0, SEND(.length = 60, .flags = IBV_SEND_IP_CSUM)) == EINVAL,
		"a checksum that nobody computes");
}

/* Other types of QP have no flows. */
static void rule_09_flows_of_other_types(struct pair *pair)
{
	const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct side *side = side_open(WITH());

	for (int i = 0; i < 3; i++) {
		struct op_flow op = flow_of_ethertype(0, ETHERTYPE);

		side->qp[0] = side_create_qp(side, WITH(.type = types[i]));
		op_create_flow(side, &op);
		REQUIRE(op.error == (types[i] == IBV_QPT_UD ? EOPNOTSUPP : EINVAL),
			"QP type %d: %s", types[i], strerror(op.error));
	}
}

/* Without the right to open packet sockets there is an error, and no QP. */
static void rule_02_raw_without_capability(struct pair *pair)
{
	struct side *side = side_open(raw_options());

	if (setresuid(65534, 65534, 65534) < 0)
		skip_because("cannot become another user: %s", strerror(errno));
	errno = 0;
	REQUIRE(!side_create_qp(side, WITH(.type = IBV_QPT_RAW_PACKET)) && errno == EPERM,
		"errno %d", errno);
}

static const struct test tests[] = {
	PAIR(rule_09_raw_frames),
	PAIR(rule_12_raw_frames_dropped),
	PAIR(rule_16_raw_frame_lengths),
	PAIR(rule_09_raw_flow_of_ports),
	PAIR(rule_09_raw_flow_of_addresses),
	PAIR(rule_09_raw_flow_of_vlan),
	PAIR(rule_09_raw_default_flows),
	PAIR(rule_09_raw_counters),
	PAIR(rule_01_raw_qp_with_flow),
	PAIR(rule_09_raw_bad_flows),
	HERE(rule_09_flows_of_other_types),
	HERE(rule_02_raw_without_capability),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
