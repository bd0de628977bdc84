/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions beside objects and queues: of devices, addresses and files, and for connection
 * managers. Rule 9. Those that no header declares are found by name.
 */
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "expect.h"

/* Sets a pointer to a function to the symbol of that name and version. */
#define FIND(pointer, name, version)                                                               \
	do {                                                                                       \
		void *symbol = dlvsym(RTLD_DEFAULT, name, version);                                \
		REQUIRE(symbol, "%s@%s: %s", name, version, dlerror());                            \
		memcpy(&(pointer), &symbol, sizeof(symbol));                                       \
	} while (0)

/* The index tells a device from others, and stays its own. */
static void rule_09_device_index(struct pair *pair)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	int (*get_index)(struct ibv_device *);

	FIND(get_index, "ibv_get_device_index", "IBVERBS_1.9");
	REQUIRE(list && count > 0, "ibv_get_device_list");
	for (int i = 0; i < count; i++) {
		REQUIRE(get_index(list[i]) >= 0, "%s: %d", ibv_get_device_name(list[i]),
			get_index(list[i]));
		REQUIRE(ibv_get_device_guid(list[i]) != 0, "%s has no GUID",
			ibv_get_device_name(list[i]));
		for (int j = 0; j < i; j++)
			REQUIRE(get_index(list[i]) != get_index(list[j]),
				"%d and %d have one index", i, j);
	}
	ibv_free_device_list(list);
}

