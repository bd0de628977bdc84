/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/tree.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/counter.h"
#include "base/identity.h"
#include "preload/counters.h"
#include "preload/text.h"

/*
 * A path with placeholders as components: D the device's name, U uverbs<number>, I the interface, G
 * the index of a GID. The links are those of the kernel, where a device's parent is its PCI
 * function.
 */
struct pattern {
	const char *path;
	enum node_kind kind;
	text_fn *text;		     /* of a file or link, */
	const char *constant;	     /* or its text itself, */
	struct counter_file counter; /* or which number it has */
};

#define COUNT(number)	    .counter = { (number), (number), 1 }
#define COUNT_WORDS(number) .counter = { (number), (number), 4 } /* of 4 bytes */
#define EVENT(name)	    COUNT(CTL_EVENT + COUNTER_##name)
#define SENT_PACKETS	    .counter = { CTL_SENT_UNICAST, CTL_SENT_MULTICAST, 1 }
#define RECEIVED_PACKETS    .counter = { CTL_RECEIVED_UNICAST, CTL_RECEIVED_MULTICAST, 1 }

#define PARENT "/sys/devices/verbatim/D"
#define DEVICE PARENT "/infiniband/D"
#define PORT   DEVICE "/ports/1"
#define UVERBS PARENT "/infiniband_verbs/U"

/*
 * The files of counters/ have the names of Linux's ABI, those of hw_counters/ the names of mlx5 and
 * of soft-RoCE: some are there twice. What is not counted has no file.
 */
static_assert(COUNTERS_LIFESPAN_MS == 10, "the text of lifespan");

#define COUNTERS    PORT "/counters"
#define HW_COUNTERS PORT "/hw_counters"

