/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatimd - does what the kernel does for adapters: numbers the processes that use Verbatim,
 * passes descriptors between them, and manages connections.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "daemon/service.h"
#include "event/background.h"
#include "verbatimd/server.h"

struct options {
	enum daemon_scope scope;
	bool foreground;
};

static const char usage[] =
	"Usage: verbatimd [--system | --shared] [--foreground]\n"
	"\n"
	"Serves the processes of this user that use Verbatim. It is started by the first of them\n"
	"and ends some seconds after the last: there is no need to start it by hand.\n"
	"\n"
	"  -s, --system      serve all users of this host, and stay; for a service manager\n"
	"      --shared      serve this user's processes of all network namespaces that share\n"
	"                    VERBATIM_SOCKET_DIR, for what they have in common\n"
	"  -f, --foreground  do not go into the background\n"
	"  -h, --help        print this\n"
	"  -V, --version     print the version\n"
	"\n"
	"Environment:\n"
	"  VERBATIMD_LINGER_MS  how long to stay without clients, in ms (3000)\n"
	"  VERBATIM_NAMESPACE   serve only the processes that have the same value\n"
	"  VERBATIM_SOCKET_DIR  where, with --shared\n";

#define OPTION_SHARED 256

static int misused(const char *why)
{
	if (why)
		fprintf(stderr, "verbatimd: %s\n", why);
	fputs("Try 'verbatimd --help' for more information.\n", stderr);
	return 2;
}

/* Returns -1 to continue, or the exit status. */
static int parse_options(int argc, char **argv, struct options *out)
{
	static const struct option longs[] = {
		{ "system", no_argument, NULL, 's' },
		{ "shared", no_argument, NULL, OPTION_SHARED },
		{ "foreground", no_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	bool system = false, shared = false;
	int opt;

	argv[0] = (char *)"verbatimd"; /* getopt_long puts it before its messages */
	while ((opt = getopt_long(argc, argv, "sfhV", longs, NULL)) >= 0) {
		switch (opt) {
		case 's':
			system = true;
			break;
		case OPTION_SHARED:
			shared = true;
			break;
		case 'f':
			out->foreground = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'V':
			puts("verbatimd " VERBATIM_VERSION);
			return 0;
		default:
			return misused(NULL);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "verbatimd: extra operand '%s'\n", argv[optind]);
		return misused(NULL);
	}
	if (system && shared)
		return misused("--system and --shared exclude each other");
	if (system || shared)
		out->scope = system ? DAEMON_OF_SYSTEM : DAEMON_OF_DIRECTORY;
	return -1;
}

static int fail(const char *doing, int error)
{
	fprintf(stderr, "verbatimd: %s: %s\n", doing, strerror(-error));
	return 1;
}

/* -1 and a daemon that listens, or the exit status. */
static int begin(struct daemon *d, const struct options *options)
{
	int rc = server_init(d, options->scope);

	/* Another daemon was faster, so the program that started this one has a daemon. */
	if (rc == -EADDRINUSE && !options->foreground)
		return 0;
	if (rc == -EADDRINUSE)
		return fail("another one serves already", rc);
	if (rc)
		return fail("cannot listen", rc);
	if (!options->foreground) {
		rc = background_detach();
		if (rc)
			return fail("cannot go into the background", rc);
	}
	return -1;
}

int main(int argc, char **argv)
{
	static struct daemon d;
	struct options options = { .scope = DAEMON_OF_USER };
	int report_fd = -1;
	int status = parse_options(argc, argv, &options);
	int rc;

	if (status >= 0)
		return status;
	rc = background_clean(service_begin());
	if (!rc && !options.foreground)
		rc = background_fork(&report_fd);
	if (rc)
		return fail("cannot start", rc);

	status = begin(&d, &options);
	if (report_fd >= 0)
		background_report(report_fd, status < 0 ? 0 : status);
	if (status >= 0)
		return status;
	service_notify("READY=1", NULL, 0);
	server_run(&d);
	server_fini(&d);
	return 0;
}