/* All ways of asking for a GID agree. */
static void rule_09_gids(struct pair *pair)
{
	struct ibv_context *context = side_open_device();
	struct ibv_gid_entry entry, table[64];
	struct ibv_port_attr port;
	union ibv_gid gid;
	ssize_t count;
	int (*query_type)(struct ibv_context *, uint8_t, unsigned int, int *), type = -1;
	char name[IF_NAMESIZE];

	REQUIRE(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
	REQUIRE(ibv_query_gid(context, 1, 0, &gid) == 0 && gid.global.interface_id, "GID 0");
	REQUIRE(ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0, "ibv_query_gid_ex");
	REQUIRE(!memcmp(&entry.gid, &gid, sizeof(gid)) && entry.gid_index == 0 &&
			entry.port_num == 1,
		"it is another GID");
	REQUIRE(port.link_layer != IBV_LINK_LAYER_ETHERNET ||
			entry.gid_type == IBV_GID_TYPE_ROCE_V2,
		"type %u", entry.gid_type);
	REQUIRE(if_indextoname(entry.ndev_ifindex, name), "interface %u", entry.ndev_ifindex);
	REQUIRE(ibv_query_gid_ex(context, 1, (uint32_t)port.gid_tbl_len - 1, &entry, 0) == ENODATA,
		"the last entry is not empty");
	REQUIRE(ibv_query_gid_ex(context, 1, (uint32_t)port.gid_tbl_len, &entry, 0) == EINVAL,
		"behind it");
	REQUIRE(ibv_query_gid_ex(context, 1, 0, &entry, 1) == EINVAL, "unknown flags");
	count = ibv_query_gid_table(context, table, 64, 0);
	REQUIRE(count > 0 && count < 64 && !memcmp(&table[0].gid, &gid, sizeof(gid)), "%zd entries",
		count);
	REQUIRE(ibv_query_gid_table(context, table, (size_t)count - 1, 0) == -EINVAL,
		"a shorter table");
	FIND(query_type, "ibv_query_gid_type", "IBVERBS_PRIVATE_34");
	REQUIRE(query_type(context, 1, 0, &type) == 0 && type >= 0, "ibv_query_gid_type");
	REQUIRE(query_type(context, 9, 0, &type) != 0, "port 9");
}

/* Converts the kernel's structs, as connection managers do. */
static void rule_09_attributes_of_kernels(struct pair *pair)
{
	void (*copy)(struct ibv_qp_attr *, struct ib_uverbs_qp_attr *);
	struct ib_uverbs_qp_attr from;
	struct ibv_qp_attr to;

	memset(&from, 0, sizeof(from));
	memset(&to, 0, sizeof(to));
	from.cur_qp_state = IBV_QPS_RTR;
	from.path_mtu = IBV_MTU_4096;
	from.dest_qp_num = 0x123456;
	from.rq_psn = 7;
	from.sq_psn = 8;
	from.ah_attr.grh.dgid[15] = 9;
	from.ah_attr.grh.sgid_index = 2;
	from.ah_attr.is_global = 1;
	from.ah_attr.port_num = 1;
	from.timeout = 14;
	from.retry_cnt = 6;
	from.rnr_retry = 5;
	from.max_rd_atomic = 4;
	from.max_dest_rd_atomic = 3;
	from.qkey = 0x80010000;
	FIND(copy, "ibv_copy_qp_attr_from_kern", "IBVERBS_1.0");
	copy(&to, &from);
	REQUIRE(to.cur_qp_state == IBV_QPS_RTR && to.path_mtu == IBV_MTU_4096 &&
			to.dest_qp_num == 0x123456 && to.rq_psn == 7 && to.sq_psn == 8,
		"the connection");
	REQUIRE(to.ah_attr.grh.dgid.raw[15] == 9 && to.ah_attr.grh.sgid_index == 2 &&
			to.ah_attr.is_global == 1 && to.ah_attr.port_num == 1,
		"the address");
	REQUIRE(to.timeout == 14 && to.retry_cnt == 6 && to.rnr_retry == 5 &&
			to.max_rd_atomic == 4 && to.max_dest_rd_atomic == 3 &&
			to.qkey == 0x80010000,
		"the rest");
}

/* A file without its newline, whatever directory it is in. */
static void rule_09_files(struct pair *pair)
{
	char directory[] = "/tmp/verbatim-helpers-XXXXXX", path[64], text[16];
	const char *(*get_path)(void);
	int (*read_file)(const char *, const char *, char *, size_t);
	FILE *file;

	FIND(get_path, "ibv_get_sysfs_path", "IBVERBS_1.0");
	FIND(read_file, "ibv_read_sysfs_file", "IBVERBS_1.0");
	REQUIRE(get_path() && get_path()[0] == '/', "ibv_get_sysfs_path");
	REQUIRE(mkdtemp(directory), "mkdtemp");
	snprintf(path, sizeof(path), "%s/state", directory);
	file = fopen(path, "w");
	REQUIRE(file && fputs("4: ACTIVE\n", file) >= 0 && fclose(file) == 0, "writing %s", path);
	REQUIRE(read_file(directory, "state", text, sizeof(text)) == 9 &&
			!strcmp(text, "4: ACTIVE"),
		"%s", text);
	REQUIRE(read_file(directory, "missing", text, sizeof(text)) < 0,
		"a file that is not there");
	unlink(path);
	rmdir(directory);
}

/* The Ethernet address of a GID: of this port, and of a group. */
static void rule_09_ethernet_address(struct pair *pair)
{
	struct ibv_context *context = side_open_device();
	int (*resolve)(struct ibv_context *, struct ibv_ah_attr *, uint8_t[6], uint16_t *);
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	uint8_t mac[6] = { 0 };
	uint16_t vlan = 0;

	FIND(resolve, "ibv_resolve_eth_l2_from_gid", "IBVERBS_1.1");
	REQUIRE(ibv_query_gid(context, 1, 0, &attr.grh.dgid) == 0, "ibv_query_gid");
	REQUIRE(resolve(context, &attr, mac, &vlan) == 0 && vlan == 0xffff, "our own address");
	memset(&attr.grh.dgid, 0, sizeof(attr.grh.dgid));
	attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff;
	memcpy(&attr.grh.dgid.raw[12], "\xe0\x81\x02\x03", 4);
	REQUIRE(resolve(context, &attr, mac, NULL) == 0 &&
			!memcmp(mac, "\x01\x00\x5e\x01\x02\x03", 6),
		"224.129.2.3");
	memset(&attr.grh.dgid, 0, sizeof(attr.grh.dgid));
	memcpy(attr.grh.dgid.raw, "\xff\x0e", 2);
	memcpy(&attr.grh.dgid.raw[12], "\x01\x02\x03\x04", 4);
	REQUIRE(resolve(context, &attr, mac, NULL) == 0 &&
			!memcmp(mac, "\x33\x33\x01\x02\x03\x04", 6),
		"ff0e::102:304");
}

struct op_mac {
	union ibv_gid gid;
	uint8_t mac[6];
	int error;
};

static void op_resolve(struct side *side, void *argument)
{
	int (*resolve)(struct ibv_context *, struct ibv_ah_attr *, uint8_t[6], uint16_t *);
	struct op_mac *op = argument;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.dgid = op->gid };

	FIND(resolve, "ibv_resolve_eth_l2_from_gid", "IBVERBS_1.1");
	op->error = resolve(side->context, &attr, op->mac, NULL);
}

