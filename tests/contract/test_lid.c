/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of either link layer: of an InfiniBand port (LIDs, no GRH) and of an Ethernet port. Run
 * in both modes, each of which skips the other's tests.
 */
#include <stdlib.h>

#include "expect.h"
#include "networks.h"

static bool is_infiniband(struct ibv_context *context, struct ibv_port_attr *port)
{
	REQUIRE(ibv_query_port(context, 1, port) == 0, "ibv_query_port");
	return port->link_layer == IBV_LINK_LAYER_INFINIBAND;
}

static void rule_09_port(struct pair *pair)
{
	struct ibv_context *context = side_open_device();
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (!is_infiniband(context, &port)) {
		REQUIRE(port.link_layer == IBV_LINK_LAYER_ETHERNET && port.lid == 0,
			"an Ethernet port");
		REQUIRE(port.flags & IBV_QPF_GRH_REQUIRED, "a GRH is required");
		return;
	}
	REQUIRE(port.lid && port.sm_lid && port.state == IBV_PORT_ACTIVE, "LID %u", port.lid);
	REQUIRE(!(port.flags & IBV_QPF_GRH_REQUIRED), "a GRH is required");
	REQUIRE(ibv_query_gid(context, 1, 0, &gid) == 0 && gid.raw[0] == 0xfe && gid.raw[1] == 0x80,
		"GID 0 has no subnet prefix");
	REQUIRE(ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0 &&
			entry.gid_type == IBV_GID_TYPE_IB && entry.ndev_ifindex == 0,
		"GID 0 is of Ethernet");
}

static struct ibv_ah_attr by_lid(const struct end *end)
{
	return (struct ibv_ah_attr){ .dlid = end->lid, .port_num = 1 };
}

static struct ibv_ah_attr by_gid(const struct end *end)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.grh = { .dgid = end->gid, .hop_limit = 3, .traffic_class = 8 },
		.dlid = end->lid,
		.port_num = 1
	};
}

static void use_address(struct end *end, struct ibv_ah_attr attr)
{
	struct ibv_ah *ah = ibv_create_ah(end->side->pd, &attr);

	REQUIRE(ah, "ibv_create_ah: %s", strerror(errno));
	end->side->ah = ah;
}

/* Without GRH the first 40 bytes are undefined, and the answer goes to slid. */
static void rule_25_datagrams_by_lid(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_grh *grh;
	struct ibv_port_attr port;
	struct ibv_ah *back;
	struct ibv_wc wc;

	pair_connect(pair, WITH(.type = IBV_QPT_UD));
	if (!is_infiniband(a->side->context, &port))
		skip_because("an Ethernet port");
	grh = (struct ibv_grh *)b->side->buf;
	fill(a, 0, 64, 4);
	use_address(a, by_lid(b));
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 40 + 64));
	post_send(a, 0, DATAGRAM(b, .wr_id = 1, .length = 64));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	wc = expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	REQUIRE(wc.byte_len == 104 && !(wc.wc_flags & IBV_WC_GRH), "flags 0x%x", wc.wc_flags);
	REQUIRE(wc.slid == a->lid, "slid %u is not %u", wc.slid, a->lid);
	REQUIRE(memcmp(b->side->buf + 40, a->side->buf, 64) == 0, "the data");
	back = ibv_create_ah_from_wc(b->side->pd, &wc, grh, 1);
	REQUIRE(back, "ibv_create_ah_from_wc: %s", strerror(errno));
	b->side->ah = back;
	post_receive(a, 0, RECEIVE(.wr_id = 51, .offset = 4096, .length = 40 + 64));
	post_send(b, 0, DATAGRAM(a, .wr_id = 2, .length = 8));
	expect(a, RECEIVES, 51, IBV_WC_SUCCESS);

	/* with GRH: it is one of InfiniBand */
	use_address(a, by_gid(b));
	post_receive(b, 0, RECEIVE(.wr_id = 52, .length = 40 + 64));
	post_send(a, 0, DATAGRAM(b, .wr_id = 3, .length = 64));
	wc = expect(b, RECEIVES, 52, IBV_WC_SUCCESS);
	REQUIRE(wc.wc_flags & IBV_WC_GRH && wc.slid == a->lid, "flags 0x%x", wc.wc_flags);
	REQUIRE(ntohl(grh->version_tclass_flow) >> 28 == 6 && grh->next_hdr == 0x1b &&
			grh->hop_limit == 3 && (ntohl(grh->version_tclass_flow) >> 20 & 0xff) == 8,
		"the GRH's fields");
	REQUIRE(memcmp(&grh->sgid, &a->gid, 16) == 0 && memcmp(&grh->dgid, &b->gid, 16) == 0,
		"the GRH's addresses");
	back = ibv_create_ah_from_wc(b->side->pd, &wc, grh, 1);
	REQUIRE(back, "ibv_create_ah_from_wc: %s", strerror(errno));
	b->side->ah = back;
	post_receive(a, 0, RECEIVE(.wr_id = 53, .offset = 4096, .length = 40 + 64));
	post_send(b, 0, DATAGRAM(a, .wr_id = 4, .length = 8));
	REQUIRE(expect(a, RECEIVES, 53, IBV_WC_SUCCESS).wc_flags & IBV_WC_GRH, "the answer's GRH");
}

