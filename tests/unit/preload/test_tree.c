/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tree: each path that a listing shows is found again, and has a text or a reason to have none.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/counter.h"
#include "preload/counters.h"
#include "preload/tree.h"
#include "verbatimd.h"

static struct interface interfaces[] = {
	{ .name = "eth7",
	  .index = 7,
	  .running = true,
	  .mac = { 2, 0xfc, 0, 0, 0, 1 },
	  .ipv4 = 1,
	  .ipv6 = 1,
	  .gid = { { .raw = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 9 } },
		   { .raw = { 0xfd, [15] = 9 } } } },
	{ .name = "lo",
	  .index = 1,
	  .loopback = true,
	  .ipv4 = 1,
	  .gid = { { .raw = { [15] = 1 } } } },
};

static const struct view two = { .devices = interfaces, .count = 2 };
static const struct view none = { .devices = interfaces, .count = 0 };

#define PORT	"/sys/devices/verbatim/vrb_eth7/infiniband/vrb_eth7/ports/1"
#define LO_PORT "/sys/devices/verbatim/vrb_lo/infiniband/vrb_lo/ports/1"

static void texts(void **state)
{
	static const struct {
		const char *path, *text;
	} rows[] = {
		{ "/sys/class/infiniband/vrb_lo",
		  "../../devices/verbatim/vrb_lo/infiniband/vrb_lo" },
		{ "/sys/devices/verbatim/vrb_eth7/net/eth7", "../../../../class/net/eth7" },
		{ "/sys/devices/verbatim/vrb_eth7/infiniband/vrb_eth7/device",
		  "../../../vrb_eth7" },
		{ "/sys/devices/verbatim/vrb_eth7/infiniband/vrb_eth7/node_type", "1: CA\n" },
		{ "/sys/devices/verbatim/vrb_eth7/infiniband/vrb_eth7/node_guid",
		  "00fc:00ff:fe00:0001\n" },
		{ "/sys/devices/verbatim/vrb_lo/infiniband_verbs/uverbs1/ibdev", "vrb_lo\n" },
		{ "/sys/devices/verbatim/vrb_lo/infiniband_verbs/uverbs1/dev", "231:193\n" },
		{ "/sys/devices/verbatim/vrb_lo/infiniband/vrb_lo/ports/1/state", "1: DOWN\n" },
		{ "/sys/devices/verbatim/vrb_lo/numa_node", "-1\n" },
		{ PORT "/state", "4: ACTIVE\n" },
		{ PORT "/phys_state", "5: LinkUp\n" },
		{ PORT "/link_layer", "Ethernet\n" },
		{ PORT "/gids/0", "0000:0000:0000:0000:0000:ffff:c000:0209\n" },
		{ PORT "/gids/1", "fd00:0000:0000:0000:0000:0000:0000:0009\n" },
		{ PORT "/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n" },
		{ PORT "/gid_attrs/types/1", "RoCE v2\n" },
		{ PORT "/gid_attrs/ndevs/1", "eth7\n" },
		{ PORT "/pkeys/0", "0xffff\n" },
	};
	char text[TREE_TEXT_MAX];
	struct node node;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_true(tree_find(&two, rows[i].path, &node));
		assert_string_equal(node.path, rows[i].path);
		assert_int_equal(tree_text(&two, &node, text, sizeof(text)), strlen(rows[i].text));
		assert_string_equal(text, rows[i].text);
	}
}

static void empty_gid_has_no_attributes(void **state)
{
	char text[TREE_TEXT_MAX];
	struct node node;

	assert_true(tree_find(&two, PORT "/gid_attrs/types/2", &node));
	assert_int_equal(tree_text(&two, &node, text, sizeof(text)), -EINVAL);
	assert_true(tree_find(&two, PORT "/gid_attrs/ndevs/15", &node));
	assert_int_equal(tree_text(&two, &node, text, sizeof(text)), -EINVAL);
}

static void pass_ms(uint64_t ms)
{
	verbatimd_now_ns += ms * 1000000;
}

