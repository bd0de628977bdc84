/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/libdir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define LIBIBVERBS "libibverbs.so.1"
#define LIBRDMACM  "librdmacm.so.1"
#define LIBSYSFS   "libverbatim-sysfs.so"
#define PROGRAMS   "bin"
#define SEPARATORS ":;"

/*
 * Whether base/sub has the library; if so, writes the directory's absolute path without links to
 * `out`.
 */
static bool has_library(const char *base, const char *sub, const char *library, char out[PATH_MAX])
{
	char path[PATH_MAX], resolved[PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s/%s/%s", base, sub, library);

	if (len >= (int)sizeof(path) || access(path, R_OK) != 0)
		return false;
	*strrchr(path, '/') = 0;
	if (!realpath(path, resolved))
		return false;
	memcpy(out, resolved, strlen(resolved) + 1);
	return true;
}

static void set_preload(const char *dir, struct libdir *out)
{
	const size_t size = sizeof(out->preload);

	_Static_assert(sizeof(out->preload) == sizeof(out->programs), "one size");
	if (!dir || snprintf(out->preload, size, "%s/" LIBSYSFS, dir) >= (int)size)
		out->preload[0] = 0;
	if (!dir || snprintf(out->programs, size, "%s/" PROGRAMS, dir) >= (int)size ||
	    access(out->programs, X_OK) != 0)
		out->programs[0] = 0;
}

/* `base` is src in the build directory. As libdir_find. */
static int find_in_build_tree(const char *base, struct libdir *out)
{
	char verbs[PATH_MAX], cm[PATH_MAX], preload[PATH_MAX];
	bool has_cm;

	if (!has_library(base, "verbs", LIBIBVERBS, verbs))
		return -ENOENT;
	if (strpbrk(verbs, SEPARATORS))
		return -EINVAL;
	has_cm = has_library(base, "cm", LIBRDMACM, cm);
	snprintf(out->library_path, sizeof(out->library_path), "%s%s%s", verbs, has_cm ? ":" : "",
		 has_cm ? cm : "");
	set_preload(has_library(base, "preload", LIBSYSFS, preload) ? preload : NULL, out);
	out->build_tree = true;
	return 0;
}

int libdir_find(const char *program_dir, struct libdir *out)
{
	static const char *const subs[] = { "src", ".." };
	char base[PATH_MAX], dir[PATH_MAX];
	int rc = -ENOENT;

	/* build/verbatim and build/src/tools/verbatim */
	for (size_t i = 0; i < sizeof(subs) / sizeof(*subs) && rc == -ENOENT; i++) {
		if (snprintf(base, sizeof(base), "%s/%s", program_dir, subs[i]) < (int)sizeof(base))
			rc = find_in_build_tree(base, out);
	}
	if (rc != -ENOENT)
		return rc;

	if (!has_library(program_dir, LIBDIR_FROM_BINDIR, LIBIBVERBS, dir) &&
	    !has_library(LIBDIR_INSTALLED, ".", LIBIBVERBS, dir))
		return -ENOENT;
	if (strpbrk(dir, SEPARATORS))
		return -EINVAL;
	snprintf(out->library_path, sizeof(out->library_path), "%s", dir);
	set_preload(has_library(dir, ".", LIBSYSFS, base) ? dir : NULL, out);
	out->build_tree = false;
	return 0;
}

int libdir_of_program(char *dir, size_t len)
{
	ssize_t got = readlink("/proc/self/exe", dir, len);
	char resolved[PATH_MAX], *slash;

	if (got < 0) {
		/*
		 * Without /proc: the name by which the program was started, if that still exists.
		 */
		const char *name = (const char *)getauxval(AT_EXECFN);

		if (!name || !realpath(name, resolved))
			return -ENXIO;
		got = (ssize_t)strlen(resolved);
		memcpy(dir, resolved, (size_t)got < len ? (size_t)got : len);
	}
	if ((size_t)got >= len)
		return -ENAMETOOLONG;
	dir[got] = 0;
	slash = strrchr(dir, '/');
	if (!slash)
		return -ENOENT;
	*slash = 0;
	return 0;
}

const char *libdir_installed(void)
{
	return LIBDIR_INSTALLED;
}
