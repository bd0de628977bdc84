/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tree - the files in sysfs and /dev that a kernel has for RDMA devices.
 *
 * In:  a view of the devices, and a path without links, "." and "..".
 * Out: the node there: its kind, its text, its entries.
 *
 * The whole tree is one table of patterns in tree.c. No state; only texts read the system, and
 * those of counters ask verbatimd. Any thread.
 */
#ifndef PRELOAD_TREE_H
#define PRELOAD_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "preload/view.h"

#define TREE_PATH_MAX	  192
#define TREE_TEXT_MAX	  1024
#define TREE_COUNTER_SIZE 4096

enum node_kind {
	NODE_DIRECTORY,
	NODE_FILE,
	NODE_LINK,
	NODE_DEVICE, /* a character device */
};

struct pattern;

struct node {
	const struct pattern *pattern;
	enum node_kind kind;
	int device;		  /* index in the view; -1: none */
	int index;		  /* of a GID; otherwise 0 */
	char path[TREE_PATH_MAX]; /* absolute, without links */
};

enum tree_place {
	TREE_OUTSIDE, /* the tree has no node at the path or below */
	TREE_ABOVE,   /* the tree has nodes below the path */
	TREE_INSIDE,
};

enum tree_place tree_place(const char *path);

/* Finds the node at the path. False: there is none. */
bool tree_find(const struct view *view, const char *path, struct node *out);

/* The text of a file, or the target of a link. Returns its length, or -errno: it cannot be read. */
int tree_text(const struct view *view, const struct node *node, char *text, size_t size);

/*
 * The size that stat tells: of the text or target, 0 if it cannot be read. Of a counter it is that
 * of all files in sysfs: its value may be longer when the file is opened.
 */
size_t tree_size(const struct view *view, const struct node *node);

/*
 * Calls `each` for the entries of a directory, and stops when it does not return 0. Returns that.
 */
int tree_list(const struct view *view, const struct node *directory,
	      int (*each)(void *context, const char *name, enum node_kind kind), void *context);

#endif