static const struct pattern patterns[] = {
	{ "/sys/class/infiniband", NODE_DIRECTORY },
	{ "/sys/class/infiniband/D", NODE_LINK, text_class_link },
	{ "/sys/class/infiniband_verbs", NODE_DIRECTORY },
	{ "/sys/class/infiniband_verbs/abi_version", NODE_FILE, .constant = "6\n" },
	{ "/sys/class/infiniband_verbs/U", NODE_LINK, text_uverbs_link },
	{ "/dev/infiniband", NODE_DIRECTORY },
	{ "/dev/infiniband/U", NODE_DEVICE },

	{ "/sys/devices/verbatim", NODE_DIRECTORY },
	{ PARENT, NODE_DIRECTORY },
	{ PARENT "/class", NODE_FILE, .constant = "0x020700\n" }, /* InfiniBand controller */
	{ PARENT "/device", NODE_FILE, text_pci_device },
	{ PARENT "/vendor", NODE_FILE, text_pci_vendor },
	{ PARENT "/local_cpulist", NODE_FILE, text_local_cpulist },
	{ PARENT "/local_cpus", NODE_FILE, text_local_cpus },
	{ PARENT "/numa_node", NODE_FILE, text_numa_node },
	{ PARENT "/net", NODE_DIRECTORY },
	{ PARENT "/net/I", NODE_LINK, text_net_link },
	{ PARENT "/infiniband", NODE_DIRECTORY },
	{ PARENT "/infiniband_verbs", NODE_DIRECTORY },

	{ UVERBS, NODE_DIRECTORY },
	{ UVERBS "/abi_version", NODE_FILE, .constant = "1\n" },
	{ UVERBS "/dev", NODE_FILE, text_dev },
	{ UVERBS "/device", NODE_LINK, text_device_link },
	{ UVERBS "/ibdev", NODE_FILE, text_name },

	{ DEVICE, NODE_DIRECTORY },
	{ DEVICE "/board_id", NODE_FILE, .constant = IDENTITY_BOARD_ID "\n" },
	{ DEVICE "/device", NODE_LINK, text_device_link },
	{ DEVICE "/fw_ver", NODE_FILE, .constant = VERBATIM_VERSION "\n" },
	{ DEVICE "/hca_type", NODE_FILE, .constant = "Verbatim\n" },
	{ DEVICE "/hw_rev", NODE_FILE, text_hw_rev },
	{ DEVICE "/node_desc", NODE_FILE, text_node_desc },
	{ DEVICE "/node_guid", NODE_FILE, text_guid },
	{ DEVICE "/node_type", NODE_FILE, text_node_type },
	{ DEVICE "/subsystem", NODE_LINK, .constant = "../../../../../class/infiniband" },
	{ DEVICE "/sys_image_guid", NODE_FILE, text_guid },
	{ DEVICE "/ports", NODE_DIRECTORY },

	{ PORT, NODE_DIRECTORY },
	{ PORT "/cap_mask", NODE_FILE, text_cap_mask },
	{ PORT "/lid", NODE_FILE, text_lid },
	{ PORT "/lid_mask_count", NODE_FILE, .constant = "0\n" },
	{ PORT "/link_layer", NODE_FILE, text_link_layer },
	{ PORT "/phys_state", NODE_FILE, text_phys_state },
	{ PORT "/rate", NODE_FILE, .constant = "100 Gb/sec (4X EDR)\n" },
	{ PORT "/sm_lid", NODE_FILE, text_lid },
	{ PORT "/sm_sl", NODE_FILE, .constant = "0\n" },
	{ PORT "/state", NODE_FILE, text_state },
	{ PORT "/gids", NODE_DIRECTORY },
	{ PORT "/gids/G", NODE_FILE, text_gid },
	{ PORT "/gid_attrs", NODE_DIRECTORY },
	{ PORT "/gid_attrs/ndevs", NODE_DIRECTORY },
	{ PORT "/gid_attrs/ndevs/G", NODE_FILE, text_gid_ndev },
	{ PORT "/gid_attrs/types", NODE_DIRECTORY },
	{ PORT "/gid_attrs/types/G", NODE_FILE, text_gid_type },
	{ COUNTERS, NODE_DIRECTORY },
	{ COUNTERS "/link_downed", NODE_FILE, text_link_downed },
	{ COUNTERS "/multicast_rcv_packets", NODE_FILE, COUNT(CTL_RECEIVED_MULTICAST) },
	{ COUNTERS "/multicast_xmit_packets", NODE_FILE, COUNT(CTL_SENT_MULTICAST) },
	{ COUNTERS "/port_rcv_data", NODE_FILE, COUNT_WORDS(CTL_RECEIVED_BYTES) },
	{ COUNTERS "/port_rcv_errors", NODE_FILE, EVENT(RX_ICRC_ENCAPSULATED) },
	{ COUNTERS "/port_rcv_packets", NODE_FILE, RECEIVED_PACKETS },
	{ COUNTERS "/port_xmit_data", NODE_FILE, COUNT_WORDS(CTL_SENT_BYTES) },
	{ COUNTERS "/port_xmit_packets", NODE_FILE, SENT_PACKETS },
	{ COUNTERS "/unicast_rcv_packets", NODE_FILE, COUNT(CTL_RECEIVED_UNICAST) },
	{ COUNTERS "/unicast_xmit_packets", NODE_FILE, COUNT(CTL_SENT_UNICAST) },
	{ HW_COUNTERS, NODE_DIRECTORY },
	{ HW_COUNTERS "/duplicate_request", NODE_FILE, EVENT(DUPLICATE_REQUEST) },
	{ HW_COUNTERS "/lifespan", NODE_FILE, .constant = "10\n" }, /* ms that a value may be old */
	{ HW_COUNTERS "/link_downed", NODE_FILE, text_link_downed },
	{ HW_COUNTERS "/local_ack_timeout_err", NODE_FILE, EVENT(LOCAL_ACK_TIMEOUT_ERR) },
	{ HW_COUNTERS "/np_cnp_sent", NODE_FILE, EVENT(NP_CNP_SENT) },
	{ HW_COUNTERS "/np_ecn_marked_roce_packets", NODE_FILE, EVENT(NP_ECN_MARKED_ROCE_PACKETS) },
	{ HW_COUNTERS "/out_of_seq_request", NODE_FILE, EVENT(OUT_OF_SEQUENCE) },
	{ HW_COUNTERS "/out_of_sequence", NODE_FILE, EVENT(OUT_OF_SEQUENCE) },
	{ HW_COUNTERS "/packet_seq_err", NODE_FILE, EVENT(PACKET_SEQ_ERR) },
	{ HW_COUNTERS "/rcvd_pkts", NODE_FILE, RECEIVED_PACKETS },
	{ HW_COUNTERS "/rcvd_rnr_err", NODE_FILE, EVENT(RCVD_RNR_ERR) },
	{ HW_COUNTERS "/rcvd_seq_err", NODE_FILE, EVENT(PACKET_SEQ_ERR) },
	{ HW_COUNTERS "/retry_exceeded_err", NODE_FILE, EVENT(RETRY_EXCEEDED_ERR) },
	{ HW_COUNTERS "/retry_rnr_exceeded_err", NODE_FILE, EVENT(RETRY_RNR_EXCEEDED_ERR) },
	{ HW_COUNTERS "/rnr_nak_retry_err", NODE_FILE, EVENT(RNR_NAK_RETRY_ERR) },
	{ HW_COUNTERS "/rp_cnp_handled", NODE_FILE, EVENT(RP_CNP_HANDLED) },
	{ HW_COUNTERS "/rx_icrc_encapsulated", NODE_FILE, EVENT(RX_ICRC_ENCAPSULATED) },
	{ HW_COUNTERS "/send_rnr_err", NODE_FILE, EVENT(SEND_RNR_ERR) },
	{ HW_COUNTERS "/sent_pkts", NODE_FILE, SENT_PACKETS },
	{ PORT "/pkeys", NODE_DIRECTORY },
	{ PORT "/pkeys/0", NODE_FILE, text_pkey },
};

