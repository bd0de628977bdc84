/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The results of the C library's functions for the tree and for real files, while
 * libverbatim-sysfs.so is loaded before it. This program does not know that library.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#define CLASS	 "/sys/class/infiniband"
#define DEVICE	 CLASS "/vrb_lo"
#define RESOLVED "/sys/devices/verbatim/vrb_lo/infiniband/vrb_lo"
#define STATE	 "4: ACTIVE\n"
#define EXPORT	 __attribute__((visibility("default")))

/* Of glibc, for programs built with _FORTIFY_SOURCE or linked long ago; no header has them. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int directory_fd, const char *path, int flags);
int __xstat(int version, const char *path, struct stat *out);
int __lxstat64(int version, const char *path, struct stat64 *out);
int __fxstat(int version, int fd, struct stat *out);
int __fxstatat(int version, int directory_fd, const char *path, struct stat *out, int flags);
char *__getcwd_chk(char *out, size_t size, size_t room);
char *__realpath_chk(const char *path, char *out, size_t room);
ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room);

static void reads_state(int fd)
{
	char text[64] = "";

	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text)), strlen(STATE));
	assert_string_equal(text, STATE);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(close(fd), 0);
}

static void opens(void **state)
{
	int directory = open(DEVICE "/ports", O_RDONLY | O_DIRECTORY | O_CLOEXEC), below;

	reads_state(open(DEVICE "/ports/1/state", O_RDONLY));
	reads_state(open64(DEVICE "/ports/1/state", O_RDONLY));
	reads_state(openat(AT_FDCWD, DEVICE "/ports/1/state", O_RDONLY));
	reads_state(__open_2(DEVICE "/ports/1/state", O_RDONLY));
	reads_state(__open64_2(DEVICE "/ports/1/state", O_RDONLY));
	assert_true(directory >= 0);
	reads_state(openat(directory, "1/state", O_RDONLY));
	reads_state(openat64(directory, "../ports/1/state", O_RDONLY));
	reads_state(__openat_2(directory, "1/state", O_RDONLY));
	below = openat(directory, "1", O_RDONLY);
	reads_state(openat(below, "state", O_RDONLY));
	assert_int_equal(fcntl(directory, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(below, F_GETFD), 0);
	close(below);
	close(directory);
}

/* No verbatimd runs here: all is 0. To ask leaves nothing open. */
static void counters(void **state)
{
	static const char *const paths[] = {
		DEVICE "/ports/1/counters/port_xmit_data",
		DEVICE "/ports/1/hw_counters/duplicate_request",
	};
	int first_free = dup(0);
	struct stat status;
	char text[64];
	int fd;

	close(first_free);
	for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		assert_int_equal(stat(paths[i], &status), 0);
		assert_int_equal(status.st_size, 4096);
		errno = 77;
		fd = open(paths[i], O_RDONLY);
		assert_int_equal(fd, first_free);
		assert_int_equal(errno, 77);
		assert_int_equal(fstat(fd, &status), 0);
		assert_int_equal(status.st_size, 4096);
		assert_int_equal(read(fd, text, sizeof(text)), 2);
		assert_memory_equal(text, "0\n", 2);
		close(fd);
	}
}

static void refuses_to_open(void **state)
{
	static const struct {
		const char *path;
		int flags, error;
	} rows[] = {
		{ DEVICE "/nothing", O_RDONLY, ENOENT },
		{ CLASS "/vrb_nothing", O_RDONLY, ENOENT },
		{ DEVICE "/fw_ver/x", O_RDONLY, ENOTDIR },
		{ DEVICE "/fw_ver", O_RDONLY | O_DIRECTORY, ENOTDIR },
		{ DEVICE "/fw_ver", O_RDWR, EACCES },
		{ DEVICE "/fw_ver", O_RDONLY | O_CREAT | O_EXCL, EEXIST },
		{ DEVICE "/ports", O_WRONLY, EISDIR },
		{ DEVICE "/device", O_RDONLY | O_NOFOLLOW, ELOOP },
		{ DEVICE "/ports/1/gid_attrs/types/15", O_RDONLY, EINVAL },
		{ "/dev/infiniband/uverbs0", O_RDWR, ENXIO },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		errno = 0;
		assert_int_equal(open(rows[i].path, rows[i].flags, 0600), -1);
		assert_int_equal(errno, rows[i].error);
	}
	assert_null(fopen(DEVICE "/nothing", "r"));
	assert_int_equal(errno, ENOENT);
	assert_null(fopen(DEVICE "/fw_ver", "w"));
	assert_int_equal(errno, EACCES);
}