/* Connections by LID alone, by GID, and to no host; ibv_query_qp returns the attributes as set. */
static void rule_10_connect_by_lid(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .rq_psn = 0x123456,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 1 };
	const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_init_attr init;
	struct ibv_port_attr port;

	pair_make(pair, WITH(.qps = 2));
	if (!is_infiniband(a->side->context, &port))
		skip_because("an Ethernet port");
	for (int qp = 0; qp < 2; qp++) {
		REQUIRE(end_move(a, b, qp, IBV_QPS_INIT) == 0, "INIT");
		attr.dest_qp_num = b->qpn[qp];
		attr.ah_attr = (struct ibv_ah_attr){ .port_num = 1 };
		REQUIRE(end_modify(a, qp, attr, mask) == EINVAL, "dlid 0");
		attr.ah_attr = qp ? by_gid(b) : by_lid(b);
		REQUIRE(end_modify(a, qp, attr, mask) == 0, "RTR");
		REQUIRE(end_move(a, b, qp, IBV_QPS_RTS) == 0, "RTS");
		end_ready(b, a, qp);
		REQUIRE(ibv_query_qp(a->side->qp[qp], &attr, IBV_QP_AV, &init) == 0,
			"ibv_query_qp");
		REQUIRE(attr.ah_attr.is_global == qp && attr.ah_attr.dlid == b->lid, "the address");
		if (qp)
			REQUIRE(memcmp(&attr.ah_attr.grh.dgid, &b->gid, 16) == 0, "the dgid");
		attr.qp_state = IBV_QPS_RTR;
		expect_working(pair, qp);
	}
}

/*
 * Needs a cable: on loopback each LID names an address of 127.0.0.0/8, and all of these are this
 * host's.
 */
static void rule_21_nobody_has_this_lid(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	const char *lacks = networks_make();
	struct end nobody;
	struct ibv_port_attr port;

	if (lacks)
		skip_because("%s", lacks);
	pair_make(pair, WITH(.timeout = 8, .retry_cnt = 1));
	if (!is_infiniband(a->side->context, &port))
		skip_because("an Ethernet port");
	nobody = *b;
	nobody.lid = (uint16_t)(b->lid ^ 0x4321);
	end_ready(a, &nobody, 0);
	end_ready(b, a, 0);
	post_send(a, 0, WRITE(b, 0, .wr_id = 1, .length = 8));
	expect(a, SENDS, 1, IBV_WC_RETRY_EXC_ERR);
}

static void rule_09_ethernet_needs_a_gid(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_ah_attr attr = { .dlid = 1, .port_num = 1 };
	struct ibv_port_attr port;

	if (is_infiniband(side->context, &port))
		skip_because("an InfiniBand port");
	REQUIRE(!ibv_create_ah(side->pd, &attr), "an address without GRH");
}

static const struct test tests[] = {
	HERE(rule_09_port),
	HERE(rule_25_datagrams_by_lid),
	HERE(rule_10_connect_by_lid),
	HERE(rule_21_nobody_has_this_lid),
	HERE(rule_09_ethernet_needs_a_gid),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