/* Once the answer to the last question is too old. */
static void find_text(const char *path, char text[TREE_TEXT_MAX])
{
	struct node node;

	pass_ms(COUNTERS_LIFESPAN_MS);

	assert_true(tree_find(&two, path, &node));
	assert_true(tree_text(&two, &node, text, TREE_TEXT_MAX) > 0);
	assert_int_equal(tree_size(&two, &node), TREE_COUNTER_SIZE);
}

#define EVENT(name) (CTL_EVENT + COUNTER_##name)

/* Each number by its names; data in units of 4 bytes. */
static void counters(void **state)
{
	static const struct {
		const char *path, *text;
		unsigned count;
	} rows[] = {
		{ PORT "/counters/port_xmit_data", "1001\n", CTL_SENT_BYTES },
		{ PORT "/counters/port_rcv_data", "1001\n", CTL_RECEIVED_BYTES },
		{ PORT "/counters/unicast_xmit_packets", "4007\n", CTL_SENT_UNICAST },
		{ PORT "/counters/unicast_rcv_packets", "4007\n", CTL_RECEIVED_UNICAST },
		{ PORT "/counters/multicast_xmit_packets", "4007\n", CTL_SENT_MULTICAST },
		{ PORT "/counters/multicast_rcv_packets", "4007\n", CTL_RECEIVED_MULTICAST },
		{ PORT "/counters/port_rcv_errors", "4007\n", EVENT(RX_ICRC_ENCAPSULATED) },
		{ PORT "/hw_counters/duplicate_request", "4007\n", EVENT(DUPLICATE_REQUEST) },
		{ PORT "/hw_counters/out_of_sequence", "4007\n", EVENT(OUT_OF_SEQUENCE) },
		{ PORT "/hw_counters/out_of_seq_request", "4007\n", EVENT(OUT_OF_SEQUENCE) },
		{ PORT "/hw_counters/packet_seq_err", "4007\n", EVENT(PACKET_SEQ_ERR) },
		{ PORT "/hw_counters/rcvd_seq_err", "4007\n", EVENT(PACKET_SEQ_ERR) },
		{ PORT "/hw_counters/send_rnr_err", "4007\n", EVENT(SEND_RNR_ERR) },
		{ PORT "/hw_counters/rcvd_rnr_err", "4007\n", EVENT(RCVD_RNR_ERR) },
	};
	char text[TREE_TEXT_MAX];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(verbatimd_counts, 0, sizeof(verbatimd_counts));
		find_text(rows[i].path, text);
		assert_string_equal(text, "0\n");
		verbatimd_counts[rows[i].count] = 4007;
		find_text(rows[i].path, text);
		assert_string_equal(text, rows[i].text);
		assert_string_equal(verbatimd_device, "vrb_eth7");
	}
	memset(verbatimd_counts, 0, sizeof(verbatimd_counts));
	verbatimd_counts[CTL_SENT_UNICAST] = UINT64_MAX - 5;
	verbatimd_counts[CTL_SENT_MULTICAST] = 5;
	verbatimd_counts[CTL_RECEIVED_UNICAST] = 60;
	verbatimd_counts[CTL_RECEIVED_MULTICAST] = 15;
	find_text(PORT "/counters/port_xmit_packets", text);
	assert_string_equal(text, "18446744073709551615\n");
	find_text(PORT "/hw_counters/sent_pkts", text);
	assert_string_equal(text, "18446744073709551615\n");
	find_text(PORT "/counters/port_rcv_packets", text);
	assert_string_equal(text, "75\n");
	find_text(PORT "/hw_counters/rcvd_pkts", text);
	assert_string_equal(text, "75\n");
}

static void a_stat_of_a_counter_asks_nobody(void **state)
{
	struct node node;

	verbatimd_asked = 0;
	assert_true(tree_find(&two, PORT "/hw_counters/sent_pkts", &node));
	assert_int_equal(tree_size(&two, &node), TREE_COUNTER_SIZE);
	assert_int_equal(verbatimd_asked, 0);
	assert_true(tree_find(&two, PORT "/hw_counters/lifespan", &node));
	assert_int_equal(tree_size(&two, &node), 3);
}

