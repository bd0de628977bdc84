/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Command - the subcommands of `verbatim`, one file each, named like the command.
 *
 * In:  argv from the command on, with optind at 0; each command parses its own options. argv[0] is
 *      "verbatim run" or the like, which getopt_long puts before its messages.
 * Out: the exit status. Results go to stdout, errors to stderr.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

enum command_status {
	COMMAND_OK = 0,
	COMMAND_FAILED = 1,
	COMMAND_USAGE = 2, /* the command line is invalid */

	/* Of `run`, as of env(1) and timeout(1); other statuses are the program's. */
	COMMAND_RUN_FAILED = 125,
	COMMAND_RUN_NOT_EXECUTABLE = 126,
	COMMAND_RUN_NOT_FOUND = 127,
};

int run_command(int argc, char **argv);
int show_command(int argc, char **argv);
int explain_command(int argc, char **argv);
int enable_command(int argc, char **argv);

/* Points to --help on stderr, after getopt_long's message. Returns COMMAND_USAGE. */
int command_misused(const char *command);

/* What getopt_long returned is none of the command's own options: --help, --version, or wrong. */
int command_common_option(int opt, const char *command, const char *usage);

/* Reports an operand too many on stderr. Returns COMMAND_USAGE. */
int command_extra_operand(const char *command, const char *operand);

/* Flushes stdout. Returns `status`, or COMMAND_FAILED instead of COMMAND_OK if that fails. */
int command_end(int status);

#endif
