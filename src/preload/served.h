/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Served - what the tree answers to calls of the C library about files.
 *
 * In:  a path as programs give it, or a descriptor that served_open made.
 * Out: a node with its view; a status; a descriptor.
 *
 * A descriptor of the tree is a sealed memfd with the text of the file, or without any for a
 * directory; its name is the node's path, so that it is known again after dup, fork and exec, and
 * nothing has to be kept or is left behind. Thread-safe; no locks. What does not concern the tree
 * costs a search of its path, and no system call.
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

/* Whether calls about this path may concern the tree at all. */
bool served_concerns(int directory_fd, const char *path);

/*
 * WALKED_REAL; WALKED_NODE, with a view that the caller gives back with served_end;
 * WALKED_ELSEWHERE: the call has to be made with `elsewhere` and AT_FDCWD; or -errno. Errno is left
 * alone.
 */
int served_begin(int directory_fd, const char *path, bool follow, struct served *out);

/* The same for a descriptor: WALKED_REAL or WALKED_NODE. */
int served_begin_fd(int fd, struct served *out);
void served_end(struct served *served);

void served_stat(const struct served *served, struct stat *out);

/* A descriptor, or -errno: EACCES to write, ENXIO for a character device, ENOTDIR. */
int served_open(const struct served *served, int flags);

/* 0 or -errno, for the mode of access(2). */
int served_access(const struct served *served, int mode);

#endif
