/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/walk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINKS_MAX 16

struct walker {
	char at[PATH_MAX];   /* the path so far, without links; "" is the root */
	char rest[PATH_MAX]; /* the components that are left */
	bool entered;	     /* the path has led through the tree */
	int links;
};

static void go_up(char *at)
{
	char *slash = strrchr(at, '/');

	if (slash)
		*slash = 0;
}

/* Moves the first component of `rest` to `name`. 1; 0: there is none; or -errno. */
static int take_component(char *rest, char name[NAME_MAX + 1])
{
	char *start = rest + strspn(rest, "/");
	size_t len = strcspn(start, "/");

	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, start, len);
	name[len] = 0;
	memmove(rest, start + len, strlen(start + len) + 1);
	return len > 0;
}

/* Puts the link's target before the rest, and goes back to the link's directory. */
static int expand_link(const struct view *view, const struct node *link, struct walker *walker)
{
	char target[TREE_TEXT_MAX], rest[PATH_MAX];
	int len = tree_text(view, link, target, sizeof(target));

	if (len < 0)
		return len;
	if (++walker->links > LINKS_MAX)
		return -ELOOP;
	strcpy(rest, walker->rest);
	if (snprintf(walker->rest, sizeof(walker->rest), "%s%s", target, rest) >=
	    (int)sizeof(walker->rest))
		return -ENAMETOOLONG;
	go_up(walker->at);
	return 0;
}

/* Handles the node at which the walker has arrived. 0 to go on, or -errno. */
static int visit(const struct view *view, struct walker *walker, bool follow)
{
	struct node node;

	walker->entered = true;
	if (!tree_find(view, walker->at, &node))
		return -ENOENT;
	/* A slash after the last component asks for a directory, path_resolution(7). */
	if (node.kind == NODE_LINK && (walker->rest[0] || follow))
		return expand_link(view, &node, walker);
	if (node.kind != NODE_DIRECTORY && walker->rest[0])
		return -ENOTDIR;
	return 0;
}

static int leave(const struct walker *walker, char elsewhere[PATH_MAX])
{
	if (!walker->entered)
		return WALKED_REAL;
	if (snprintf(elsewhere, PATH_MAX, "%s%s%s", walker->at, walker->at[0] ? "" : "/",
		     walker->rest) >= PATH_MAX)
		return -ENAMETOOLONG;
	return WALKED_ELSEWHERE;
}

/* Down by one component: 1; 0: none is left; or -errno. */
static int go_down(struct walker *walker)
{
	char name[NAME_MAX + 1];
	int rc;

	while ((rc = take_component(walker->rest, name)) > 0) {
		size_t len = strlen(walker->at);

		if (strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") == 0) {
			go_up(walker->at);
			continue;
		}
		if (snprintf(walker->at + len, sizeof(walker->at) - len, "/%s", name) >=
		    (int)(sizeof(walker->at) - len))
			return -ENAMETOOLONG;
		return 1;
	}
	return rc;
}

static bool begin(struct walker *walker, const char *path)
{
	walker->at[0] = 0;
	walker->entered = false;
	walker->links = 0;
	return snprintf(walker->rest, sizeof(walker->rest), "%s", path) < (int)sizeof(walker->rest);
}

bool walk_enters(const char *path)
{
	struct walker walker;

	if (!begin(&walker, path))
		return false;
	while (go_down(&walker) > 0) {
		enum tree_place place = tree_place(walker.at);

		if (place != TREE_ABOVE)
			return place == TREE_INSIDE;
	}
	return false;
}

int walk(const struct view *view, const char *path, bool follow, struct node *node,
	 char elsewhere[PATH_MAX])
{
	struct walker walker;
	int rc;

	if (!begin(&walker, path))
		return WALKED_REAL;
	while ((rc = go_down(&walker)) > 0) {
		if (tree_place(walker.at) == TREE_OUTSIDE)
			return leave(&walker, elsewhere);
		if (tree_place(walker.at) == TREE_INSIDE)
			rc = visit(view, &walker, follow);
		if (rc < 0)
			return rc;
	}
	if (rc < 0)
		return rc;
	if (tree_place(walker.at) != TREE_INSIDE)
		return leave(&walker, elsewhere);
	return tree_find(view, walker.at, node) ? WALKED_NODE : -ENOENT;
}
