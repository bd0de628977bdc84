/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim show - prints the processes that use Verbatim, their devices, QPs and rdma_cm listeners.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/counter.h"
#include "base/gid.h"
#include "ctl/observe.h"
#include "tools/arena_view.h"
#include "tools/command.h"
#include "tools/timestamp.h"
#include "tools/qp_names.h"
#include "tools/text.h"

static const char usage[] =
	"Usage: verbatim show [--json]\n"
	"\n"
	"Shows the processes of this user that use Verbatim (root sees those of all users at the\n"
	"system's daemon), the devices they have open and their QPs; and what listens for\n"
	"connections of rdma_cm.\n"
	"\n"
	"  -j, --json     for programs\n"
	"  -h, --help     print this\n"
	"  -V, --version  print the version\n";

struct show {
	struct json_object *list, *listener_list; /* NULL: print text */
	unsigned processes, listeners;
	unsigned qps; /* printed of the current process */
	const struct arena_view *view;
	struct json_object *qp_list;
};

/* -1 to go on, or the exit status. */
static int parse_options(int argc, char **argv, bool *json)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	int opt;

	optind = 0;
	while ((opt = getopt_long(argc, argv, "jhV", longs, NULL)) >= 0) {
		switch (opt) {
		case 'j':
			*json = true;
			break;
		default:
			return command_common_option(opt, "show", usage);
		}
	}
	if (optind < argc)
		return command_extra_operand("show", argv[optind]);
	return -1;
}

static void add_number(struct json_object *to, const char *name, uint64_t value)
{
	json_object_object_add(to, name, json_object_new_uint64(value));
}

static void add_text(struct json_object *to, const char *name, const char *value)
{
	json_object_object_add(to, name, json_object_new_string(value));
}

/* The name of the QP's device, or "-". */
static void name_device(const struct show *show, uint32_t index, struct arena_view_device *out)
{
	if (index >= ARENA_DEVICES || !arena_view_device(show->view, index, out))
		strcpy(out->name, "-");
}

static void print_qp(const struct arena_view_qp *qp, void *arg)
{
	struct show *show = arg;
	struct arena_view_device device;
	char dest[16] = "-", peer[GID_TEXT_BYTES] = "-";

	if (show->qps++ == 0)
		printf("    %-8s %-8s %-5s %-8s %-5s %-15s %s\n", "QP", "TYPE", "STATE", "TO",
		       "PATH", "PEER", "DEVICE");
	name_device(show, qp->device, &device);
	if (qp->dest_qpn)
		snprintf(dest, sizeof(dest), "0x%06x", qp->dest_qpn);
	if (qp->path != ARENA_PATH_NONE)
		gid_text(qp->peer, peer);
	printf("    0x%06x %-8s %-5s %-8s %-5s %-15s %s\n", qp->qpn, qp_names_type(qp->type),
	       qp_names_state(qp->state), dest, qp_names_path(qp->path), peer, device.name);
}

static void collect_qp(const struct arena_view_qp *qp, void *arg)
{
	struct json_object *object = json_object_new_object();
	struct arena_view_device device;
	char peer[GID_TEXT_BYTES];
	struct show *show = arg;

	name_device(show, qp->device, &device);
	add_number(object, "qpn", qp->qpn);
	add_text(object, "type", qp_names_type(qp->type));
	add_text(object, "state", qp_names_state(qp->state));
	add_number(object, "dest_qpn", qp->dest_qpn);
	if (qp->path != ARENA_PATH_NONE) {
		add_text(object, "path", qp_names_path(qp->path));
		add_text(object, "peer", gid_text(qp->peer, peer));
	}
	add_text(object, "device", device.name);
	add_number(object, "pd", qp->pd);
	add_number(object, "qp_access_flags", qp->access);
	json_object_array_add(show->qp_list, object);
}

/* Prints one line: "UDP port 4791 open on 10.0.0.1, fe80::1, group 239.1.1.1". */
static void print_ports(const struct show *show)
{
	struct arena_view_port port;
	unsigned count = 0;

	for (unsigned i = 0; i < ARENA_PORTS; i++)
		if (arena_view_port(show->view, i, &port))
			printf("%s%s%s", count++ ? ", " : "    UDP port 4791 open on ",
			       port.is_group ? "group " : "", port.address);
	if (count)
		puts("");
}

