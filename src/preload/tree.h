/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tree - the files that a kernel would show of the devices, below sysfs and /dev.
 *
 * In:  a view of the devices, and a path without links, "." and "..".
 * Out: what is there: its kind, its text, its entries.
 *
 * The whole tree is one table of patterns in tree.c. No state; only the texts look at the system.
 */
#ifndef PRELOAD_TREE_H
#define PRELOAD_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "preload/view.h"

#define TREE_PATH_MAX 192
#define TREE_TEXT_MAX 1024

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
	int device;		  /* in the view; -1: it belongs to none */
	int index;		  /* of a GID; else 0 */
	char path[TREE_PATH_MAX]; /* absolute, without links */
};

enum tree_place {
	TREE_OUTSIDE, /* nothing below is ours */
	TREE_ABOVE,   /* something below is */
	TREE_INSIDE,
};

enum tree_place tree_place(const char *path);

/* Whether there is such a node. */
bool tree_find(const struct view *view, const char *path, struct node *out);

/* The text of a file, or where a link leads. Its length, or -errno: it cannot be read. */
int tree_text(const struct view *view, const struct node *node, char *text, size_t size);

/* The entries of a directory, one by one; what `each` returns other than 0 ends it. */
int tree_list(const struct view *view, const struct node *directory,
	      int (*each)(void *context, const char *name, enum node_kind kind), void *context);

#endif
