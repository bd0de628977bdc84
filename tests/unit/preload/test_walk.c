/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths as programs write them: links, "..", slashes too many, and ways out of the tree.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "preload/walk.h"

static struct interface lo = { .name = "lo", .index = 1, .ipv4 = 1 };
static const struct view view = { .devices = &lo, .count = 1 };

#define DEVICE "/sys/devices/verbatim/vrb_lo/infiniband/vrb_lo"

static void paths(void **state)
{
	enum { NOFOLLOW, FOLLOW };
	static const struct {
		const char *path;
		int follow;
		int result;
		const char *found; /* the node's path, or the real one */
	} rows[] = {
		{ "/etc/passwd", FOLLOW, WALKED_REAL, NULL },
		{ "/sys/class", FOLLOW, WALKED_REAL, NULL },
		{ "/sys/class/infiniband_mad/x", FOLLOW, WALKED_REAL, NULL },
		{ "/home/infiniband", FOLLOW, WALKED_REAL, NULL },

		{ "/sys/class/infiniband", FOLLOW, WALKED_NODE, "/sys/class/infiniband" },
		{ "//sys///class/./infiniband//", NOFOLLOW, WALKED_NODE, "/sys/class/infiniband" },
		{ "/sys/class/infiniband/vrb_lo", FOLLOW, WALKED_NODE, DEVICE },
		{ "/sys/class/infiniband/vrb_lo", NOFOLLOW, WALKED_NODE,
		  "/sys/class/infiniband/vrb_lo" },
		{ "/sys/class/infiniband/vrb_lo/", NOFOLLOW, WALKED_NODE, DEVICE },
		{ "/sys/class/infiniband/vrb_lo/.", NOFOLLOW, WALKED_NODE, DEVICE },
		{ "/sys/class/infiniband/vrb_lo/device", FOLLOW, WALKED_NODE,
		  "/sys/devices/verbatim/vrb_lo" },
		{ "/sys/class/infiniband/vrb_lo/device/infiniband/vrb_lo/fw_ver", FOLLOW,
		  WALKED_NODE, DEVICE "/fw_ver" },
		{ "/sys/class/infiniband/vrb_lo/..", FOLLOW, WALKED_NODE,
		  "/sys/devices/verbatim/vrb_lo/infiniband" },
		{ "/sys/class/infiniband/../infiniband_verbs", FOLLOW, WALKED_NODE,
		  "/sys/class/infiniband_verbs" },
		{ "/sys/class/infiniband/vrb_lo/subsystem/vrb_lo", FOLLOW, WALKED_NODE, DEVICE },

		{ "/dev/infiniband/../null", FOLLOW, WALKED_ELSEWHERE, "/dev/null" },
		{ "/dev/infiniband/..", FOLLOW, WALKED_ELSEWHERE, "/dev" },
		{ "/sys/class/infiniband/vrb_lo/device/net/lo", FOLLOW, WALKED_ELSEWHERE,
		  "/sys/class/net/lo" },
		{ "/sys/class/infiniband/vrb_lo/device/net/lo", NOFOLLOW, WALKED_NODE,
		  "/sys/devices/verbatim/vrb_lo/net/lo" },
		{ "/sys/class/infiniband/vrb_lo/device/net/lo/mtu", NOFOLLOW, WALKED_ELSEWHERE,
		  "/sys/class/net/lo/mtu" },
		{ "/sys/class/infiniband/vrb_lo/device/net/lo/../../infiniband", FOLLOW,
		  WALKED_ELSEWHERE, "/sys/class/net/lo/../../infiniband" },

		{ "/sys/class/infiniband/vrb_eth9", FOLLOW, -ENOENT, NULL },
		{ "/sys/class/infiniband/nothing/../vrb_lo", FOLLOW, -ENOENT, NULL },
		{ "/sys/class/infiniband/vrb_lo/fw_ver/", FOLLOW, -ENOTDIR, NULL },
		{ "/sys/class/infiniband/vrb_lo/fw_ver/..", FOLLOW, -ENOTDIR, NULL },
	};
	char elsewhere[PATH_MAX];
	struct node node;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int rc = walk(&view, rows[i].path, rows[i].follow, &node, elsewhere);

		if (rc != rows[i].result)
			fail_msg("%s: %d, not %d", rows[i].path, rc, rows[i].result);
		if (rc == WALKED_NODE)
			assert_string_equal(node.path, rows[i].found);
		if (rc == WALKED_ELSEWHERE)
			assert_string_equal(elsewhere, rows[i].found);
		assert_int_equal(walk_enters(rows[i].path), rc != WALKED_REAL);
	}
}

static void long_paths(void **state)
{
	static const char loop[] = "/subsystem/vrb_lo"; /* two links each */
	char path[2 * PATH_MAX] = "/sys/class/infiniband/vrb_lo", elsewhere[PATH_MAX];
	struct node node;

	for (int i = 0; i < 7; i++)
		strcat(path, loop);
	assert_int_equal(walk(&view, path, true, &node, elsewhere), WALKED_NODE);
	for (int i = 0; i < 3; i++)
		strcat(path, loop);
	assert_int_equal(walk(&view, path, true, &node, elsewhere), -ELOOP);

	strcpy(path, "/sys/class/infiniband");
	memset(path + strlen(path), '/', PATH_MAX - 1 - strlen(path));
	assert_int_equal(walk(&view, path, true, &node, elsewhere), WALKED_NODE);

	/* Longer than the kernel takes: it says so itself. */
	memset(path + PATH_MAX - 1, '/', PATH_MAX);
	assert_int_equal(walk(&view, path, true, &node, elsewhere), WALKED_REAL);

	/* A name longer than a file can have. */
	memset(path, 0, sizeof(path));
	strcpy(path, "/sys/class/infiniband/");
	memset(path + strlen(path), 'x', NAME_MAX + 1);
	assert_int_equal(walk(&view, path, true, &node, elsewhere), -ENAMETOOLONG);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test(long_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