/* Prints the counters that are not 0: "    naks_received 3 (NAKs received, RNR NAKs included)". */
static void print_counters(const struct show *show)
{
	for (unsigned i = 0; i < COUNTERS; i++) {
		uint64_t value = arena_view_counter(show->view, i);

		if (value)
			printf("    %s %llu (%s)\n", counter_name((enum counter)i),
			       (unsigned long long)value, counter_what((enum counter)i));
	}
}

static void print_process(struct show *show, const struct observe_process *process, int error)
{
	char comm[TEXT_ROOM(sizeof(process->comm))], since[TIMESTAMP_ROOM];
	const struct passwd *user = getpwuid(process->uid);
	struct arena_view_device device;
	char uid[16];

	if (show->processes == 1)
		printf("%-5s %-8s %-10s %-24s %s\n", "SLOT", "PID", "USER", "SINCE", "PROGRAM");
	snprintf(uid, sizeof(uid), "%u", (unsigned)process->uid);
	text_escape(comm, sizeof(comm), process->comm, sizeof(process->comm));
	timestamp_local((uint64_t)process->since_ns, since);
	printf("%-5u %-8d %-10s %-24s %s\n", process->slot, (int)process->pid,
	       user ? user->pw_name : uid, since, comm);
	if (error) {
		printf("    Its arena cannot be read: %s\n", strerror(-error));
		return;
	}
	for (unsigned i = 0; i < ARENA_DEVICES; i++) {
		if (arena_view_device(show->view, i, &device))
			printf("    device %s, address %s, opened %u times\n", device.name,
			       device.address, device.contexts);
	}
	print_ports(show);
	print_counters(show);
	show->qps = 0;
	error = arena_view_qps(show->view, process->slot, print_qp, show);
	if (error)
		printf("    Its QPs cannot be read: %s\n", strerror(-error));
}

static struct json_object *collect_devices(const struct show *show)
{
	struct json_object *list = json_object_new_array();
	struct arena_view_device device;

	for (unsigned i = 0; i < ARENA_DEVICES; i++) {
		struct json_object *object;

		if (!arena_view_device(show->view, i, &device))
			continue;
		object = json_object_new_object();
		add_text(object, "name", device.name);
		add_text(object, "address", device.address);
		add_number(object, "contexts", device.contexts);
		json_object_array_add(list, object);
	}
	return list;
}

static struct json_object *collect_ports(const struct show *show)
{
	struct json_object *list = json_object_new_array();
	struct arena_view_port port;

	for (unsigned i = 0; i < ARENA_PORTS; i++) {
		struct json_object *object;

		if (!arena_view_port(show->view, i, &port))
			continue;
		object = json_object_new_object();
		add_text(object, "address", port.address);
		json_object_object_add(object, "group", json_object_new_boolean(port.is_group));
		json_object_array_add(list, object);
	}
	return list;
}

static struct json_object *collect_counters(const struct show *show)
{
	struct json_object *object = json_object_new_object();

	for (unsigned i = 0; i < COUNTERS; i++)
		add_number(object, counter_name((enum counter)i),
			   arena_view_counter(show->view, i));
	return object;
}

static void collect_process(struct show *show, const struct observe_process *process, int error)
{
	struct json_object *object = json_object_new_object();
	char comm[TEXT_ROOM(sizeof(process->comm))], since[TIMESTAMP_ROOM];

	text_escape(comm, sizeof(comm), process->comm, sizeof(process->comm));
	timestamp_iso((uint64_t)process->since_ns, since);
	add_number(object, "slot", process->slot);
	add_number(object, "pid", (uint64_t)process->pid);
	add_number(object, "uid", process->uid);
	add_text(object, "program", comm);
	add_text(object, "since", since);
	add_number(object, "daemon_pid", (uint64_t)process->daemon_pid);
	json_object_array_add(show->list, object);
	if (!error) {
		json_object_object_add(object, "devices", collect_devices(show));
		json_object_object_add(object, "ports", collect_ports(show));
		json_object_object_add(object, "counters", collect_counters(show));
		show->qp_list = json_object_new_array();
		json_object_object_add(object, "qps", show->qp_list);
		error = arena_view_qps(show->view, process->slot, collect_qp, show);
	}
	if (error)
		add_text(object, "error", strerror(-error));
}

