/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Libdir - finds Verbatim's libraries from the place of the running program.
 *
 * In:  the directory of the running `verbatim`, and the configured directory of libraries.
 * Out: the directories for LD_LIBRARY_PATH and PATH, and the library for LD_PRELOAD.
 */
#ifndef TOOLS_LIBDIR_H
#define TOOLS_LIBDIR_H

#include <stdbool.h>
#include <stddef.h>

struct libdir {
	bool build_tree;
	/* directories separated by colons; the first has libibverbs */
	char library_path[2 * 4096 + 2];
	char preload[4096];  /* the library with the view of sysfs; empty: there is none */
	char programs[4096]; /* a directory beside it for PATH; or empty */
};

/*
 * Searches the build tree that `program_dir` is part of, then the installation, which may have been
 * moved, then the configured directory. 0; -ENOENT: none of them has the library; -EINVAL: the path
 * has a character that separates the directories of LD_LIBRARY_PATH, ld.so(8).
 */
int libdir_find(const char *program_dir, struct libdir *out);

/* The directory of the running program. 0 or -errno. */
int libdir_of_program(char *dir, size_t len);

/* The directory of libraries that was configured at build time. */
const char *libdir_installed(void);

#endif