/* No daemon: nobody has counted. One that does not answer: not known. */
static void counters_without_verbatimd(void **state)
{
	char text[TREE_TEXT_MAX];
	struct node node;

	verbatimd_counts[CTL_SENT_UNICAST] = 7;
	verbatimd_error = -ECONNREFUSED;
	find_text(PORT "/counters/port_xmit_packets", text);
	assert_string_equal(text, "0\n");
	verbatimd_error = -ETIMEDOUT;
	pass_ms(COUNTERS_LIFESPAN_MS);
	assert_true(tree_find(&two, PORT "/counters/port_xmit_packets", &node));
	assert_int_equal(tree_text(&two, &node, text, sizeof(text)), -EIO);
	verbatimd_error = 0;
	pass_ms(COUNTERS_FAILURE_MS);
}

/* What a file has now: the number, or -errno. */
static int number_at(const char *path)
{
	char text[TREE_TEXT_MAX];
	struct node node;
	int rc;

	assert_true(tree_find(&two, path, &node));
	rc = tree_text(&two, &node, text, sizeof(text));
	return rc < 0 ? rc : atoi(text);
}

/* All files of a device have one answer, for as long as lifespan says. */
static void one_question_is_for_all_files(void **state)
{
	char text[TREE_TEXT_MAX];

	memset(verbatimd_counts, 0, sizeof(verbatimd_counts));
	verbatimd_counts[CTL_SENT_UNICAST] = verbatimd_counts[CTL_RECEIVED_UNICAST] = 7;
	find_text(PORT "/counters/unicast_xmit_packets", text);
	verbatimd_asked = 0;
	verbatimd_counts[CTL_SENT_UNICAST] = verbatimd_counts[CTL_RECEIVED_UNICAST] = 8;
	pass_ms(COUNTERS_LIFESPAN_MS - 1);
	assert_int_equal(number_at(PORT "/counters/unicast_xmit_packets"), 7);
	assert_int_equal(number_at(PORT "/counters/unicast_rcv_packets"), 7);
	assert_int_equal(verbatimd_asked, 0);
	assert_int_equal(number_at(LO_PORT "/counters/unicast_rcv_packets"), 8);
	assert_int_equal(number_at(PORT "/counters/unicast_xmit_packets"), 7);
	assert_int_equal(verbatimd_asked, 1);
	pass_ms(1);
	assert_int_equal(number_at(PORT "/counters/unicast_rcv_packets"), 8);
	assert_int_equal(verbatimd_asked, 2);
}

/* A program that reads them all does not wait for each. */
static void a_failure_is_remembered(void **state)
{
	pass_ms(COUNTERS_LIFESPAN_MS);
	verbatimd_error = -EAGAIN;
	verbatimd_counts[CTL_SENT_UNICAST] = 9;
	assert_int_equal(number_at(PORT "/counters/unicast_xmit_packets"), -EIO);
	verbatimd_error = 0;
	verbatimd_asked = 0;
	pass_ms(COUNTERS_FAILURE_MS - 1);
	assert_int_equal(number_at(PORT "/counters/unicast_xmit_packets"), -EIO);
	assert_int_equal(verbatimd_asked, 0);
	pass_ms(1);
	assert_int_equal(number_at(PORT "/counters/unicast_xmit_packets"), 9);
}

/* That the program has too many open files is told as such, and no answer of verbatimd. */
static void want_of_descriptors_is_not_remembered(void **state)
{
	pass_ms(COUNTERS_LIFESPAN_MS);
	verbatimd_error = -EMFILE;
	assert_int_equal(number_at(PORT "/counters/unicast_xmit_packets"), -EMFILE);
	verbatimd_error = 0;
	assert_int_equal(number_at(PORT "/counters/unicast_xmit_packets"), 9);
}

