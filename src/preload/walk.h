/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Walk - finds what a path means once the tree is there.
 *
 * In:  a view, an absolute path with links, "." and ".." as programs write it.
 * Out: a node of the tree; or a path of the real system that the tree led to.
 *
 * No state, no system calls.
 */
#ifndef PRELOAD_WALK_H
#define PRELOAD_WALK_H

#include <limits.h>
#include <stdbool.h>

#include "preload/tree.h"

enum walked {
	WALKED_REAL, /* the path has nothing to do with the tree */
	WALKED_NODE,
	WALKED_ELSEWHERE, /* it leads through the tree, and out of it */
};

/*
 * follow: the last component may be a link that is followed. Returns an enum walked, or -errno.
 * *node is written with WALKED_NODE, `elsewhere` with WALKED_ELSEWHERE: the real path to take
 * instead.
 */
int walk(const struct view *view, const char *path, bool follow, struct node *node,
	 char elsewhere[PATH_MAX]);

#endif