/* An end finds the same address of the other as that end has for itself. */
static void rule_09_ethernet_address_of_the_peer(struct pair *pair)
{
	struct op_mac here, there;

	pair_make(pair, WITH());
	here.gid = there.gid = pair->b.gid;
	RUN(&pair->a, op_resolve, &here);
	RUN(&pair->b, op_resolve, &there);
	REQUIRE(here.error == 0, "asked by a: %s", strerror(here.error));
	REQUIRE(there.error == 0, "asked by b: %s", strerror(there.error));
	REQUIRE(!memcmp(here.mac, there.mac, 6), "they differ");
}

static void rule_09_names(struct pair *pair)
{
	const char *(*opcode)(enum ibv_wr_opcode);

	FIND(opcode, "ibv_wr_opcode_str", "IBVERBS_PRIVATE_34");
	REQUIRE(opcode(IBV_WR_RDMA_READ) && strstr(opcode(IBV_WR_RDMA_READ), "READ"), "RDMA_READ");
	REQUIRE(opcode((enum ibv_wr_opcode)999), "an opcode that is none");
	for (int i = -1; i < 40; i++) {
		REQUIRE(ibv_wc_status_str((enum ibv_wc_status)i), "status %d", i);
		REQUIRE(ibv_event_type_str((enum ibv_event_type)i), "event %d", i);
		REQUIRE(ibv_port_state_str((enum ibv_port_state)i), "state %d", i);
		REQUIRE(ibv_node_type_str((enum ibv_node_type)i), "node type %d", i);
	}
}

/* Verbs that are not offered fail: no crash, no success. */
static void rule_09_not_offered(struct pair *pair)
{
	struct side *side = side_open(WITH());
	struct ibv_qp *qp = side_create_qp(side, WITH());
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ,
				       .max_wr = 1,
				       .max_sge = 1,
				       .pd = side->pd,
				       .cq = side->cq[SENDS] };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_flow_action_esp_attr esp = { 0 };
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1 };
	struct ibv_srq_init_attr_ex tm = { .comp_mask =
						   IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					   .srq_type = IBV_SRQT_TM,
					   .pd = side->pd,
					   .attr = { .max_wr = 4, .max_sge = 1 } };

	REQUIRE(!ibv_create_wq(side->context, &wq) && errno == EOPNOTSUPP, "ibv_create_wq: %d",
		errno);
	REQUIRE(!ibv_create_rwq_ind_table(side->context, &table) && errno == EOPNOTSUPP,
		"ibv_create_rwq_ind_table: %d", errno);
	REQUIRE(!ibv_create_flow_action_esp(side->context, &esp) && errno == EOPNOTSUPP,
		"ibv_create_flow_action_esp: %d", errno);
	REQUIRE(ibv_modify_qp_rate_limit(qp, &rate) == EOPNOTSUPP, "ibv_modify_qp_rate_limit");
	REQUIRE(!ibv_create_srq_ex(side->context, &tm) && (errno == EOPNOTSUPP || errno == EINVAL),
		"an SRQ with tag matching: %d", errno);
}

/* Other descriptors are refused. */
static void rule_09_no_dmabuf(struct pair *pair)
{
	struct side *side = side_open(WITH());
	FILE *file = tmpfile();

	REQUIRE(!ibv_reg_dmabuf_mr(side->pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE) &&
			errno == EBADF,
		"descriptor -1: %d", errno);
	REQUIRE(file && ftruncate(fileno(file), 8192) == 0, "tmpfile");
	REQUIRE(!ibv_reg_dmabuf_mr(side->pd, 0, 4096, 0, fileno(file), IBV_ACCESS_LOCAL_WRITE) &&
			(errno == EINVAL || errno == EOPNOTSUPP),
		"a file: %d", errno);
}

static const struct test tests[] = {
	HERE(rule_09_device_index),
	HERE(rule_09_gids),
	HERE(rule_09_attributes_of_kernels),
	HERE(rule_09_files),
	HERE(rule_09_ethernet_address),
	PAIR(rule_09_ethernet_address_of_the_peer),
	HERE(rule_09_names),
	HERE(rule_09_not_offered),
	HERE(rule_09_no_dmabuf),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
