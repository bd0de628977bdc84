/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim enable - makes the dynamic loader prefer Verbatim's libraries, for all programs of the
 * host.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/libdir.h"

#define CONF_DIR "/etc/ld.so.conf.d"
/*
 * The loader takes a library from the first directory that has it. ldconfig reads the files of
 * ld.so.conf.d in the order of their names.
 */
#define CONF_NAME "00-verbatim.conf"

static const char usage[] =
	"Usage: verbatim enable [--disable] [--root DIR]\n"
	"\n"
	"Lets all programs of this host use Verbatim instead of the system's libibverbs, which is\n"
	"not touched: writes " CONF_DIR "/" CONF_NAME " and runs ldconfig.\n"
	"\n"
	"  -d, --disable   undo that\n"
	"  -r, --root DIR  write below DIR, and do not run ldconfig; for images and packages\n"
	"  -h, --help      print this\n"
	"  -V, --version   print the version\n";

struct options {
	bool disable;
	const char *root; /* NULL: this host */
};

/* -1 to go on, or the exit status. */
static int parse_options(int argc, char **argv, struct options *out)
{
	static const struct option longs[] = {
		{ "disable", no_argument, NULL, 'd' },
		{ "root", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	int opt;

	optind = 0;
	while ((opt = getopt_long(argc, argv, "dr:hV", longs, NULL)) >= 0) {
		switch (opt) {
		case 'd':
			out->disable = true;
			break;
		case 'r':
			out->root = optarg;
			break;
		default:
			return command_common_option(opt, "enable", usage);
		}
	}
	if (optind < argc)
		return command_extra_operand("enable", argv[optind]);
	if (out->root && !*out->root) {
		fputs("verbatim: --root needs a directory\n", stderr);
		return COMMAND_USAGE;
	}
	return -1;
}

static int complain(const char *doing, const char *what)
{
	fprintf(stderr, "verbatim: cannot %s %s: %s%s\n", doing, what, strerror(errno),
		errno == EACCES || errno == EPERM ? " (root may)" : "");
	return COMMAND_FAILED;
}

/* Does not create `root`, so that a mistyped one is an error. */
static int make_conf_dir(const char *root, const char *dir)
{
	char etc[PATH_MAX];

	snprintf(etc, sizeof(etc), "%s/etc", root);
	if (mkdir(etc, 0755) != 0 && errno != EEXIST)
		return complain("make", etc);
	if (mkdir(dir, 0755) != 0 && errno != EEXIST)
		return complain("make", dir);
	return COMMAND_OK;
}

/*
 * Writes under a name that ldconfig's *.conf does not match, then renames, so that ldconfig never
 * reads half a file.
 */
static int write_conf(const char *path, const char *library_dir)
{
	char temporary[PATH_MAX];
	FILE *file = NULL;
	int fd;

	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary)) {
		errno = ENAMETOOLONG;
		return complain("write", path);
	}
	fd = mkstemp(temporary);
	if (fd < 0)
		return complain("write", path);
	file = fdopen(fd, "w");
	if (!file) {
		close(fd);
		goto remove;
	}
	fprintf(file,
		"# Verbatim: RDMA verbs without RDMA hardware. Undo with: verbatim enable "
		"--disable\n"
		"%s\n",
		library_dir);
	if (ferror(file) || fflush(file) != 0 || fchmod(fd, 0644) != 0) {
		fclose(file);
		goto remove;
	}
	if (fclose(file) != 0 || rename(temporary, path) != 0)
		goto remove;
	return COMMAND_OK;
remove:
	complain("write", path);
	unlink(temporary);
	return COMMAND_FAILED;
}