static void show_process(const struct observe_process *process, void *arg)
{
	struct show *show = arg;
	struct arena_view view;
	int error = arena_view_open(process->arena_fd, &view);

	show->view = &view;
	show->processes++;
	if (show->list)
		collect_process(show, process, error);
	else
		print_process(show, process, error);
	if (!error)
		arena_view_close(&view);
}

static const char *space_name(uint16_t space)
{
	switch (space) {
	case CTL_CM_TCP:
		return "TCP";
	case CTL_CM_UDP:
		return "UDP";
	case CTL_CM_IB:
		return "IB";
	case CTL_CM_IPOIB:
		return "IPOIB";
	default:
		return "?";
	}
}

/* verbatimd has no name of a process that has opened no device. */
static void name_program(pid_t pid, char *name, size_t len)
{
	char path[40], comm[TEXT_ROOM(CTL_COMM_BYTES)] = "-";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = pid ? fopen(path, "re") : NULL;
	if (f && fgets(comm, sizeof(comm), f))
		comm[strcspn(comm, "\n")] = '\0';
	if (f)
		fclose(f);
	text_escape(name, len, comm, strlen(comm));
}

static void print_listener(const struct show *show, const struct observe_listener *l,
			   const char *address, const char *program)
{
	char place[GID_TEXT_BYTES + 16];

	if (show->listeners == 1)
		printf("%-8s %-22s %-8s %s\n", "LISTENS", "ADDRESS", "PID", "PROGRAM");
	snprintf(place, sizeof(place), strchr(address, ':') ? "[%s]:%u" : "%s:%u", address,
		 ntohs(l->local.port));
	printf("%-8s %-22s %-8d %s\n", space_name(l->space), place, (int)l->pid, program);
}

static void collect_listener(const struct show *show, const struct observe_listener *l,
			     const char *address, const char *program)
{
	struct json_object *object = json_object_new_object();

	add_text(object, "port_space", space_name(l->space));
	add_text(object, "address", address);
	add_number(object, "port", ntohs(l->local.port));
	add_number(object, "backlog", l->backlog);
	add_number(object, "pid", (uint64_t)l->pid);
	add_number(object, "uid", l->uid);
	add_text(object, "program", program);
	json_object_array_add(show->listener_list, object);
}

static void show_listener(const struct observe_listener *l, void *arg)
{
	char address[GID_TEXT_BYTES], program[TEXT_ROOM(TEXT_ROOM(CTL_COMM_BYTES))];
	struct show *show = arg;

	show->listeners++;
	gid_text(l->local.gid, address);
	name_program(l->pid, program, sizeof(program));
	if (show->list)
		collect_listener(show, l, address, program);
	else
		print_listener(show, l, address, program);
}

int show_command(int argc, char **argv)
{
	struct json_object *top = NULL;
	struct show show = { .list = NULL };
	char why[512] = "";
	bool json = false;
	int status = parse_options(argc, argv, &json), rc;

	if (status >= 0)
		return status;
	if (json) {
		top = json_object_new_object();
		show.list = json_object_new_array();
		json_object_object_add(top, "processes", show.list);
		show.listener_list = json_object_new_array();
		json_object_object_add(top, "listeners", show.listener_list);
	}

	rc = observe_processes(show_process, &show, why, sizeof(why));
	if (!rc)
		rc = observe_listeners(show_listener, &show, why, sizeof(why));
	status = rc == 0 || rc == -ECONNREFUSED ? COMMAND_OK : COMMAND_FAILED;
	if (top)
		puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PRETTY |
								 JSON_C_TO_STRING_NOSLASHESCAPE));
	else if (rc == -ECONNREFUSED)
		puts("No verbatimd runs: no process uses Verbatim.");
	else if (rc == 0 && !show.processes && !show.listeners)
		puts("No process uses Verbatim.");
	if (status != COMMAND_OK)
		fprintf(stderr, "verbatim: cannot list the processes: %s\n",
			*why ? why : strerror(-rc));
	json_object_put(top);
	return command_end(status);
}
