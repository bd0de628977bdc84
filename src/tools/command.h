/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Command - the subcommands of `verbatim`, one file each, named as the command.
 *
 * In:  argv from the command on, with optind at 0: each parses its own options. argv[0] is
 *      "verbatim run" or the like, which getopt_long puts before its messages.
 * Out: the exit status. What is asked for goes to stdout, complaints to stderr.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

enum command_status {
	COMMAND_OK = 0,
	COMMAND_FAILED = 1,
	COMMAND_USAGE = 2, /* the command line makes no sense */

	/* Of `run`, as of env(1) and timeout(1): the program's own statuses are below. */
	COMMAND_RUN_FAILED = 125,
	COMMAND_RUN_NOT_EXECUTABLE = 126,
	COMMAND_RUN_NOT_FOUND = 127,
};

int run_command(int argc, char **argv);
int show_command(int argc, char **argv);
int explain_command(int argc, char **argv);
int enable_command(int argc, char **argv);

/* Says on stderr where help is; returns COMMAND_USAGE. getopt_long has said what is wrong. */
int command_misused(const char *command);
int command_extra_operand(const char *command, const char *operand);

/* Prints the version; returns COMMAND_OK. */
int command_version(void);

/* Whether stdout took everything; turns COMMAND_OK into COMMAND_FAILED if not. */
int command_end(int status);

#endif
