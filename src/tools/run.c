/*
 * verbatim run - executes a program with our libraries before the system's.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/place.h"
#include "tools/program.h"

static const char usage[] =
    "Usage: verbatim run [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Runs PROGRAM with Verbatim's libibverbs in place of the system's.\n"
    "\n"
    "  -e, --explain[=FILE]     say on standard error, or at the end of FILE, why things failed\n"
    "                           (VERBATIM_EXPLAIN)\n"
    "  -d, --devices LIST       interfaces or devices to show, separated by commas\n"
    "                           (VERBATIM_DEVICES)\n"
    "  -p, --vendor-part-id N   what to report as vendor_part_id (VERBATIM_VENDOR_PART_ID)\n"
    "  -h, --help               print this\n"
    "  -V, --version            print the version\n"
    "\n"
    "The exit status is PROGRAM's; 127 if there is no such program, 126 if it cannot be\n"
    "executed, 125 if Verbatim itself failed.\n";

static int set_variable(const char *name, const char *value)
{
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
	id = strtoul(text, &end, 0);
	if (errno || end == text || *end || *text == '-' || id > UINT_MAX) {
		fprintf(stderr, "verbatim: '%s' is not a vendor part ID: a number up to 2^32 - 1\n",
			text);
		return -1;
	}
	snprintf(number, sizeof(number), "%lu", id);
	return set_variable("VERBATIM_VENDOR_PART_ID", number);
}

/* -1 to go on, or the exit status. */
static int parse_options(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"explain", optional_argument, NULL, 'e'},
	    {"devices", required_argument, NULL, 'd'},
	    {"vendor-part-id", required_argument, NULL, 'p'},
	    {"help", no_argument, NULL, 'h'},
	    {"version", no_argument, NULL, 'V'},
	    {0},
	};
	int opt, rc = 0;

	/* The plus: options after the program's name are the program's. */
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
		case 'h':
			fputs(usage, stdout);
			return command_end(COMMAND_OK);
		case 'V':
			return command_version();
		default:
			command_misused("run");
			return COMMAND_RUN_FAILED;
		}
	}
	if (rc == 0 && optind >= argc) {
		fputs("verbatim: run which program?\n", stderr);
		command_misused("run");
		rc = -1;
	}
	return rc ? COMMAND_RUN_FAILED : -1;
}

static int set_library_path(void)
{
	const char *before = getenv("LD_LIBRARY_PATH");
	char program_dir[PATH_MAX], *path;
	struct place place;
	int rc;

	rc = place_of_program(program_dir, sizeof(program_dir));
	if (rc == 0)
		rc = place_find(program_dir, &place);
	if (rc != 0) {
		fprintf(
		    stderr,
		    "verbatim: libibverbs.so.1 is neither in the build tree around %s nor in %s: "
		    "build or install Verbatim completely\n",
		    rc == -ENOENT ? program_dir : "this program", place_installed());
		return -1;
	}

	/* An empty element would be the current directory. */
	if (asprintf(&path, "%s%s%s", place.library_path, before && *before ? ":" : "",
		     before ? before : "") < 0)
		return -1;
	rc = set_variable("LD_LIBRARY_PATH", path);
	free(path);
	return rc;
}

static void warn(const char *path)
{
	switch (program_judge(path)) {
	case PROGRAM_FINE:
		break;
	case PROGRAM_STATIC:
		fprintf(
		    stderr,
		    "verbatim: warning: %s is statically linked, so it will not use Verbatim: link "
		    "it dynamically\n",
		    path);
		break;
	case PROGRAM_OTHER_CLASS:
		fprintf(
		    stderr,
		    "verbatim: warning: %s is made for another kind of machine than Verbatim, so "
		    "it will not use it\n",
		    path);
		break;
	case PROGRAM_PRIVILEGED:
		fprintf(
		    stderr,
		    "verbatim: warning: %s runs with privileges of its own, so the system ignores "
		    "LD_LIBRARY_PATH for it: use 'verbatim enable'\n",
		    path);
		break;
	}
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
	int status = parse_options(argc, argv), rc;
	char path[PATH_MAX];

	if (status >= 0)
		return status;
	rc = program_find(argv[optind], path, sizeof(path));
	if (rc != 0)
		return complain(argv[optind], -rc);
	if (set_library_path() != 0)
		return COMMAND_RUN_FAILED;
	warn(path);

	/* By its name again: like a shell, execvp runs a script that has no #! line. */
	execvp(argv[optind], argv + optind);
	if (errno == ENOENT) {
		fprintf(stderr, "verbatim: cannot execute %s: its interpreter is missing\n", path);
		return COMMAND_RUN_NOT_EXECUTABLE;
	}
	return complain(argv[optind], errno);
}