static int run_ldconfig(void)
{
	static const char *const places[] = { "/sbin/ldconfig", "/usr/sbin/ldconfig" };
	char *argv[] = { (char *)"ldconfig", NULL };
	int status = 0, rc = ENOENT;
	pid_t pid = -1;

	for (unsigned i = 0; rc != 0 && i < sizeof(places) / sizeof(places[0]); i++)
		rc = posix_spawn(&pid, places[i], NULL, NULL, argv, environ);
	if (rc != 0) {
		errno = rc;
		return complain("run", "ldconfig");
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return COMMAND_OK;
	fputs("verbatim: ldconfig failed\n", stderr);
	return COMMAND_FAILED;
}

/*
 * The directory to write: for this host the one where the libraries are, for another root the one
 * of the installation. 0, or the exit status.
 */
static int choose_library_dir(const struct options *options, struct libdir *libs)
{
	char program_dir[PATH_MAX];
	int rc;

	if (options->root) {
		snprintf(libs->library_path, sizeof(libs->library_path), "%s", libdir_installed());
		return COMMAND_OK;
	}
	rc = libdir_of_program(program_dir, sizeof(program_dir));
	if (rc == 0)
		rc = libdir_find(program_dir, libs);
	if (rc == 0 && !libs->build_tree)
		return COMMAND_OK;
	if (rc == -EINVAL) {
		fprintf(stderr, "verbatim: the path of Verbatim's libraries has a ':' or ';': move "
				"Verbatim\n");
		return COMMAND_FAILED;
	}
	fprintf(stderr,
		"verbatim: Verbatim is not installed in %s: run 'meson install' first, and then "
		"the "
		"verbatim that it installed\n",
		libdir_installed());
	return COMMAND_FAILED;
}

/* Linux 6.8, whose userfaultfd moves pages. */
static bool kernel_moves_pages(void)
{
	struct utsname kernel;
	unsigned major, minor;

	return uname(&kernel) == 0 && sscanf(kernel.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 8));
}

static bool sysctl_lets_all(void)
{
	FILE *file = fopen("/proc/sys/vm/unprivileged_userfaultfd", "re");
	int setting = file ? fgetc(file) : EOF;

	if (file)
		fclose(file);
	return setting == '1';
}

/*
 * One line if other users would have more with access to userfaultfd. Where there is no such
 * device, as in containers, no rule gives it to them. With an ACL the mode's bits of the group are
 * its mask.
 */
static void tell_of_userfaultfd(void)
{
	struct stat st;

	if (stat("/dev/userfaultfd", &st) != 0 || (st.st_mode & 066) || !kernel_moves_pages() ||
	    sysctl_lets_all())
		return;
	printf("Only root may open /dev/userfaultfd: for others memory regions of multi-threaded "
	       "programs migrate less. Who is logged in at the machine gets it by the udev rule "
	       "%s%s (man 7 verbatim, VERBATIM_MIGRATE).\n",
	       UDEV_RULES, access(UDEV_RULES, F_OK) == 0 ? "" : ", which is not installed");
}

static int enable(const struct options *options, const char *dir, const char *path)
{
	struct libdir libs;
	int status = choose_library_dir(options, &libs);

	if (status == COMMAND_OK)
		status = make_conf_dir(options->root ? options->root : "", dir);
	if (status == COMMAND_OK)
		status = write_conf(path, libs.library_path);
	if (status != COMMAND_OK)
		return status;
	printf("Wrote %s.\n", path);
	if (!options->root)
		tell_of_userfaultfd();
	return COMMAND_OK;
}

static int disable(const char *path)
{
	if (unlink(path) == 0)
		printf("Removed %s.\n", path);
	else if (errno == ENOENT)
		printf("There is no %s: nothing to undo.\n", path);
	else
		return complain("remove", path);
	return COMMAND_OK;
}

int enable_command(int argc, char **argv)
{
	struct options options = { .disable = false };
	int status = parse_options(argc, argv, &options);
	char dir[PATH_MAX], path[PATH_MAX];
	const char *root;

	if (status >= 0)
		return status;
	root = options.root ? options.root : "";
	if (snprintf(dir, sizeof(dir), "%s" CONF_DIR, root) >= (int)sizeof(dir) ||
	    snprintf(path, sizeof(path), "%s" CONF_DIR "/" CONF_NAME, root) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return complain("use", "that root");
	}

	status = options.disable ? disable(path) : enable(&options, dir, path);
	fflush(stdout);
	if (status == COMMAND_OK && !options.root)
		status = run_ldconfig();
	return command_end(status);
}
