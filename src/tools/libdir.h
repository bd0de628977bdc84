/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Libdir - where Verbatim's libraries are, seen from this program's own file.
 *
 * In:  the directory of the running `verbatim`, and where it was to be installed.
 * Out: the directories to search for libraries. Looks at files, changes nothing.
 */
#ifndef TOOLS_LIBDIR_H
#define TOOLS_LIBDIR_H

#include <stdbool.h>
#include <stddef.h>

struct libdir {
	bool build_tree;
	char library_path[2 * 4096 +
			  2]; /* directories separated by colons, our libibverbs in the first */
	char preload[4096];   /* the file of the view of sysfs; empty: there is none */
};

/*
 * The build tree that program_dir is part of; or else the installation it is part of, wherever that
 * was moved to; or else LIBDIR_INSTALLED. 0, or -ENOENT: none of them has the library.
 */
int libdir_find(const char *program_dir, struct libdir *out);

/* The directory of the running program. 0 or -errno. */
int libdir_of_program(char *dir, size_t len);

/* Where the libraries were to be installed when this was built. */
const char *libdir_installed(void);

#endif
