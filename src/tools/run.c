/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim run - executes a program with Verbatim's libraries in place of the system's.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/libdir.h"
#include "tools/program.h"

static const char usage[] =
	"Usage: verbatim run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
	"\n"
	"Runs PROGRAM with Verbatim's libibverbs in place of the system's; it and what it starts "
	"find\n"
	"the devices in /sys/class/infiniband and /dev/infiniband, too.\n"
	"\n"
	"  -e, --explain[=FILE]     say on standard error, or at the end of FILE, why things "
	"failed\n"
	"                           (VERBATIM_EXPLAIN)\n"
	"  -d, --devices LIST       interfaces or devices to show, separated by commas\n"
	"                           (VERBATIM_DEVICES)\n"
	"  -p, --vendor-part-id N   what to report as vendor_part_id (VERBATIM_VENDOR_PART_ID)\n"
	"      --iwarp              devices are RNICs (iWARP: RDMA over TCP), for rdma_cm\n"
	"                           (VERBATIM_TRANSPORT=iwarp)\n"
	"      --no-sysfs           leave /sys/class/infiniband and /dev/infiniband as they are\n"
	"  -h, --help               print this\n"
	"  -V, --version            print the version\n"
	"\n"
	"The exit status is PROGRAM's; 127 if there is no such program, 126 if it cannot be\n"
	"executed, 125 if Verbatim itself failed.\n";

static int set_variable(const char *name, const char *value)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): getopt_long has set optarg */
	if (setenv(name, value, 1) == 0)
		return 0;
	fprintf(stderr, "verbatim: cannot set %s: %s\n", name, strerror(errno));
	return -1;
}

static int set_vendor_part_id(const char *text)
{
	unsigned long id;
	char *end, number[32];

	errno = 0;
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): getopt_long has set optarg */
	id = strtoul(text, &end, 0);
	if (errno || end == text || *end || *text == '-' || id > UINT_MAX) {
		fprintf(stderr, "verbatim: '%s' is not a vendor part ID: a number up to 2^32 - 1\n",
			text);
		return -1;
	}
	snprintf(number, sizeof(number), "%lu", id);
	return set_variable("VERBATIM_VENDOR_PART_ID", number);
}

/* Options without a short form. */
#define OPTION_NO_SYSFS 256
#define OPTION_IWARP	257