static void streams(void **state)
{
	char line[64];
	FILE *file = fopen(DEVICE "/ports/1/state", "re");

	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	assert_string_equal(line, STATE);
	assert_null(fgets(line, sizeof(line), file));
	fclose(file);
	file = fopen64(DEVICE "/node_type", "r");
	assert_non_null(file);
	fclose(file);
}

static void statuses(void **state)
{
	int fd = open(DEVICE "/ports", O_RDONLY), text = open(DEVICE "/fw_ver", O_RDONLY);
	struct stat status, other;
	struct stat64 status64;
	struct statx extended;

	assert_int_equal(stat(DEVICE, &status), 0);
	assert_true(S_ISDIR(status.st_mode));
	assert_int_equal(status.st_nlink, 1);
	assert_int_equal(lstat(DEVICE, &status), 0);
	assert_true(S_ISLNK(status.st_mode));
	assert_int_equal(lstat64(DEVICE, &status64), 0);
	assert_true(S_ISLNK(status64.st_mode));
	assert_int_equal(__lxstat64(1, DEVICE, &status64), 0);
	assert_true(S_ISLNK(status64.st_mode));
	assert_int_equal(fstatat(AT_FDCWD, DEVICE, &status, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(status.st_mode));
	assert_int_equal(stat("/dev/infiniband/uverbs0", &status), 0);
	assert_true(S_ISCHR(status.st_mode));
	assert_int_equal(status.st_rdev, makedev(231, 192));
	assert_int_equal(__xstat(1, DEVICE "/fw_ver", &status), 0);
	assert_true(S_ISREG(status.st_mode) && status.st_size > 1);

	/* Programs compare what a name and its descriptor say. */
	assert_int_equal(stat(DEVICE "/ports", &status), 0);
	assert_int_equal(fstat(fd, &other), 0);
	assert_true(S_ISDIR(other.st_mode));
	assert_int_equal(other.st_ino, status.st_ino);
	assert_int_equal(other.st_dev, status.st_dev);
	assert_int_equal(fstat64(text, &status64), 0);
	assert_true(S_ISREG(status64.st_mode));
	assert_int_equal(status64.st_dev, status.st_dev);
	assert_int_equal(__fxstat(1, fd, &other), 0);
	assert_true(S_ISDIR(other.st_mode));
	assert_int_equal(fstatat(fd, "", &other, AT_EMPTY_PATH), 0);
	assert_int_equal(other.st_ino, status.st_ino);
	assert_int_equal(fstatat(fd, "1/lid", &other, 0), 0);
	assert_true(S_ISREG(other.st_mode));
	assert_int_equal(__fxstatat(1, fd, "1", &other, 0), 0);
	assert_true(S_ISDIR(other.st_mode));
	assert_int_equal(statx(AT_FDCWD, DEVICE "/ports", 0, STATX_BASIC_STATS, &extended), 0);
	assert_int_equal(extended.stx_ino, status.st_ino);
	assert_int_equal(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &extended), 0);
	assert_int_equal(extended.stx_ino, status.st_ino);
	assert_int_equal(statx(fd, "2", 0, STATX_BASIC_STATS, &extended), -1);
	assert_int_equal(errno, ENOENT);
	close(text);
	close(fd);
}

