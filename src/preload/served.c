/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/served.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/memory_file.h"
#include "base/syscall.h"
#include "base/uncancelled.h"
#include "preload/cwd.h"

#define FD_NAME		 "verbatim:"
#define FD_LINK		 "/memfd:" FD_NAME
#define FIRST_PAGE_BYTES 4096 /* at least: nothing is mapped there */
#define UVERBS_MAJOR	 231
#define UVERBS_MINOR	 192

/* st_dev. Its major is for experimental use (Linux, devices.txt), so no file system has it. */
#define DEVICE_NUMBER makedev(250, 0x76)

/* False: this process has made no descriptor of the tree, and none needs to be examined. */
static atomic_bool any_made;

/* The descriptor, or AT_FDCWD, may be one of the tree. */
static bool concerns_fd(int fd)
{
	if (fd >= 0)
		return atomic_load_explicit(&any_made, memory_order_relaxed);
	return fd == AT_FDCWD && atomic_load_explicit(&cwd_may_be_inside, memory_order_relaxed);
}

/* The call is for the kernel alone, which says EFAULT where this library would end by SIGSEGV. */
static bool is_bad(const char *path)
{
	return (uintptr_t)path < FIRST_PAGE_BYTES;
}

/* A relative path from above the tree has the name of one of its directories in it. */
static bool may_lead_inside(const char *path)
{
	return strstr(path, "infiniband") || strstr(path, "verbatim");
}

bool served_concerns(int directory_fd, const char *path)
{
	if (is_bad(path))
		return false;
	if (path[0] != '/') /* for an empty one the kernel says ENOENT */
		return *path && (concerns_fd(directory_fd) || may_lead_inside(path));
	return strstr(path, "/infiniband") || strstr(path, "/devices/verbatim");
}

/* The call is about the descriptor itself. Linux 6.11 takes NULL for the empty path. */
static bool is_about_fd(const char *path, int flags)
{
	return flags & AT_EMPTY_PATH && (!path || (!is_bad(path) && !*path));
}

bool served_concerns_at(int directory_fd, const char *path, int flags)
{
	return is_about_fd(path, flags) ? concerns_fd(directory_fd)
					: served_concerns(directory_fd, path);
}

/*
 * The path of the node that a descriptor of the tree, or AT_FDCWD, stands for. False: it is another
 * descriptor.
 */
static bool path_of_fd(int fd, char path[TREE_PATH_MAX])
{
	char name[48], target[TREE_PATH_MAX + 32];
	ssize_t len;
	char *end;

	if (fd == AT_FDCWD)
		return cwd_path(path);
	if (fd < 0 || !atomic_load_explicit(&any_made, memory_order_relaxed))
		return false;
	snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", fd);
	len = syscall(SYS_readlinkat, AT_FDCWD, name, target, sizeof(target) - 1);
	if (len <= (ssize_t)strlen(FD_LINK) || memcmp(target, FD_LINK, strlen(FD_LINK)) != 0)
		return false;
	target[len] = 0;
	end = strstr(target, " (deleted)");
	if (end)
		*end = 0;
	return snprintf(path, TREE_PATH_MAX, "%s", target + strlen(FD_LINK)) < TREE_PATH_MAX;
}

/* The path of a directory outside the tree, without links. False: there is none. */
static bool path_outside(int fd, char path[PATH_MAX])
{
	char name[48];
	long len;

	if (fd == AT_FDCWD)
		return syscall(SYS_getcwd, path, PATH_MAX) > 0 && *path == '/';
	if (fd < 0)
		return false;
	snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", fd);
	len = syscall(SYS_readlinkat, AT_FDCWD, name, path, PATH_MAX - 1);
	if (len <= 0)
		return false;
	path[len] = 0;
	return *path == '/';
}

/* The first ".." are those of `base`, which has no links. False: they do not fit. */
static bool join_outside(char *base, const char *path, char joined[PATH_MAX])
{
	size_t dots;

	while ((dots = strspn(path, ".")) <= 2 && path[dots] == '/') {
		if (dots == 2)
			*strrchr(base, '/') = 0;
		if (!*base)
			strcpy(base, "/");
		path += dots + strspn(path + dots, "/");
	}
	return snprintf(joined, PATH_MAX, "%s/%s", base, path) < PATH_MAX;
}

/* The absolute path for a relative one: 1; WALKED_REAL, which is 0; or -ENAMETOOLONG. */
static int join(int directory_fd, const char *path, char joined[PATH_MAX])
{
	char base[PATH_MAX];

	if (path_of_fd(directory_fd, base))
		return snprintf(joined, PATH_MAX, "%s/%s", base, path) < PATH_MAX ? 1
										  : -ENAMETOOLONG;
	return may_lead_inside(path) && path_outside(directory_fd, base) &&
	       join_outside(base, path, joined);
}