#define PATTERNS (sizeof(patterns) / sizeof(patterns[0]))

static const char *const roots[] = {
	"/sys/class/infiniband",
	"/sys/class/infiniband_verbs",
	"/sys/devices/verbatim",
	"/dev/infiniband",
};

#define ROOTS (sizeof(roots) / sizeof(roots[0]))

/* Whether `path` is `above` itself, or below it. */
static bool is_below(const char *path, const char *above)
{
	size_t len = strlen(above);

	return strncmp(path, above, len) == 0 && (path[len] == 0 || path[len] == '/');
}

enum tree_place tree_place(const char *path)
{
	enum tree_place place = TREE_OUTSIDE;

	for (unsigned i = 0; i < ROOTS; i++) {
		if (is_below(path, roots[i]))
			return TREE_INSIDE;
		if (is_below(roots[i], path))
			place = TREE_ABOVE;
	}
	return place;
}

/* The component that a placeholder stands for, with this device and index. */
static void expand(const struct view *view, char placeholder, int device, int index, char *name)
{
	switch (placeholder) {
	case 'D':
		view_name(view, device, name);
		break;
	case 'I':
		snprintf(name, VIEW_NAME_MAX, "%s", view->devices[device].name);
		break;
	case 'U':
		snprintf(name, VIEW_NAME_MAX, "uverbs%d", device);
		break;
	case 'G':
		snprintf(name, VIEW_NAME_MAX, "%d", index);
		break;
	}
}

/* An RNIC has one GID, no P_Key and no counters: its packets are those of TCP. */
static int gids_of(const struct view *view)
{
	return view->iwarp ? 1 : VIEW_GIDS;
}

static bool is_missing(const struct view *view, const char *pattern)
{
	return view->iwarp && (!strcmp(pattern, PORT "/pkeys/0") || is_below(pattern, COUNTERS) ||
			       is_below(pattern, HW_COUNTERS));
}

static bool is_placeholder(const char *component, size_t len)
{
	return len == 1 && strchr("DIUG", *component);
}