/* A call about a descriptor of the tree, or about the working directory there, as by its name. */
static void empty_paths(void **state)
{
	int here = open(".", O_RDONLY | O_DIRECTORY), ports = open(DEVICE "/ports", O_RDONLY);
	int text = open(DEVICE "/fw_ver", O_RDONLY), null = open("/dev/null", O_RDONLY), rc;
	const char *volatile none = NULL;
	struct stat of_path, status;
	struct statx extended;

	for (int i = 0; i < 3; i++) {
		int fd = i == 0 ? ports : i == 1 ? text : AT_FDCWD;

		assert_int_equal(stat(i == 1 ? DEVICE "/fw_ver" : DEVICE "/ports", &of_path), 0);
		if (fd == AT_FDCWD)
			assert_int_equal(fchdir(ports), 0);
		assert_int_equal(fstatat(fd, "", &status, AT_EMPTY_PATH), 0);
		assert_true(status.st_ino == of_path.st_ino && status.st_dev == of_path.st_dev);
		assert_int_equal(status.st_mode, of_path.st_mode);
		assert_int_equal(fstatat(fd, "", &status, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW), 0);
		assert_true(status.st_ino == of_path.st_ino && status.st_dev == of_path.st_dev);
		assert_int_equal(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &extended), 0);
		assert_int_equal(extended.stx_ino, of_path.st_ino);
		assert_int_equal(extended.stx_mode, of_path.st_mode);
		assert_int_equal(faccessat(fd, "", R_OK, AT_EMPTY_PATH), 0);
		assert_int_equal(faccessat(fd, "", W_OK, AT_EMPTY_PATH), -1);

		/* from Linux 6.11 on as an empty path, before that EFAULT */
		rc = fstatat(fd, none, &status, AT_EMPTY_PATH);
		assert_true(rc == 0 ? status.st_ino == of_path.st_ino : errno == EFAULT);
		rc = statx(fd, none, AT_EMPTY_PATH, STATX_BASIC_STATS, &extended);
		assert_true(rc == 0 ? extended.stx_ino == of_path.st_ino : errno == EFAULT);

		assert_int_equal(fstatat(fd, "", &status, 0), -1);
		assert_int_equal(errno, ENOENT);
		assert_int_equal(statx(fd, "", 0, STATX_BASIC_STATS, &extended), -1);
		assert_int_equal(errno, ENOENT);
		assert_int_equal(faccessat(fd, "", F_OK, 0), -1);
		assert_int_equal(errno, ENOENT);
		assert_int_equal(openat(fd, "", O_RDONLY), -1);
		assert_int_equal(errno, ENOENT);
	}
	assert_int_equal(fchdir(here), 0);
	assert_int_equal(fstatat(null, "", &status, AT_EMPTY_PATH), 0);
	assert_true(S_ISCHR(status.st_mode));
	assert_int_equal(fstatat(-1, "", &status, AT_EMPTY_PATH), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(fstatat(AT_FDCWD, "", &status, AT_EMPTY_PATH), 0);
	assert_true(status.st_dev != of_path.st_dev);
	close(here);
	close(ports);
	close(text);
	close(null);
}

static void accesses(void **state)
{
	assert_int_equal(access(DEVICE "/fw_ver", R_OK), 0);
	assert_int_equal(access(DEVICE "/fw_ver", W_OK), -1);
	assert_int_equal(access(DEVICE "/ports", R_OK | X_OK), 0);
	assert_int_equal(faccessat(AT_FDCWD, DEVICE, F_OK, 0), 0);
	assert_int_equal(euidaccess("/dev/infiniband/uverbs0", R_OK | W_OK), 0);
	assert_int_equal(eaccess(DEVICE "/nothing", F_OK), -1);
	assert_int_equal(errno, ENOENT);
}

/* UCX opens no device without this. */
static void null_is_in_the_directory(void **state)
{
	struct stat status;

	assert_int_equal(stat("/dev/infiniband/../null", &status), 0);
	assert_true(S_ISCHR(status.st_mode));
	assert_int_equal(access("/dev/infiniband/../null", R_OK | W_OK), 0);
}

static void links(void **state)
{
	char text[PATH_MAX] = "", *path;
	ssize_t len = readlink(DEVICE, text, sizeof(text));

	assert_int_equal(len, strlen("../../devices/verbatim/vrb_lo/infiniband/vrb_lo"));
	assert_int_equal(readlink(DEVICE, text, 5), 5);
	assert_memory_equal(text, "../..", 5);
	assert_int_equal(readlinkat(AT_FDCWD, DEVICE, text, sizeof(text)), len);
	assert_int_equal(__readlink_chk(DEVICE, text, sizeof(text), sizeof(text)), len);
	assert_int_equal(readlink(DEVICE "/fw_ver", text, sizeof(text)), -1);
	assert_int_equal(errno, EINVAL);

	assert_ptr_equal(realpath(DEVICE, text), text);
	assert_string_equal(text, RESOLVED);
	assert_ptr_equal(__realpath_chk(DEVICE "/device", text, sizeof(text)), text);
	assert_string_equal(text, "/sys/devices/verbatim/vrb_lo");
	path = canonicalize_file_name(DEVICE "/device/net/lo");
	assert_non_null(path);
	assert_string_equal(path, "/sys/devices/virtual/net/lo");
	free(path);
	assert_null(realpath(DEVICE "/nothing", NULL));
}