/* Of a path outside the view is not needed, nor may what it takes make the call fail. */
static int find(const char *path, bool follow, struct served *out)
{
	UNCANCELLED; /* stat(2) is no cancellation point, and the view would be lost */
	int rc;

	if (!walk_enters(path))
		return WALKED_REAL;
	rc = view_load(&out->view);
	if (rc < 0)
		return rc;
	rc = walk(&out->view, path, follow, &out->node, out->elsewhere);
	if (rc != WALKED_NODE)
		view_free(&out->view);
	return rc;
}

int served_begin(int directory_fd, const char *path, bool follow, struct served *out)
{
	int before = errno, rc = 1;
	char joined[PATH_MAX];

	if (path[0] != '/') {
		rc = join(directory_fd, path, joined);
		path = joined;
	}
	if (rc > 0)
		rc = find(path, follow, out);
	errno = before;
	return rc;
}

int served_begin_fd(int fd, struct served *out)
{
	int before = errno, rc = WALKED_REAL;
	char path[TREE_PATH_MAX];

	if (path_of_fd(fd, path) && find(path, false, out) == WALKED_NODE)
		rc = WALKED_NODE;
	errno = before;
	return rc;
}

int served_begin_at(int directory_fd, const char *path, int flags, struct served *out)
{
	if (is_about_fd(path, flags))
		return served_begin_fd(directory_fd, out);
	return served_begin(directory_fd, path, !(flags & AT_SYMLINK_NOFOLLOW), out);
}

void served_end(struct served *served)
{
	view_free(&served->view);
}

static ino_t number_of(const char *path)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	while (*path)
		hash = (hash ^ (unsigned char)*path++) * UINT64_C(0x100000001b3);
	return hash >> 16 | 1;
}

void served_stat(const struct served *served, struct stat *out)
{
	static const mode_t modes[] = {
		[NODE_DIRECTORY] = S_IFDIR | 0755,
		[NODE_FILE] = S_IFREG | 0444,
		[NODE_LINK] = S_IFLNK | 0777,
		[NODE_DEVICE] = S_IFCHR | 0666,
	};
	memset(out, 0, sizeof(*out));
	out->st_dev = DEVICE_NUMBER;
	out->st_ino = number_of(served->node.path);
	out->st_mode = modes[served->node.kind];
	out->st_nlink = 1; /* for a directory: not counted */
	out->st_size = (off_t)tree_size(&served->view, &served->node);
	out->st_blksize = 4096;
	if (served->node.kind == NODE_DEVICE)
		out->st_rdev = makedev(UVERBS_MAJOR, UVERBS_MINOR + served->node.device);
	out->st_atim.tv_sec = out->st_mtim.tv_sec = out->st_ctim.tv_sec = time(NULL);
}

/* What a program reads from start to end reads as well from a pipe, which has room for it. */
static int make_pipe(const char *text, int len, int flags)
{
	int ends[2], rc;

	if (pipe2(ends, flags & O_CLOEXEC) < 0)
		return -errno;
	rc = sys_write(ends[1], text, (size_t)len) == len ? ends[0] : -EIO;
	close(ends[1]);
	if (rc < 0)
		close(ends[0]);
	return rc;
}

static int make_fd(const struct served *served, const char *text, int len, int flags)
{
	char name[TREE_PATH_MAX + sizeof(FD_NAME)];
	int fd, error;

	if (!memory_file_may_reach(len))
		return make_pipe(text, len, flags);
	snprintf(name, sizeof(name), FD_NAME "%s", served->node.path);
	fd = memfd_create(name, MFD_ALLOW_SEALING | (flags & O_CLOEXEC ? MFD_CLOEXEC : 0));
	if (fd < 0)
		return -errno;
	if (pwrite(fd, text, len, 0) == len &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0) {
		atomic_store_explicit(&any_made, true, memory_order_relaxed);
		return fd;
	}
	error = errno;
	close(fd);
	return -error;
}

int served_open(const struct served *served, int flags)
{
	bool is_directory = served->node.kind == NODE_DIRECTORY;
	char text[TREE_TEXT_MAX];
	int len = 0;

	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
		return -EEXIST;
	if (is_directory && ((flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT))
		return -EISDIR;
	if (!is_directory && flags & O_DIRECTORY)
		return -ENOTDIR;
	if (served->node.kind == NODE_LINK || served->node.kind == NODE_DEVICE) {
		if (flags & O_PATH)
			return make_fd(served, "", 0, flags);
		return served->node.kind == NODE_LINK ? -ELOOP : -ENXIO;
	}
	if ((flags & O_ACCMODE) != O_RDONLY)
		return -EACCES;
	if (!is_directory)
		len = tree_text(&served->view, &served->node, text, sizeof(text));
	return len < 0 ? len : make_fd(served, text, len, flags);
}

int served_access(const struct served *served, int mode)
{
	enum node_kind kind = served->node.kind;

	if (mode & W_OK && kind != NODE_DEVICE)
		return kind == NODE_DIRECTORY ? -EROFS : -EACCES;
	return mode & X_OK && kind != NODE_DIRECTORY ? -EACCES : 0;
}
