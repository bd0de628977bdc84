/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cwd - the working directory of a process that has changed into the tree.
 *
 * In:  the path of a directory of the tree.
 * Out: that path, in this process, its children, and the programs that they execute.
 *
 * The kernel has no such directory, so it gets another: an empty one that is deleted at once, whose
 * name is the path. Nothing else keeps it, and nothing is left when the last process is elsewhere.
 *
 * Any thread. A process that never was in the tree makes no system call here, but for one at its
 * start.
 */
#ifndef PRELOAD_CWD_H
#define PRELOAD_CWD_H

#include <stdatomic.h>
#include <stdbool.h>

#include "preload/tree.h"

/*
 * False: the working directory is not in the tree. True: cwd_path tells. It stays true: a child of
 * vfork writes to its parent's memory, and has a working directory of its own.
 */
extern atomic_bool cwd_may_be_inside;

/*
 * 0 or -errno, of the first directory that was tried: the working directory is the same as before.
 */
int cwd_enter(const char *path);

/* Writes the path of the working directory. False: it is not in the tree. */
bool cwd_path(char path[TREE_PATH_MAX]);

#endif
