/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interposes readlink, realpath, and the reading of extended attributes, of which files of the tree
 * have none.
 */
#include <errno.h>
#include <string.h>

#include "preload/real.h"
#include "preload/served.h"

static __attribute__((noinline)) ssize_t readlink_served(int directory_fd, const char *path,
							 char *out, size_t size)
{
	struct served served;
	char text[TREE_TEXT_MAX];
	int rc = served_begin_at(directory_fd, path, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, &served);
	int len = path && *path ? -EINVAL : -ENOENT;

	if (rc == WALKED_REAL)
		return real()->readlinkat(directory_fd, path, out, size);
	if (rc == WALKED_ELSEWHERE)
		return real()->readlinkat(AT_FDCWD, served.elsewhere, out, size);
	if (rc == WALKED_NODE) {
		if (served.node.kind == NODE_LINK)
			len = tree_text(&served.view, &served.node, text, sizeof(text));
		served_end(&served);
		rc = len < 0 ? len : 0;
	}
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	len = (size_t)len < size ? len : (int)size;
	memcpy(out, text, len);
	return len;
}

PRELOAD_EXPORT ssize_t readlink(const char *path, char *out, size_t size)
{
	if (served_concerns(AT_FDCWD, path))
		return readlink_served(AT_FDCWD, path, out, size);
	return real()->readlink(path, out, size);
}

PRELOAD_EXPORT ssize_t readlinkat(int directory_fd, const char *path, char *out, size_t size)
{
	/* An empty path is a link that was opened with O_PATH. */
	if (served_concerns_at(directory_fd, path, directory_fd >= 0 ? AT_EMPTY_PATH : 0))
		return readlink_served(directory_fd, path, out, size);
	return real()->readlinkat(directory_fd, path, out, size);
}

static __attribute__((noinline)) char *realpath_served(const char *path, char *out)
{
	struct served served;
	int rc = served_begin(AT_FDCWD, path, true, &served);

	if (rc == WALKED_REAL)
		return real()->realpath(path, out);
	if (rc == WALKED_ELSEWHERE)
		return real()->realpath(served.elsewhere, out);
	if (rc < 0) {
		errno = -rc;
		return NULL;
	}
	served_end(&served);
	return out ? strcpy(out, served.node.path) : strdup(served.node.path);
}

PRELOAD_EXPORT char *realpath(const char *path, char *out)
{
	if (served_concerns(AT_FDCWD, path))
		return realpath_served(path, out);
	return real()->realpath(path, out);
}

PRELOAD_EXPORT char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}

/* Programs compiled with _FORTIFY_SOURCE call these; `room` is the size of their buffer. */
PRELOAD_EXPORT ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room);
PRELOAD_EXPORT ssize_t __readlinkat_chk(int directory_fd, const char *path, char *out, size_t size,
					size_t room);
PRELOAD_EXPORT char *__realpath_chk(const char *path, char *out, size_t room);
_Noreturn void __chk_fail(void);

ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room)
{
	if (size > room)
		__chk_fail();
	return readlink(path, out, size);
}

ssize_t __readlinkat_chk(int directory_fd, const char *path, char *out, size_t size, size_t room)
{
	if (size > room)
		__chk_fail();
	return readlinkat(directory_fd, path, out, size);
}

char *__realpath_chk(const char *path, char *out, size_t room)
{
	if (out && room < PATH_MAX)
		__chk_fail();
	return realpath(path, out);
}

/*
 * True: the path is in the tree, and errno is set as on a file system without extended attributes.
 */
static __attribute__((noinline)) bool refuse_attributes(const char *path)
{
	struct served served;
	int rc = served_begin(AT_FDCWD, path, false, &served);

	if (rc == WALKED_NODE)
		served_end(&served);
	if (rc == WALKED_REAL)
		return false;
	errno = rc < 0 ? -rc : EOPNOTSUPP;
	return true;
}

PRELOAD_EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	if (served_concerns(AT_FDCWD, path) && refuse_attributes(path))
		return -1;
	return real()->getxattr(path, name, value, size);
}

PRELOAD_EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	if (served_concerns(AT_FDCWD, path) && refuse_attributes(path))
		return -1;
	return real()->lgetxattr(path, name, value, size);
}

PRELOAD_EXPORT ssize_t listxattr(const char *path, char *list, size_t size)
{
	if (served_concerns(AT_FDCWD, path) && refuse_attributes(path))
		return -1;
	return real()->listxattr(path, list, size);
}

PRELOAD_EXPORT ssize_t llistxattr(const char *path, char *list, size_t size)
{
	if (served_concerns(AT_FDCWD, path) && refuse_attributes(path))
		return -1;
	return real()->llistxattr(path, list, size);
}
