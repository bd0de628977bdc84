/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Served - carries out file calls on the tree.
 *
 * In:  a path as programs give it, or a descriptor that served_open made.
 * Out: a node with its view; a status; a descriptor.
 *
 * A descriptor of the tree is a sealed memfd with the text of a file, empty for a directory. The
 * memfd's name is the node's path. So the library recognizes it after dup and fork, and keeps no
 * table. A program that inherits one by exec can read it; as one of the tree the library recognizes
 * it there after that program has opened something of the tree itself. Under an RLIMIT_FSIZE that
 * is less than the text a file is a pipe, which reads as one. Thread-safe; no locks. A
 * path outside the tree costs a string search and no system call; a relative one with a name of the
 * tree in it takes one, to find the directory that it starts from.
 */
#ifndef PRELOAD_SERVED_H
#define PRELOAD_SERVED_H

#include <stdbool.h>
#include <sys/stat.h>

#include "preload/walk.h"

struct served {
	struct view view;
	struct node node;
	char elsewhere[PATH_MAX];
};

/* A cheap test. False: the path is not in the tree. */
bool served_concerns(int directory_fd, const char *path);
/* The same for calls with flags, of which AT_EMPTY_PATH counts. */
bool served_concerns_at(int directory_fd, const char *path, int flags);

/*
 * Finds the path in the tree. Returns -errno, or an enum walked:
 *
 *   WALKED_REAL       the caller calls the C library with the same arguments
 *   WALKED_NODE       `out` is the node, until served_end
 *   WALKED_ELSEWHERE  the caller calls the C library with AT_FDCWD and out->elsewhere
 *
 * `follow`: follow a link in the last component. Keeps errno.
 */
int served_begin(int directory_fd, const char *path, bool follow, struct served *out);

/* The same for a descriptor: WALKED_REAL or WALKED_NODE. */
int served_begin_fd(int fd, struct served *out);

/* One of both, as AT_EMPTY_PATH and AT_SYMLINK_NOFOLLOW say. */
int served_begin_at(int directory_fd, const char *path, int flags, struct served *out);

/* Frees the view. */
void served_end(struct served *served);

void served_stat(const struct served *served, struct stat *out);

/*
 * open(2): a descriptor or -errno. -EACCES to write, -ENXIO for a character device, -ELOOP for a
 * link, both unless it is O_PATH; -ENOTDIR, -EISDIR, -EEXIST.
 */
int served_open(const struct served *served, int flags);

/* access(2): 0, -EACCES or -EROFS. */
int served_access(const struct served *served, int mode);

#endif
