/* SPDX-License-Identifier: BSD-2-Clause */
/* Main - the table of commands, and their options. See verify.h. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "verify.h"

static const struct {
	const char *name;
	int (*run)(const struct options *options);
	const char *what;
} commands[] = {
	{ "data", run_data, "move patterns with one operation, compare every byte" },
	{ "passive", run_passive,
	  "the listening end never calls a verb again and is still served" },
	{ "migrate", run_migrate,
	  "the listening end writes to its memory, too; nothing may be lost" },
	{ "stream", run_stream, "traffic until the other end dies" },
	{ "block", run_block, "the listening end sleeps until a message comes" },
	{ "badkey", run_badkey, "a WRITE with a wrong rkey" },
	{ "group", run_group, "datagrams to a multicast group" },
	{ "hammer", run_hammer,
	  "threads of the listening end use a region that migrates and leaves, in all ways" },
	{ "guard", run_guard, "traffic beside memory that nobody may write to" },
	{ "latency", run_latency, "how long a request takes, by what the listening end does" },
	{ "address", run_address,
	  "print the GIDs; again, with the device opened anew, for each line" },
};

static const char *const operation_names[OP_COUNT] = {
	[OP_SEND] = "send",
	[OP_SEND_IMM] = "send_imm",
	[OP_WRITE] = "write",
	[OP_WRITE_IMM] = "write_imm",
	[OP_READ] = "read",
	[OP_CAS] = "cas",
	[OP_FAA] = "faa",
	[OP_ATOMIC_WRITE] = "atomic_write",
	[OP_WRITE_FLUSH] = "write_flush",
};

static const struct option long_options[] = {
	{ "port", required_argument, NULL, 'p' },    { "gid-index", required_argument, NULL, 'g' },
	{ "service", required_argument, NULL, 'c' }, { "op", required_argument, NULL, 'o' },
	{ "sizes", required_argument, NULL, 's' },   { "count", required_argument, NULL, 'n' },
	{ "depth", required_argument, NULL, 'd' },   { "pieces", required_argument, NULL, 'k' },
	{ "seed", required_argument, NULL, 'x' },    { "hold-ms", required_argument, NULL, 't' },
	{ "events", no_argument, NULL, 'e' },	     { "inline", no_argument, NULL, 'I' },
	{ "wr-api", no_argument, NULL, 'N' },	     { "sleep", required_argument, NULL, 'w' },
	{ "listen", required_argument, NULL, 'l' },  { "group", required_argument, NULL, 'G' },
	{ "target", required_argument, NULL, 'T' },  { "sleeper", no_argument, NULL, 'S' },
	{ "polling", no_argument, NULL, 'P' },	     { NULL, 0, NULL, 0 },
};

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("verify: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

bool op_has_receive(enum operation operation)
{
	return operation == OP_SEND || operation == OP_SEND_IMM || operation == OP_WRITE_IMM;
}

bool op_is_atomic(enum operation operation)
{
	return operation == OP_CAS || operation == OP_FAA;
}

unsigned op_requests(enum operation operation)
{
	return operation == OP_WRITE_FLUSH ? 2 : 1;
}

static enum operation parse_operation(const char *name)
{
	for (int i = 0; i < OP_COUNT; i++) {
		if (strcmp(name, operation_names[i]) == 0)
			return (enum operation)i;
	}
	fail("no operation '%s'", name);
}

static enum ibv_qp_type parse_service(const char *name)
{
	if (strcmp(name, "rc") == 0)
		return IBV_QPT_RC;
	if (strcmp(name, "uc") == 0)
		return IBV_QPT_UC;
	if (strcmp(name, "ud") == 0)
		return IBV_QPT_UD;
	fail("no service '%s'", name);
}

static enum sleep_how parse_sleep(const char *name)
{
	if (strcmp(name, "get_event") == 0)
		return SLEEP_GET_EVENT;
	if (strcmp(name, "poll") == 0)
		return SLEEP_POLL;
	fail("no way to sleep '%s'", name);
}

static enum target_does parse_target(const char *name)
{
	if (strcmp(name, "polls") == 0)
		return TARGET_POLLS;
	if (strcmp(name, "sleeps") == 0)
		return TARGET_SLEEPS;
	if (strcmp(name, "spins") == 0)
		return TARGET_SPINS;
	fail("no target '%s'", name);
}

static void parse_sizes(char *list, struct options *out)
{
	out->size_count = 0;
	for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
		if (out->size_count == SIZES_MAX)
			fail("more than %d sizes", SIZES_MAX);
		out->sizes[out->size_count++] = strtoull(word, NULL, 0);
	}
}

static void parse_options(int argc, char **argv, struct options *out)
{
	int letter;

	while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (letter) {
		case 'p':
			out->port = atoi(optarg);
			break;
		case 'g':
			out->gid_index = atoi(optarg);
			break;
		case 'c':
			out->service = parse_service(optarg);
			break;
		case 'o':
			out->operation = parse_operation(optarg);
			break;
		case 's':
			parse_sizes(optarg, out);
			break;
		case 'n':
			out->count = (unsigned)atoi(optarg);
			break;
		case 'd':
			out->depth = (unsigned)atoi(optarg);
			break;
		case 'k':
			out->pieces = atoi(optarg);
			break;
		case 'x':
			out->seed = strtoull(optarg, NULL, 0);
			break;
		case 't':
			out->hold_ms = (unsigned)atoi(optarg);
			break;
		case 'e':
			out->use_events = true;
			break;
		case 'I':
			out->use_inline = true;
			break;
		case 'N':
			out->use_wr_api = true;
			break;
		case 'G':
			out->group = optarg;
			break;
		case 'T':
			out->target = parse_target(optarg);
			break;
		case 'P':
			out->polling = true;
			break;
		case 'S':
			out->sleeper = true;
			break;
		case 'l':
			out->listen = optarg;
			break;
		case 'w':
			out->sleep_how = parse_sleep(optarg);
			break;
		default:
			exit(2);
		}
	}
	if (optind < argc)
		out->host = argv[optind];
}

int main(int argc, char **argv)
{
	struct options options = {
		.listen = "127.0.0.1",
		.port = 18515,
		.service = IBV_QPT_RC,
		.operation = OP_SEND,
		.sizes = { 4096 },
		.size_count = 1,
		.count = 64,
		.depth = 16,
		.pieces = 1,
		.seed = 1,
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(argv[1], commands[i].name) == 0) {
			parse_options(argc - 1, argv + 1, &options);
			return commands[i].run(&options);
		}
	}
	fprintf(stderr, "usage: verify COMMAND [OPTION...] [HOST]\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		fprintf(stderr, "  %-8s %s\n", commands[i].name, commands[i].what);
	return 2;
}