/* More of them than there is room for: each is asked for by its name. */
static void many_devices_are_not_confused(void **state)
{
	static struct interface many[40];
	struct view view = { .devices = many, .count = 40 };
	char path[TREE_PATH_MAX], text[TREE_TEXT_MAX];
	struct node node;

	pass_ms(COUNTERS_LIFESPAN_MS);
	for (unsigned round = 0; round < 2; round++) {
		for (int i = 0; i < 40; i++) {
			snprintf(many[i].name, sizeof(many[i].name), "eth%d", i);
			snprintf(path, sizeof(path),
				 "/sys/devices/verbatim/vrb_eth%d/infiniband/vrb_eth%d/ports/1/"
				 "counters/unicast_xmit_packets",
				 i, i);
			assert_true(tree_find(&view, path, &node));
			verbatimd_counts[CTL_SENT_UNICAST] = (uint64_t)i;
			pass_ms(i % 3);
			assert_true(tree_text(&view, &node, text, sizeof(text)) > 0);
			assert_int_equal(atoi(text), i);
		}
	}
}

static int see_no_counters(void *context, const char *name, enum node_kind kind)
{
	return strstr(name, "counters") != NULL;
}

static void an_rnic_has_no_counters(void **state)
{
	struct view rnics = { .devices = interfaces, .count = 2, .iwarp = true };
	struct node node;

	assert_true(tree_find(&rnics, PORT, &node));
	assert_int_equal(tree_list(&rnics, &node, see_no_counters, NULL), 0);
	assert_false(tree_find(&rnics, PORT "/counters", &node));
	assert_false(tree_find(&rnics, PORT "/counters/port_rcv_data", &node));
	assert_false(tree_find(&rnics, PORT "/hw_counters/lifespan", &node));
}

static void infiniband(void **state)
{
	static const struct {
		const char *path, *text;
	} rows[] = {
		{ PORT "/link_layer", "InfiniBand\n" },
		{ PORT "/lid", "0x209\n" },
		{ PORT "/sm_lid", "0x209\n" },
		{ PORT "/state", "4: ACTIVE\n" },
		{ PORT "/gids/0", "fe80:0000:0000:0000:0200:5efe:c000:0209\n" },
		{ PORT "/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n" }, /* IPv6 */
		{ PORT "/gid_attrs/types/0", "IB/RoCE v1\n" },
	};
	struct view view = { .devices = interfaces, .count = 2, .infiniband = true };
	char text[TREE_TEXT_MAX];
	struct node node;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_true(tree_find(&view, rows[i].path, &node));
		assert_true(tree_text(&view, &node, text, sizeof(text)) > 0);
		assert_string_equal(text, rows[i].text);
	}
	assert_true(tree_find(&view, PORT "/gid_attrs/ndevs/0", &node));
	assert_int_equal(tree_text(&view, &node, text, sizeof(text)), -EINVAL);
}

static void what_is_not_there(void **state)
{
	static const char *const paths[] = {
		"/sys/class/infiniband/vrb_eth", /* a part of a name */
		"/sys/class/infiniband/vrb_eth77",
		"/sys/class/infiniband/eth7",
		"/sys/class/infiniband/D", /* a pattern itself */
		"/sys/class/infiniband/",
		"/sys/class/infiniband_mad",
		"/sys/devices/verbatim/vrb_lo/infiniband/vrb_eth7", /* the other's */
		"/sys/devices/verbatim/vrb_lo/net/eth7",
		"/sys/devices/verbatim/vrb_lo/infiniband_verbs/uverbs0",
		"/dev/infiniband/uverbs2",
		"/dev/infiniband/rdma_cm",
		PORT "/gids/16",
		PORT "/gids/00",
		PORT "/gids/-1",
		PORT "/pkeys/1",
		PORT "/counters/rdma_sends", /* not counted */
		PORT "/hw_counters/0",
		"/sys/devices/verbatim/vrb_eth7/infiniband/vrb_eth7/ports/2",
		"/sys",
		"",
	};
	struct node node;

	for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (tree_find(&two, paths[i], &node))
			fail_msg("%s is found", paths[i]);
	assert_false(tree_find(&none, "/sys/class/infiniband/vrb_lo", &node));
	assert_true(tree_find(&none, "/sys/class/infiniband", &node));
}

