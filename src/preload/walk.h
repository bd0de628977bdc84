/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Walk - resolves a path through the tree, path_resolution(7).
 *
 * In:  a view, an absolute path with links, "." and ".." as programs write it.
 * Out: a node of the tree, or a path of the file system to which the tree led.
 *
 * No state, no system calls. Any thread.
 */
#ifndef PRELOAD_WALK_H
#define PRELOAD_WALK_H

#include <limits.h>
#include <stdbool.h>

#include "preload/tree.h"

enum walked {
	WALKED_REAL, /* the path does not touch the tree */
	WALKED_NODE,
	WALKED_ELSEWHERE, /* the path leads through the tree, and out of it */
};

/* Whether the path leads into the tree, which needs no view to know. */
bool walk_enters(const char *path);

/*
 * `follow`: follow a link in the last component. Returns -errno or an enum walked. WALKED_NODE
 * writes *node; WALKED_ELSEWHERE writes `elsewhere`, the absolute path to use instead.
 */
int walk(const struct view *view, const char *path, bool follow, struct node *node,
	 char elsewhere[PATH_MAX]);

#endif