/* Whether a placeholder matches the component; if so, sets the node's device or index. */
static bool bind_component(const struct view *view, char placeholder, const char *component,
			   size_t len, struct node *node)
{
	char name[VIEW_NAME_MAX];
	bool is_gid = placeholder == 'G';
	int *bound = is_gid ? &node->index : &node->device;
	int first = !is_gid && *bound >= 0 ? *bound : 0;
	int last = is_gid ? gids_of(view) - 1 : *bound >= 0 ? *bound : view->count - 1;

	for (int i = first; i <= last; i++) {
		expand(view, placeholder, i, i, name);
		if (strlen(name) != len || memcmp(name, component, len) != 0)
			continue;
		*bound = i;
		return true;
	}
	return false;
}

static bool match(const struct view *view, const char *pattern, const char *path, struct node *node)
{
	node->device = -1;
	node->index = 0;
	while (*pattern == '/' && *path == '/') {
		size_t wanted = strcspn(++pattern, "/"), len = strcspn(++path, "/");

		if (is_placeholder(pattern, wanted)) {
			if (!bind_component(view, *pattern, path, len, node))
				return false;
		} else if (wanted != len || memcmp(pattern, path, len) != 0) {
			return false;
		}
		pattern += wanted;
		path += len;
	}
	return *pattern == 0 && *path == 0;
}

bool tree_find(const struct view *view, const char *path, struct node *out)
{
	if (strlen(path) >= sizeof(out->path))
		return false;
	for (unsigned i = 0; i < PATTERNS; i++) {
		if (is_missing(view, patterns[i].path) || !match(view, patterns[i].path, path, out))
			continue;
		out->pattern = &patterns[i];
		out->kind = patterns[i].kind;
		strcpy(out->path, path);
		return true;
	}
	return false;
}

static int counter_text(const struct view *view, const struct node *node, char *text, size_t size)
{
	char name[VIEW_NAME_MAX];

	view_name(view, node->device, name);
	return counters_text(&node->pattern->counter, name, text, size);
}

int tree_text(const struct view *view, const struct node *node, char *text, size_t size)
{
	const struct pattern *pattern = node->pattern;
	int len;

	if (pattern->counter.unit)
		len = counter_text(view, node, text, size);
	else if (pattern->constant)
		len = snprintf(text, size, "%s", pattern->constant);
	else if (pattern->text)
		len = pattern->text(view, node->device, node->index, text, size);
	else
		return -EINVAL;
	return len < (int)size ? len : -EFBIG;
}

size_t tree_size(const struct view *view, const struct node *node)
{
	char text[TREE_TEXT_MAX];
	int len;

	if (node->pattern->counter.unit)
		return TREE_COUNTER_SIZE;
	len = tree_text(view, node, text, sizeof(text));
	return len > 0 ? (size_t)len : 0;
}

/* The last component, if the pattern is an entry of the directory; else NULL. */
static const char *entry_of(const char *pattern, const char *directory)
{
	size_t len = strlen(directory);

	if (strncmp(pattern, directory, len) != 0 || pattern[len] != '/' ||
	    strchr(pattern + len + 1, '/'))
		return NULL;
	return pattern + len + 1;
}

int tree_list(const struct view *view, const struct node *directory,
	      int (*each)(void *context, const char *name, enum node_kind kind), void *context)
{
	int rc = 0;

	for (unsigned i = 0; i < PATTERNS && rc == 0; i++) {
		const char *entry = entry_of(patterns[i].path, directory->pattern->path);
		bool is_gid = entry && strcmp(entry, "G") == 0;
		int first = 0, last = is_gid ? gids_of(view) - 1 : view->count - 1;
		char name[VIEW_NAME_MAX];

		if (!entry || is_missing(view, patterns[i].path))
			continue;
		if (!is_placeholder(entry, strlen(entry))) {
			rc = each(context, entry, patterns[i].kind);
			continue;
		}
		if (!is_gid && directory->device >= 0)
			first = last = directory->device;
		for (int j = first; j <= last && rc == 0; j++) {
			expand(view, *entry, j, j, name);
			rc = each(context, name, patterns[i].kind);
		}
	}
	return rc;
}