/* -1 to go on, or the exit status. */
static int parse_options(int argc, char **argv, bool *sysfs)
{
	static const struct option longs[] = {
		{ "explain", optional_argument, NULL, 'e' },
		{ "devices", required_argument, NULL, 'd' },
		{ "vendor-part-id", required_argument, NULL, 'p' },
		{ "iwarp", no_argument, NULL, OPTION_IWARP },
		{ "no-sysfs", no_argument, NULL, OPTION_NO_SYSFS },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	int opt, rc = 0;

	/* With the plus getopt stops at the program's name. */
	optind = 0;
	while (rc == 0 && (opt = getopt_long(argc, argv, "+e::d:p:hV", longs, NULL)) >= 0) {
		switch (opt) {
		case 'e':
			rc = set_variable("VERBATIM_EXPLAIN", optarg ? optarg : "1");
			break;
		case 'd':
			rc = set_variable("VERBATIM_DEVICES", optarg);
			break;
		case 'p':
			rc = set_vendor_part_id(optarg);
			break;
		case OPTION_IWARP:
			rc = set_variable("VERBATIM_TRANSPORT", "iwarp");
			break;
		case OPTION_NO_SYSFS:
			*sysfs = false;
			break;
		default:
			rc = command_common_option(opt, "run", usage);
			return rc == COMMAND_USAGE ? COMMAND_RUN_FAILED : rc;
		}
	}
	if (rc == 0 && optind >= argc) {
		fputs("verbatim run: missing operand\n", stderr);
		command_misused("run");
		rc = -1;
	}
	return rc ? COMMAND_RUN_FAILED : -1;
}

static int find_libdir(struct libdir *libs)
{
	char program_dir[PATH_MAX];
	int rc;

	rc = libdir_of_program(program_dir, sizeof(program_dir));
	if (rc == 0)
		rc = libdir_find(program_dir, libs);
	if (rc == -ENXIO) {
		fprintf(stderr,
			"verbatim: where this program is cannot be found out: mount /proc, or "
			"start verbatim by its path\n");
		return -1;
	}
	if (rc == -EINVAL) {
		fprintf(stderr,
			"verbatim: the path of Verbatim's libraries has a ':' or ';', which "
			"LD_LIBRARY_PATH cannot name: move Verbatim\n");
		return -1;
	}
	if (rc != 0) {
		fprintf(stderr,
			"verbatim: libibverbs.so.1 is neither in the build tree around %s nor in "
			"%s: "
			"build or install Verbatim completely\n",
			rc == -ENOENT ? program_dir : "this program", libdir_installed());
		return -1;
	}
	return 0;
}

/* Sets the variable to two lists joined by a colon; either may be empty. */
static int extend(const char *name, const char *first, const char *second)
{
	char *joined;
	int rc;

	/* An empty element would be the current directory. */
	if (asprintf(&joined, "%s%s%s", first, *first && *second ? ":" : "", second) < 0)
		return -1;
	rc = set_variable(name, joined);
	free(joined);
	return rc;
}

static const char *value_of(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "";
}

/*
 * Appends to LD_PRELOAD: a sanitizer's library that is there has to be the first. A program that is
 * linked with libasan.so has it behind what is preloaded, and refuses to run; but it misses
 * nothing, as this library passes each call on to the next one. ASAN_OPTIONS of the user come last
 * and win.
 */
static int set_preload(const struct libdir *libs)
{
	int rc;

	if (strpbrk(libs->preload, " :")) {
		fprintf(stderr,
			"verbatim: warning: the loader takes no path with a space: %s is not "
			"loaded, and /sys/class/infiniband stays as it is\n",
			libs->preload);
		return 0;
	}
	if (!*libs->preload)
		return 0;
	rc = extend("LD_PRELOAD", value_of("LD_PRELOAD"), libs->preload);
	if (rc == 0)
		rc = extend("ASAN_OPTIONS", "verify_asan_link_order=0", value_of("ASAN_OPTIONS"));
	return rc;
}

/* Programs that answer for the system's where those ask the kernel (src/preload/bin). */
static int set_path(const struct libdir *libs)
{
	const char *path = getenv("PATH");

	return *libs->programs && path ? extend("PATH", libs->programs, path) : 0;
}

/* 0, or -1 after a message on stderr. */
static int set_environment(bool sysfs)
{
	struct libdir libs;
	int rc = find_libdir(&libs);

	if (rc == 0)
		rc = extend("LD_LIBRARY_PATH", libs.library_path, value_of("LD_LIBRARY_PATH"));
	if (rc == 0 && sysfs)
		rc = set_preload(&libs);
	if (rc == 0 && sysfs)
		rc = set_path(&libs);
	return rc;
}

/* Of a script its interpreter is judged: the kernel ignores the script's own set-user-ID. */
static enum program_verdict warn(const char *path)
{
	char interpreter[PATH_MAX];
	bool is_script = program_interpreter(path, interpreter, sizeof(interpreter));
	const char *judged = is_script ? interpreter : path;
	const char *runs = is_script ? ", which runs " : "", *script = is_script ? path : "";
	const char *comma = is_script ? "," : "";
	enum program_verdict verdict = program_judge(judged);

	switch (verdict) {
	case PROGRAM_FINE:
		break;
	case PROGRAM_STATIC:
		fprintf(stderr,
			"verbatim: warning: %s%s%s%s is statically linked, so it will not use "
			"Verbatim: link it dynamically\n",
			judged, runs, script, comma);
		break;
	case PROGRAM_OTHER_CLASS:
		fprintf(stderr,
			"verbatim: warning: %s%s%s%s is made for another kind of machine than "
			"Verbatim, so it will not use it\n",
			judged, runs, script, comma);
		break;
	case PROGRAM_PRIVILEGED:
		fprintf(stderr,
			"verbatim: warning: %s%s%s%s runs with privileges of its own, so the "
			"system "
			"ignores LD_LIBRARY_PATH for it: use 'verbatim enable'\n",
			judged, runs, script, comma);
		break;
	}
	return verdict;
}

static int complain(const char *name, int error)
{
	if (error != ENOENT) {
		fprintf(stderr, "verbatim: cannot execute %s: %s\n", name, strerror(error));
		return COMMAND_RUN_NOT_EXECUTABLE;
	}
	fprintf(stderr, "verbatim: there is no program %s\n", name);
	return COMMAND_RUN_NOT_FOUND;
}

int run_command(int argc, char **argv)
{
	bool sysfs = true;
	int status = parse_options(argc, argv, &sysfs), rc;
	char path[PATH_MAX];

	if (status >= 0)
		return status;
	if (set_environment(sysfs) != 0) /* PATH, too */
		return COMMAND_RUN_FAILED;
	rc = program_find(argv[optind], path, sizeof(path));
	if (rc != 0)
		return complain(argv[optind], -rc);

	/*
	 * execvp, given the name again, runs a script without #! line as a shell does; and a
	 * program for another machine, which is none.
	 */
	if (warn(path) == PROGRAM_OTHER_CLASS)
		execv(path, argv + optind);
	else
		execvp(argv[optind], argv + optind);
	if (errno == ENOENT) {
		fprintf(stderr, "verbatim: cannot execute %s: its interpreter is missing\n", path);
		return COMMAND_RUN_NOT_EXECUTABLE;
	}
	return complain(argv[optind], errno);
}
