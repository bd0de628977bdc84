/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim explain - prints what failed in processes that use Verbatim, why, and what to do.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"
#include "ctl/observe.h"
#include "tools/arena_view.h"
#include "tools/command.h"
#include "tools/timestamp.h"
#include "tools/text.h"

static const char usage[] =
	"Usage: verbatim explain [PID]\n"
	"       verbatim explain --list | --cause NUMBER\n"
	"\n"
	"Prints the causes that the process PID, or each process of this user, reported last, in\n"
	"the order of time: which QP, what happened with which values, and what to do about it. A\n"
	"process takes its causes with it when it ends: VERBATIM_EXPLAIN=1 prints them at once.\n"
	"\n"
	"  -l, --list          print all causes there are\n"
	"  -c, --cause NUMBER  print what a vendor_err means\n"
	"  -h, --help          print this\n"
	"  -V, --version       print the version\n";

struct options {
	bool list;
	unsigned cause; /* to describe; 0: none */
	pid_t pid;	/* 0: all processes */
};

/* One cause of one process. */
struct finding {
	struct arena_view_cause cause;
	pid_t pid;
	char comm[TEXT_ROOM(CTL_COMM_BYTES)];
};

struct findings {
	pid_t pid; /* 0: all processes */
	unsigned processes;
	unsigned long long lost; /* causes that newer ones have overwritten */
	struct finding *list;
	size_t count, room;
	int error;
};

static int parse_number(const char *text, const char *what, unsigned long max, unsigned long *out)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || end == text || *end || strchr(text, '-') || !value || value > max) {
		fprintf(stderr, "verbatim: '%s' is not %s\n", text, what);
		return -1;
	}
	*out = value;
	return 0;
}

/* -1 to go on, or the exit status. */
static int parse_options(int argc, char **argv, struct options *out)
{
	static const struct option longs[] = {
		{ "list", no_argument, NULL, 'l' },
		{ "cause", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	unsigned long number;
	int opt;

	optind = 0;
	while ((opt = getopt_long(argc, argv, "lc:hV", longs, NULL)) >= 0) {
		switch (opt) {
		case 'l':
			out->list = true;
			break;
		case 'c':
			if (parse_number(optarg, "the number of a cause", UINT_MAX, &number) != 0)
				return command_misused("explain");
			out->cause = (unsigned)number;
			break;
		default:
			return command_common_option(opt, "explain", usage);
		}
	}
	if (optind < argc && !out->list && !out->cause) {
		if (parse_number(argv[optind], "a process ID", INT_MAX, &number) != 0)
			return command_misused("explain");
		out->pid = (pid_t)number;
		optind++;
	}
	if (optind < argc)
		return command_extra_operand("explain", argv[optind]);
	return -1;
}

static void print_cause(enum cause cause)
{
	printf("%3u %s\n    %s.\n    %s\n", (unsigned)cause, cause_name(cause),
	       cause_sentence(cause), cause_remedy(cause));
}

static int print_causes(const struct options *options)
{
	if (options->cause >= CAUSE_COUNT) {
		fprintf(stderr, "verbatim: this version knows no cause %u: they end at %d\n",
			options->cause, CAUSE_COUNT - 1);
		return COMMAND_FAILED;
	}
	if (options->cause)
		print_cause(options->cause);
	for (unsigned i = 1; options->list && i < CAUSE_COUNT; i++)
		print_cause(i);
	return COMMAND_OK;
}

static struct finding *add_finding(struct findings *found)
{
	if (found->count == found->room) {
		size_t room = found->room ? 2 * found->room : ARENA_CAUSES;
		struct finding *list = reallocarray(found->list, room, sizeof(*list));

		if (!list)
			return NULL;
		found->list = list;
		found->room = room;
	}
	return &found->list[found->count++];
}

static int collect(struct findings *found, const struct observe_process *process)
{
	unsigned long long reported, seen = 0;
	struct arena_view view;
	int rc = arena_view_open(process->arena_fd, &view);

	if (rc)
		return rc;
	reported = arena_view_cause_count(&view);
	for (unsigned i = 0; rc == 0 && i < ARENA_CAUSES; i++) {
		struct arena_view_cause cause;
		struct finding *finding;

		if (!arena_view_cause(&view, i, &cause))
			continue;
		finding = add_finding(found);
		if (!finding) {
			rc = -ENOMEM;
			break;
		}
		finding->cause = cause;
		finding->pid = process->pid;
		text_escape(finding->comm, sizeof(finding->comm), process->comm,
			    sizeof(process->comm));
		seen++;
	}
	/* An entry that the process is writing now is not lost. */
	if (reported > ARENA_CAUSES && reported > seen)
		found->lost += reported - ARENA_CAUSES;
	arena_view_close(&view);
	return rc;
}

static void collect_process(const struct observe_process *process, void *arg)
{
	struct findings *found = arg;
	int rc;

	if (found->pid && found->pid != process->pid)
		return;
	found->processes++;
	rc = collect(found, process);
	if (!rc)
		return;
	found->error = rc;
	fprintf(stderr, "verbatim: cannot read the arena of process %d: %s\n", (int)process->pid,
		strerror(-rc));
}

static int by_time(const void *left, const void *right)
{
	const struct finding *a = left, *b = right;

	if (a->cause.time_ns != b->cause.time_ns)
		return a->cause.time_ns < b->cause.time_ns ? -1 : 1;
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return (a->cause.number > b->cause.number) - (a->cause.number < b->cause.number);
}

static void print_finding(const struct finding *finding)
{
	const struct arena_view_cause *cause = &finding->cause;
	char when[TIMESTAMP_ROOM], qp[32] = "";

	timestamp_local(cause->time_ns, when);
	if (cause->qpn)
		snprintf(qp, sizeof(qp), " QP 0x%06x", cause->qpn);
	printf("%s %s[%d]%s %s (%u)\n    %s.\n    %s\n", when, finding->comm, (int)finding->pid, qp,
	       cause_name(cause->cause), cause->cause, cause->text, cause_remedy(cause->cause));
}

static int print_findings(struct findings *found)
{
	if (found->pid && !found->processes) {
		fprintf(stderr,
			"verbatim: process %d does not use Verbatim, has ended, or is of another "
			"user\n",
			(int)found->pid);
		return COMMAND_FAILED;
	}
	if (found->lost)
		printf("(%llu older causes were overwritten by newer ones.)\n", found->lost);
	if (found->count)
		qsort(found->list, found->count, sizeof(*found->list), by_time);
	for (size_t i = 0; i < found->count; i++)
		print_finding(&found->list[i]);
	if (!found->count && !found->error)
		puts(found->processes ? "Nothing failed." : "No process uses Verbatim.");
	return found->error ? COMMAND_FAILED : COMMAND_OK;
}

int explain_command(int argc, char **argv)
{
	struct options options = { .list = false };
	int status = parse_options(argc, argv, &options), rc;
	struct findings found = { .pid = 0 };
	char why[512] = "";

	if (status >= 0)
		return status;
	if (options.list || options.cause)
		return command_end(print_causes(&options));

	found.pid = options.pid;
	rc = observe_processes(collect_process, &found, why, sizeof(why));
	if (rc && rc != -ECONNREFUSED) {
		fprintf(stderr, "verbatim: cannot list the processes: %s\n",
			*why ? why : strerror(-rc));
		found.error = rc;
	}
	status = print_findings(&found);
	free(found.list);
	return command_end(status);
}
