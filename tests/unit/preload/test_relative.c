/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree by relative paths from directories outside of it, and by descriptors of links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESOLVED "/sys/devices/verbatim/vrb_lo/infiniband/vrb_lo"

static void reads(int fd)
{
	char text[64] = "";

	assert_return_code(fd, errno);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
}

static void from_a_descriptor(void **state)
{
	int class = open("/sys/class", O_RDONLY | O_DIRECTORY), sys = open("/sys", O_PATH);
	int devices = open("/sys/devices", O_PATH), tmp = open("/tmp", O_PATH), fd;
	char target[PATH_MAX];
	struct stat status;

	reads(openat(class, "infiniband/vrb_lo/fw_ver", O_RDONLY));
	reads(openat(sys, "class/./infiniband/vrb_lo/fw_ver", O_RDONLY));
	reads(openat(devices, "verbatim/vrb_lo/class", O_RDONLY));
	reads(openat(tmp, "../sys/class/infiniband/vrb_lo/fw_ver", O_RDONLY));
	assert_return_code(fstatat(class, "infiniband", &status, 0), errno);
	assert_true(S_ISDIR(status.st_mode));
	assert_true(readlinkat(class, "infiniband/vrb_lo", target, sizeof(target)) > 0);
	fd = openat(class, "infiniband", O_RDONLY | O_DIRECTORY);
	reads(openat(fd, "vrb_lo/fw_ver", O_RDONLY));
	close(fd);
	assert_int_equal(openat(tmp, "infiniband", O_RDONLY), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(openat(12345, "infiniband", O_RDONLY), -1);
	assert_int_equal(errno, EBADF);
	close(class);
	close(sys);
	close(devices);
	close(tmp);
}

static void from_the_current_directory(void **state)
{
	char *before = getcwd(NULL, 0), resolved[PATH_MAX];
	DIR *directory;
	glob_t found;

	assert_return_code(chdir("/sys/class"), errno);
	directory = opendir("infiniband");
	assert_non_null(directory);
	closedir(directory);
	assert_int_equal(glob("infiniband/vrb_*", 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	globfree(&found);
	assert_non_null(realpath("infiniband/vrb_lo", resolved));
	assert_string_equal(resolved, RESOLVED);
	reads(open("./infiniband/vrb_lo/fw_ver", O_RDONLY));
	assert_return_code(chdir("infiniband"), errno);
	reads(open("vrb_lo/fw_ver", O_RDONLY));
	assert_return_code(chdir("/sys/class/net"), errno);
	reads(open("../infiniband/vrb_lo/fw_ver", O_RDONLY));
	assert_return_code(chdir("/dev"), errno);
	assert_return_code(access("infiniband/uverbs0", F_OK), errno);
	assert_return_code(chdir(before), errno);
	free(before);
}

/* What systemd's and others' walks hold of each component. */
static void a_link_itself(void **state)
{
	char target[PATH_MAX] = "";
	struct stat status;
	int fd = open("/sys/class/infiniband/vrb_lo", O_PATH | O_NOFOLLOW | O_CLOEXEC), device;

	assert_return_code(fd, errno);
	assert_return_code(fstat(fd, &status), errno);
	assert_true(S_ISLNK(status.st_mode));
	assert_return_code(fstatat(fd, "", &status, AT_EMPTY_PATH), errno);
	assert_true(S_ISLNK(status.st_mode));
	assert_true(readlinkat(fd, "", target, sizeof(target) - 1) > 0);
	assert_non_null(strstr(target, "vrb_lo"));
	close(fd);
	device = open("/dev/infiniband/uverbs0", O_PATH | O_CLOEXEC);
	assert_return_code(device, errno);
	assert_return_code(fstat(device, &status), errno);
	assert_true(S_ISCHR(status.st_mode));
	assert_int_equal(readlinkat(device, "", target, sizeof(target)), -1);
	assert_int_equal(errno, ENOENT);
	close(device);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_a_descriptor),
		cmocka_unit_test(from_the_current_directory),
		cmocka_unit_test(a_link_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
