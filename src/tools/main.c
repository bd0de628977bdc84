/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim - runs programs over Verbatim, and shows what it does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"

static const struct {
	const char *name, *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "run", "run a program over Verbatim", run_command },
	{ "show", "show the processes that use Verbatim, their devices and QPs", show_command },
	{ "explain", "say why completions, verbs and connections failed", explain_command },
	{ "enable", "let all programs of this host use Verbatim", enable_command },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *out)
{
	fprintf(out, "Usage: verbatim COMMAND [OPTIONS] ...\n"
		     "\n"
		     "RDMA verbs for unmodified programs, on hosts that have no RDMA.\n"
		     "\n");
	for (unsigned i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
	fprintf(out, "\n"
		     "  -h, --help     print this; 'verbatim COMMAND --help' tells more\n"
		     "  -V, --version  print the version\n"
		     "\n"
		     "See also verbatim(1) and verbatim(7).\n");
}

int command_misused(const char *command)
{
	fprintf(stderr, "Try 'verbatim %s --help' for more information.\n", command);
	return COMMAND_USAGE;
}

static int print_version(void)
{
	puts("verbatim " VERBATIM_VERSION);
	return command_end(COMMAND_OK);
}

int command_common_option(int opt, const char *command, const char *usage)
{
	switch (opt) {
	case 'h':
		fputs(usage, stdout);
		return command_end(COMMAND_OK);
	case 'V':
		return print_version();
	default:
		return command_misused(command);
	}
}

int command_extra_operand(const char *command, const char *operand)
{
	fprintf(stderr, "verbatim %s: extra operand '%s'\n", command, operand);
	return command_misused(command);
}

int command_end(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (errno != EPIPE)
		fprintf(stderr, "verbatim: cannot write: %s\n", strerror(errno));
	return status == COMMAND_OK ? COMMAND_FAILED : status;
}

static int call(const char *name, int argc, char **argv)
{
	for (unsigned i = 0; i < COMMANDS; i++) {
		char title[32];

		if (strcmp(commands[i].name, name) != 0)
			continue;
		snprintf(title, sizeof(title), "verbatim %s", name);
		argv[0] = title;
		return commands[i].run(argc, argv);
	}
	fprintf(stderr, "verbatim: '%s' is not a command. See 'verbatim --help'.\n", name);
	return COMMAND_USAGE;
}

int main(int argc, char **argv)
{
	const char *first = argc > 1 ? argv[1] : NULL;

	if (!first) {
		print_usage(stderr);
		return COMMAND_USAGE;
	}
	if (strcmp(first, "-V") == 0 || strcmp(first, "--version") == 0)
		return print_version();
	if (strcmp(first, "help") == 0 && argc > 2) {
		char *help[] = { argv[2], (char *)"--help", NULL };

		return call(argv[2], 2, help);
	}
	if (strcmp(first, "-h") == 0 || strcmp(first, "--help") == 0 ||
	    strcmp(first, "help") == 0) {
		print_usage(stdout);
		return command_end(COMMAND_OK);
	}
	return call(first, argc - 1, argv + 1);
}