/* What readdir_r(3) asks for: less than the size of the structure, which has padding. */
#define ENTRY_BYTES (offsetof(struct dirent, d_name) + NAME_MAX + 1)

/* The names in a directory, with a space behind each. */
static void read_names(DIR *stream, char *names)
{
	struct dirent *entry;

	names[0] = 0;
	while ((entry = readdir(stream)))
		if (entry->d_name[0] != '.')
			strcat(strcat(names, entry->d_name), " ");
}

static void directories(void **state)
{
	DIR *stream = opendir(DEVICE "/device"), *real = opendir("/proc/self");
	_Alignas(struct dirent) char room[ENTRY_BYTES + 1] = { [ENTRY_BYTES] = 'x' };
	char names[1024];
	struct dirent64 *entry;
	struct dirent *found;
	struct stat status;
	long position;

	assert_non_null(stream);
	assert_non_null(real);
	read_names(stream, names);
	assert_string_equal(names, "class device vendor local_cpulist local_cpus numa_node net "
				   "infiniband infiniband_verbs ");
	assert_int_equal(fstat(dirfd(stream), &status), 0);
	assert_true(S_ISDIR(status.st_mode));
	rewinddir(stream);
	assert_string_equal(readdir(stream)->d_name, ".");
	position = telldir(stream);
	assert_string_equal(readdir(stream)->d_name, "..");
	seekdir(stream, position);
	entry = readdir64(stream);
	assert_string_equal(entry->d_name, "..");
	assert_int_equal(entry->d_type, DT_DIR);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	assert_int_equal(readdir_r(stream, (struct dirent *)room, &found), 0);
#pragma GCC diagnostic pop
	assert_ptr_equal(found, room);
	assert_string_equal(found->d_name, "class");
	assert_int_equal(room[ENTRY_BYTES], 'x');

	/* A real one beside it. */
	entry = readdir64(real);
	assert_non_null(entry);
	position = telldir(real);
	assert_non_null(readdir(real));
	seekdir(real, position);
	rewinddir(real);
	assert_true(dirfd(real) >= 0);
	assert_int_equal(closedir(real), 0);
	assert_int_equal(closedir(stream), 0);

	stream = fdopendir(open(CLASS, O_RDONLY | O_DIRECTORY));
	assert_non_null(stream);
	read_names(stream, names);
	assert_string_equal(names, "vrb_lo ");
	closedir(stream);
	assert_null(opendir(DEVICE "/fw_ver"));
	assert_int_equal(errno, ENOTDIR);
	assert_null(opendir(DEVICE "/nothing"));
	assert_int_equal(errno, ENOENT);
}

static int is_version(const struct dirent *entry)
{
	return strstr(entry->d_name, "_ver") != NULL;
}

static void free_list(struct dirent **list, int count)
{
	while (count > 0)
		free(list[--count]);
	free(list);
}

static void scans(void **state)
{
	struct dirent **list;

	assert_int_equal(scandir(DEVICE, &list, is_version, alphasort), 1);
	assert_string_equal(list[0]->d_name, "fw_ver");
	free_list(list, 1);
	assert_int_equal(scandir(DEVICE "/ports/1/pkeys", &list, NULL, alphasort), 3);
	assert_string_equal(list[2]->d_name, "0");
	free_list(list, 3);
	assert_int_equal(scandirat(AT_FDCWD, CLASS, &list, NULL, alphasort), 3);
	assert_string_equal(list[2]->d_name, "vrb_lo");
	free_list(list, 3);
	assert_int_equal(scandir(DEVICE "/nothing", &list, NULL, NULL), -1);
	assert_int_equal(errno, ENOENT);
	assert_true(scandir("/proc/self", &list, is_version, alphasort) >= 0);
	free(list);
}

