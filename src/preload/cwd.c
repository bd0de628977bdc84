/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/cwd.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "base/uncancelled.h"
#include "preload/real.h"

#define PREFIX	"/.verbatim-cwd."
#define DELETED " (deleted)"
#define CWD	"/proc/thread-self/cwd" /* threads may have their own: unshare(2) */
#define SLASH	':'			/* no name of an interface has it */

_Static_assert(sizeof(PREFIX) + 16 + TREE_PATH_MAX <= NAME_MAX, "the name of a directory");

atomic_bool cwd_may_be_inside;

static void replace(char *text, char from, char to)
{
	for (; *text; text++)
		if (*text == from)
			*text = to;
}

bool cwd_path(char path[TREE_PATH_MAX])
{
	char target[PATH_MAX], *start, *end;
	ssize_t len;

	if (!atomic_load_explicit(&cwd_may_be_inside, memory_order_relaxed))
		return false;
	len = syscall(SYS_readlinkat, AT_FDCWD, CWD, target, sizeof(target) - 1);
	if (len < (ssize_t)strlen(DELETED))
		return false;
	target[len] = 0;
	end = target + len - strlen(DELETED);
	start = strrchr(target, '/');
	if (!start || strncmp(start, PREFIX, strlen(PREFIX)) != 0 || strcmp(end, DELETED) != 0)
		return false;
	*end = 0;
	start = strchr(start, SLASH);
	if (!start || end - start >= TREE_PATH_MAX)
		return false;
	memcpy(path, start, end - start + 1);
	replace(path, SLASH, '/');
	return tree_place(path) == TREE_INSIDE;
}

/* A descriptor of a directory that was made and deleted, or -errno. */
static int make_deleted(const char *path)
{
	int fd, rc = 0;

	/* 0500: the owner may change into it, whatever the umask; nobody puts anything there. */
	if (mkdir(path, 0500) != 0)
		return -errno;
	fd = chmod(path, 0500) == 0
		     ? real()->open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
		     : -1;
	if (fd < 0)
		rc = -errno;
	if (rmdir(path) != 0) {
		rc = -errno;
		dprintf(STDERR_FILENO, "verbatim: cannot remove %s: %m\n", path);
	}
	if (rc == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return rc;
}

/*
 * Changes to a directory of that name, made in `parent` for that. It is deleted before: one that
 * cannot be deleted would not be recognized. 0 or -errno.
 */
static int enter_in(const char *parent, const char *name)
{
	char path[PATH_MAX];
	int fd, rc;

	if (snprintf(path, sizeof(path), "%s%s", parent, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = make_deleted(path);
	if (fd < 0)
		return fd;
	rc = real()->fchdir(fd) == 0 ? 0 : -errno;
	close(fd);
	return rc;
}

int cwd_enter(const char *path)
{
	UNCANCELLED; /* or the directory would stay */
	const char *parents[] = { "/tmp", "/dev/shm", "/var/tmp",
				  secure_getenv("XDG_RUNTIME_DIR") };
	char name[NAME_MAX + 1], text[TREE_PATH_MAX];
	int rc = 0, error;
	uint64_t random;

	/* Without /proc nobody would recognize the directory. */
	if (syscall(SYS_readlinkat, AT_FDCWD, CWD, text, sizeof(text)) < 0)
		return -errno;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		return -EAGAIN;
	snprintf(text, sizeof(text), "%s", path);
	replace(text, '/', SLASH);
	snprintf(name, sizeof(name), PREFIX "%016llx%s", (unsigned long long)random, text);
	/* Before the change: other threads look from then on. */
	atomic_store_explicit(&cwd_may_be_inside, true, memory_order_relaxed);
	for (unsigned i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
		if (!parents[i] || parents[i][0] != '/')
			continue;
		error = enter_in(parents[i], name);
		if (error == 0)
			return 0;
		rc = rc ? rc : error;
	}
	return rc;
}

/* Inherited from whoever executed the program. */
__attribute__((constructor)) static void look_at_start(void)
{
	char path[TREE_PATH_MAX];

	atomic_store_explicit(&cwd_may_be_inside, true, memory_order_relaxed);
	if (!cwd_path(path))
		atomic_store_explicit(&cwd_may_be_inside, false, memory_order_relaxed);
}