static void places(void **state)
{
	assert_int_equal(tree_place("/sys"), TREE_ABOVE);
	assert_int_equal(tree_place(""), TREE_ABOVE);
	assert_int_equal(tree_place("/sys/class"), TREE_ABOVE);
	assert_int_equal(tree_place("/sys/class/infiniband"), TREE_INSIDE);
	assert_int_equal(tree_place("/sys/class/infiniband/x"), TREE_INSIDE);
	assert_int_equal(tree_place("/sys/class/infiniband_mad"), TREE_OUTSIDE);
	assert_int_equal(tree_place("/sys/class/net"), TREE_OUTSIDE);
	assert_int_equal(tree_place("/device"), TREE_OUTSIDE);
}

struct walk_state {
	struct node above;
	int found;
};

/* Finds an entry again, of the kind that was told; goes below it. */
static int visit(void *context, const char *name, enum node_kind kind)
{
	struct walk_state *state = context, below = { .found = 0 };
	char path[TREE_PATH_MAX], text[TREE_TEXT_MAX];

	assert_true(snprintf(path, sizeof(path), "%s/%s", state->above.path, name) < TREE_PATH_MAX);
	assert_true(tree_find(&two, path, &below.above));
	assert_int_equal(below.above.kind, kind);
	state->found++;
	if (kind == NODE_DIRECTORY) {
		assert_int_equal(tree_list(&two, &below.above, visit, &below), 0);
		assert_true(below.found > 0);
	} else if (kind == NODE_FILE || kind == NODE_LINK) {
		int len = tree_text(&two, &below.above, text, sizeof(text));

		assert_true(len > 0 || (len == -EINVAL && (strstr(path, "gid_attrs") ||
							   strstr(path, "link_downed"))));
		assert_int_equal(kind == NODE_FILE && len > 0, len > 0 && text[len - 1] == '\n');
	}
	state->found += below.found;
	return 0;
}

static void listings(void **state)
{
	static const struct {
		const char *root;
		int entries; /* itself excluded, all below */
	} rows[] = {
		{ "/sys/class/infiniband", 2 },
		{ "/sys/class/infiniband_verbs", 3 },
		{ "/dev/infiniband", 2 },
	};
	struct walk_state all = { .found = 0 };

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct walk_state root = { .found = 0 };

		assert_true(tree_find(&two, rows[i].root, &root.above));
		assert_int_equal(tree_list(&two, &root.above, visit, &root), 0);
		assert_int_equal(root.found, rows[i].entries);
	}
	assert_true(tree_find(&two, "/sys/devices/verbatim", &all.above));
	assert_int_equal(tree_list(&two, &all.above, visit, &all), 0);
	assert_true(all.found > 2 * 3 * VIEW_GIDS);
}

static void longest_names_fit(void **state)
{
	struct interface longest = { .name = "fifteen-letters" };
	struct view view = { .devices = &longest, .count = 1 };
	struct node node;

	assert_true(tree_find(&view,
			      "/sys/devices/verbatim/vrb_fifteen-letters/infiniband/"
			      "vrb_fifteen-letters/ports/1/gid_attrs/types/15",
			      &node));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(empty_gid_has_no_attributes),
		cmocka_unit_test(counters),
		cmocka_unit_test(a_stat_of_a_counter_asks_nobody),
		cmocka_unit_test(counters_without_verbatimd),
		cmocka_unit_test(one_question_is_for_all_files),
		cmocka_unit_test(a_failure_is_remembered),
		cmocka_unit_test(want_of_descriptors_is_not_remembered),
		cmocka_unit_test(many_devices_are_not_confused),
		cmocka_unit_test(an_rnic_has_no_counters),
		cmocka_unit_test(infiniband),
		cmocka_unit_test(what_is_not_there),
		cmocka_unit_test(places),
		cmocka_unit_test(listings),
		cmocka_unit_test(longest_names_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
