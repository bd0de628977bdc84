/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/undeclared.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/identity.h"
#include "verbs/export.h"

/* SYSFS_PATH is a variable of rdma-core, which tests of programs set to another tree. */
VERBS_EXPORT const char *ibv_get_sysfs_path(void)
{
	static char path[PATH_MAX] = "/sys";
	const char *other = secure_getenv("SYSFS_PATH");
	size_t len = other ? strlen(other) : 0;

	if (len > 0 && len < sizeof(path) && strcmp(path, other) != 0) {
		memcpy(path, other, len + 1);
		while (len > 1 && path[len - 1] == '/')
			path[--len] = 0;
	}
	return path;
}

/* Reads the file without its newline. Returns the bytes, or -1. */
static int read_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t len;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, buf, size);
	close(fd);
	if (len <= 0)
		return len;
	if (buf[len - 1] == '\n')
		buf[--len] = 0;
	else if ((size_t)len < size)
		buf[len] = 0;
	else
		return -1;
	return len;
}

VERBS_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	int len = read_file(dir, file, buf, size);

	if (len >= 0 || strcmp(file, "board_id") != 0 ||
	    (!strstr(dir, "/infiniband/vrb_") && !strstr(dir, "/infiniband/vrbw_")))
		return len;
	len = snprintf(buf, size, "%s", IDENTITY_BOARD_ID);
	return (size_t)len < size ? len : -1;
}
