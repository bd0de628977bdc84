/* SPDX-License-Identifier: BSD-2-Clause */
/* Interposes chdir, fchdir and getcwd. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "preload/cwd.h"
#include "preload/real.h"
#include "preload/served.h"

/* chdir(2) to a node: 0 or -errno. */
static int enter(const struct node *node)
{
	int rc;

	if (node->kind != NODE_DIRECTORY)
		return -ENOTDIR;
	rc = cwd_enter(node->path);
	if (rc == 0)
		return 0;
	errno = -rc; /* for %m */
	dprintf(STDERR_FILENO,
		"verbatim: cannot change to %s: %m; it exists only in the view of sysfs that "
		"programs read; to be there takes /proc, and a directory made for a moment in "
		"/tmp, /dev/shm, /var/tmp or XDG_RUNTIME_DIR; ibv_devinfo and ibstat print its "
		"contents\n",
		node->path);
	return rc;
}

static int set_errno(int rc)
{
	if (rc == 0)
		return 0;
	errno = -rc;
	return -1;
}

static __attribute__((noinline)) int chdir_served(const char *path)
{
	struct served served;
	int rc = served_begin(AT_FDCWD, path, true, &served);

	if (rc == WALKED_REAL)
		return real()->chdir(path);
	if (rc == WALKED_ELSEWHERE)
		return real()->chdir(served.elsewhere);
	if (rc == WALKED_NODE) {
		rc = enter(&served.node);
		served_end(&served);
	}
	return set_errno(rc);
}

PRELOAD_EXPORT int chdir(const char *path)
{
	return served_concerns(AT_FDCWD, path) ? chdir_served(path) : real()->chdir(path);
}

PRELOAD_EXPORT int fchdir(int fd)
{
	struct served served;
	int rc;

	if (fd < 0 || served_begin_fd(fd, &served) != WALKED_NODE)
		return real()->fchdir(fd);
	rc = enter(&served.node);
	served_end(&served);
	return set_errno(rc);
}

PRELOAD_EXPORT char *getcwd(char *out, size_t size)
{
	char path[TREE_PATH_MAX];
	int before = errno;
	bool inside = cwd_path(path);

	errno = before;
	if (!inside)
		return real()->getcwd(out, size);
	if (out && size == 0) {
		errno = EINVAL;
		return NULL;
	}
	if (size && strlen(path) >= size) {
		errno = ERANGE;
		return NULL;
	}
	if (!out)
		out = malloc(size ? size : strlen(path) + 1);
	return out ? strcpy(out, path) : NULL;
}

PRELOAD_EXPORT char *get_current_dir_name(void)
{
	char path[TREE_PATH_MAX];

	return cwd_path(path) ? strdup(path) : real()->get_current_dir_name();
}

/* Programs compiled with _FORTIFY_SOURCE call this; `room` is the size of their buffer. */
PRELOAD_EXPORT char *__getcwd_chk(char *out, size_t size, size_t room);
_Noreturn void __chk_fail(void);

char *__getcwd_chk(char *out, size_t size, size_t room)
{
	if (size > room)
		__chk_fail();
	return getcwd(out, size);
}