static void globs(void **state)
{
	glob_t found;

	assert_int_equal(glob(CLASS "/*/ports/*/link_layer", 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	assert_string_equal(found.gl_pathv[0], DEVICE "/ports/1/link_layer");
	globfree(&found);
	assert_int_equal(glob("/proc/sel[f]", 0, NULL, &found), 0);
	globfree(&found);
}

static void attributes(void **state)
{
	char value[16];

	assert_int_equal(getxattr(DEVICE, "user.x", value, sizeof(value)), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(lgetxattr(DEVICE, "user.x", value, sizeof(value)), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(listxattr(DEVICE "/nothing", value, sizeof(value)), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(llistxattr("/nothing", value, sizeof(value)), -1);
	assert_int_equal(errno, ENOENT);
}

/* Another process can use an inherited descriptor. */
static void inherited(void **state)
{
	int fd = open(DEVICE "/ports", O_RDONLY | O_DIRECTORY), status;
	pid_t child = fork();

	if (child == 0) {
		struct stat found;

		_exit(fstatat(fd, "1/rate", &found, 0) == 0 && S_ISREG(found.st_mode) ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(fd);
}

/* The library does not change calls for real files. */
static void real_files(void **state)
{
	char path[] = "/tmp/infiniband-XXXXXX", text[8], *resolved;
	int fd = mkstemp(path), again;
	struct stat status, other;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "real", 4), 4);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(fstat(fd, &other), 0);
	assert_int_equal(status.st_ino, other.st_ino);
	assert_int_equal(status.st_size, 4);
	again = open(path, O_RDWR);
	assert_true(again >= 0);
	assert_int_equal(read(again, text, sizeof(text)), 4);
	close(again);
	resolved = realpath(path, NULL);
	assert_string_equal(resolved, path);
	free(resolved);
	assert_int_equal(access(path, W_OK), 0);

	/* A file without a name that is not ours. */
	unlink(path);
	assert_int_equal(fstat(fd, &other), 0);
	assert_true(S_ISREG(other.st_mode));
	assert_int_equal(other.st_ino, status.st_ino);
	close(fd);

	assert_int_equal(open(path, O_RDONLY), -1);
	assert_int_equal(errno, ENOENT);
	again = open(path, O_RDWR | O_CREAT | O_EXCL, 0604);
	assert_true(again >= 0);
	assert_int_equal(fstat(again, &status), 0);
	assert_int_equal(status.st_mode & 0707, 0604);
	close(again);
	unlink(path);
}

static void is_in(const char *path)
{
	char out[PATH_MAX];
	char *made = getcwd(NULL, 0);

	assert_string_equal(made, path);
	free(made);
	assert_ptr_equal(getcwd(out, strlen(path) + 1), out);
	assert_string_equal(out, path);
	assert_ptr_equal(__getcwd_chk(out, sizeof(out), sizeof(out)), out);
	assert_string_equal(out, path);
	made = get_current_dir_name();
	assert_string_equal(made, path);
	free(made);
	errno = 0;
	assert_null(getcwd(out, strlen(path)));
	assert_int_equal(errno, ERANGE);
	assert_null(getcwd(out, 0));
	assert_int_equal(errno, EINVAL);
}

static void changes_directory(void **state)
{
	int before = open(".", O_RDONLY | O_DIRECTORY), ports = open(DEVICE "/ports", O_RDONLY);
	int text = open(DEVICE "/fw_ver", O_RDONLY);
	struct stat status, other;
	char out[PATH_MAX];

	assert_true(before >= 0 && ports >= 0 && text >= 0);
	assert_int_equal(chdir(DEVICE), 0);
	is_in(RESOLVED);
	reads_state(open("ports/1/state", O_RDONLY));
	reads_state(open("./ports/../ports/1//state", O_RDONLY));
	assert_int_equal(stat(".", &status), 0);
	assert_int_equal(stat(DEVICE, &other), 0);
	assert_true(status.st_ino == other.st_ino && status.st_dev == other.st_dev);
	assert_int_equal(access("fw_ver", R_OK), 0);
	assert_int_equal(readlink("device", out, sizeof(out)), strlen("../../../vrb_lo"));
	assert_non_null(realpath("ports/1", out));
	assert_string_equal(out, RESOLVED "/ports/1");
	assert_int_equal(stat("", &status), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(chdir("fw_ver"), -1);
	assert_int_equal(errno, ENOTDIR);
	assert_int_equal(chdir("nothing"), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(fchdir(text), -1);
	assert_int_equal(errno, ENOTDIR);
	is_in(RESOLVED);
	assert_int_equal(fchdir(ports), 0);
	is_in(RESOLVED "/ports");
	assert_int_equal(chdir("../device"), 0);
	is_in("/sys/devices/verbatim/vrb_lo");
	assert_int_equal(chdir("../.."), 0);
	is_in("/sys/devices");
	assert_int_equal(access("system", R_OK), 0);
	assert_int_equal(access("fw_ver", R_OK), -1);
	assert_int_equal(fchdir(before), 0);
	close(before);
	close(ports);
	close(text);
}

#define PLACES 4 /* where the library may make a directory, XDG_RUNTIME_DIR the last */

/* The next calls fail: of the library's, too, as the program's functions come before libc's. */
static struct {
	int calls, error;
} mkdir_fails, rmdir_fails;
static char left[PLACES][PATH_MAX];
static unsigned left_count;

EXPORT int mkdir(const char *path, mode_t mode)
{
	if (mkdir_fails.calls-- > 0) {
		errno = mkdir_fails.error;
		return -1;
	}
	return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

EXPORT int rmdir(const char *path)
{
	if (rmdir_fails.calls-- > 0) {
		assert_true(left_count < PLACES);
		strcpy(left[left_count++], path);
		errno = rmdir_fails.error;
		return -1;
	}
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

/* chdir, and what it writes to standard error. */
static int chdir_and_say(const char *path, char *said, size_t size)
{
	FILE *file = tmpfile();
	int before = dup(STDERR_FILENO), rc, error;
	size_t len;

	assert_true(file && before >= 0);
	assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
	errno = 0;
	rc = chdir(path);
	error = errno;
	assert_true(dup2(before, STDERR_FILENO) >= 0);
	close(before);
	rewind(file);
	len = fread(said, 1, size - 1, file);
	said[len] = 0;
	fclose(file);
	errno = error;
	return rc;
}

/* One place that refuses is no matter. When all do, chdir fails, says why, and changes nothing. */
static void makes_no_directory(void **state)
{
	static const int errors[] = { ENOSPC, EROFS, EEXIST, EACCES, EDQUOT };
	char here[PATH_MAX], now[PATH_MAX], said[1024];

	assert_non_null(getcwd(here, sizeof(here)));
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		mkdir_fails.error = errors[i];
		mkdir_fails.calls = 1;
		assert_int_equal(chdir_and_say(DEVICE, said, sizeof(said)), 0);
		assert_string_equal(said, "");
		is_in(RESOLVED);
		assert_int_equal(chdir(here), 0);
		mkdir_fails.calls = PLACES;
		assert_int_equal(chdir_and_say(DEVICE, said, sizeof(said)), -1);
		mkdir_fails.calls = 0;
		assert_int_equal(errno, errors[i]);
		assert_non_null(strstr(said, strerror(errors[i])));
		assert_non_null(strstr(said, "cannot change to " RESOLVED ":"));
		assert_string_equal(getcwd(now, sizeof(now)), here);
	}
}

/*
 * A directory that cannot be removed, as in one that is append-only: the library names it, and the
 * process is never in it.
 */
static void removes_no_directory(void **state)
{
	char here[PATH_MAX], now[PATH_MAX], said[2048];

	assert_non_null(getcwd(here, sizeof(here)));
	rmdir_fails.error = EPERM;
	rmdir_fails.calls = 1;
	assert_int_equal(chdir_and_say(DEVICE, said, sizeof(said)), 0);
	assert_non_null(strstr(said, "cannot remove /tmp/.verbatim-cwd."));
	is_in(RESOLVED);
	assert_int_equal(chdir(here), 0);
	rmdir_fails.calls = PLACES;
	assert_int_equal(chdir_and_say(DEVICE, said, sizeof(said)), -1);
	rmdir_fails.calls = 0;
	assert_int_equal(errno, EPERM);
	assert_non_null(strstr(said, "cannot change to " RESOLVED ":"));
	assert_string_equal(getcwd(now, sizeof(now)), here);
	while (left_count > 0)
		assert_int_equal(rmdir(left[--left_count]), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens),
		cmocka_unit_test(counters),
		cmocka_unit_test(refuses_to_open),
		cmocka_unit_test(streams),
		cmocka_unit_test(statuses),
		cmocka_unit_test(accesses),
		cmocka_unit_test(empty_paths),
		cmocka_unit_test(null_is_in_the_directory),
		cmocka_unit_test(links),
		cmocka_unit_test(directories),
		cmocka_unit_test(scans),
		cmocka_unit_test(globs),
		cmocka_unit_test(attributes),
		cmocka_unit_test(inherited),
		cmocka_unit_test(real_files),
		cmocka_unit_test(changes_directory),
		cmocka_unit_test(makes_no_directory),
		cmocka_unit_test(removes_no_directory),
	};

	/* The parent may have set SIG_IGN: then waitpid would find no child. */
	signal(SIGCHLD, SIG_DFL);
	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
