/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/observe.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "ctl/dial.h"
#include "ctl/fdmsg.h"

#define OBSERVE_MS  2000
#define COUNTERS_MS 200 /* of all daemons: a program waits in open() */

struct observer {
	int sock;
	bool has_begun; /* a message of a list has come */
	int64_t deadline_ns;
	pid_t daemon_pid;
	enum ctl_type what; /* CTL_LIST, CTL_CM_LIST or CTL_COUNTERS */
	const char *device; /* whose counters */
	uint64_t *counts;
	void (*each_process)(const struct observe_process *, void *arg);
	void (*each_listener)(const struct observe_listener *, void *arg);
	void *arg;
};

static int send_observe(struct observer *o)
{
	struct ctl_observe observe = {
		.greeting = { .header = { .type = CTL_OBSERVE, .seq = 1 },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
	};
	struct fdmsg m;
	int rc = fdmsg_send(o->sock, &observe, sizeof(observe), NULL, 0);

	/* verbatimd may have refused and hung up before: its reason can still be read. */
	if (!rc || rc == -EPIPE)
		rc = fdmsg_wait(o->sock, o->deadline_ns, &m);
	if (rc)
		return rc;
	fdmsg_close_fds(&m);
	if (m.len != sizeof(m.body.welcome) || m.body.header.type != CTL_WELCOME)
		return -EPROTO;
	o->daemon_pid = m.body.welcome.pid;
	return -m.body.welcome.status;
}

static int show_process(struct observer *o, struct fdmsg *m)
{
	const struct ctl_process *p = &m->body.process;

	if (m->len != sizeof(*p) || p->header.type != CTL_PROCESS)
		return -EPROTO;
	if (m->fds_lost)
		return -EMFILE;
	if (m->fd_count != 1)
		return -EPROTO;

	struct observe_process process = {
		.slot = p->slot,
		.pid = p->pid,
		.uid = p->uid,
		.daemon_pid = o->daemon_pid,
		.since_ns = p->since_ns,
		.arena_fd = m->fds[0],
	};

	snprintf(process.comm, sizeof(process.comm), "%.*s", CTL_COMM_BYTES - 1, p->comm);
	o->each_process(&process, o->arg);
	return 0;
}

static int show_listener(struct observer *o, const struct fdmsg *m)
{
	const struct ctl_cm_listener *l = &m->body.cm_listener;

	if (m->len != sizeof(*l) || l->header.type != CTL_CM_LISTENER)
		return -EPROTO;
	o->each_listener(&(struct observe_listener){ .pid = l->pid,
						     .uid = l->uid,
						     .space = l->space,
						     .backlog = l->backlog,
						     .local = l->local },
			 o->arg);
	return 0;
}

static int list_all(struct observer *o)
{
	struct ctl_list list = { .header = { .type = o->what, .seq = 2 } };
	int rc = fdmsg_send(o->sock, &list, sizeof(list), NULL, 0);

	while (!rc) {
		struct fdmsg m;
		bool ended;

		/* of each message: what is done with one may take its time, with a pager */
		rc = fdmsg_wait(o->sock, deadline_in_ms(OBSERVE_MS), &m);
		if (rc)
			break;
		o->has_begun = true;
		ended = m.len == sizeof(list) && m.body.header.type == CTL_LIST_END;
		if (!ended)
			rc = o->what == CTL_LIST ? show_process(o, &m) : show_listener(o, &m);
		fdmsg_close_fds(&m);
		if (ended)
			break;
	}
	return rc;
}

static int ask_counters(struct observer *o)
{
	struct ctl_counters ask = { .header = { .type = CTL_COUNTERS, .seq = 2 } };
	struct fdmsg m;
	int rc;

	snprintf(ask.device, sizeof(ask.device), "%s", o->device);
	rc = fdmsg_send(o->sock, &ask, sizeof(ask), NULL, 0);
	if (!rc)
		rc = fdmsg_wait(o->sock, o->deadline_ns, &m);
	if (rc)
		return rc;
	fdmsg_close_fds(&m);
	if (m.len != sizeof(m.body.counters_reply) || m.body.header.type != CTL_COUNTERS_REPLY)
		return -EPROTO;
	for (unsigned i = 0; i < CTL_COUNTS; i++)
		o->counts[i] += m.body.counters_reply.counts[i];
	return 0;
}

/* *welcomed: the daemon has served an observer before it fails. */
static int ask_daemon(enum dial_which which, struct observer *o, bool *welcomed, char *why,
		      size_t why_len)
{
	enum dial_which reached;
	int rc = dial_running(which, &o->sock, &reached, why, why_len);

	*welcomed = o->has_begun = false;
	if (rc)
		return rc;
	if (o->what != CTL_COUNTERS)
		o->deadline_ns = deadline_in_ms(OBSERVE_MS);
	rc = send_observe(o);
	*welcomed = !rc;
	if (!rc)
		rc = o->what == CTL_COUNTERS ? ask_counters(o) : list_all(o);
	if (rc && why_len)
		snprintf(why, why_len, "verbatimd (pid %d) cannot be asked: %s", (int)o->daemon_pid,
			 strerror(-rc));
	close(o->sock);
	return rc;
}

static bool is_hang_up(int rc)
{
	return rc == -ECONNRESET || rc == -EPIPE;
}

static int observe_daemon(enum dial_which which, struct observer *o, char *why, size_t why_len)
{
	bool welcomed;
	int rc = ask_daemon(which, o, &welcomed, why, why_len);

	/*
	 * A daemon of before CTL_COUNTERS hangs up on it, as one does that ends. That one is not
	 * there any more.
	 */
	if (o->what == CTL_COUNTERS && welcomed && is_hang_up(rc)) {
		rc = ask_daemon(which, o, &welcomed, why, why_len);
		if (welcomed && is_hang_up(rc)) {
			snprintf(why, why_len,
				 "verbatimd (pid %d) is an older one, which tells no counters",
				 (int)o->daemon_pid);
			return -EOPNOTSUPP;
		}
	}
	if (!is_hang_up(rc))
		return rc;
	/* The daemon ended during the exchange: then none runs. But a part is no list. */
	if (!o->has_begun)
		return -ECONNREFUSED;
	snprintf(why, why_len, "verbatimd (pid %d) ended while it listed", (int)o->daemon_pid);
	return -ECONNRESET;
}

static int observe(struct observer *o, char *why, size_t why_len)
{
	int system_rc = observe_daemon(DIAL_SYSTEM, o, why, why_len), user_rc;

	/* Another user's process on the system's name does not matter to the user's own daemon. */
	if (system_rc && system_rc != -ECONNREFUSED && system_rc != -EPERM)
		return system_rc;
	user_rc = observe_daemon(DIAL_USER, o, why, why_len);
	return user_rc == -ECONNREFUSED ? (system_rc ? -ECONNREFUSED : 0) : user_rc;
}

int observe_processes(void (*each)(const struct observe_process *, void *arg), void *arg, char *why,
		      size_t why_len)
{
	struct observer o = { .what = CTL_LIST, .each_process = each, .arg = arg };

	return observe(&o, why, why_len);
}

int observe_listeners(void (*each)(const struct observe_listener *, void *arg), void *arg,
		      char *why, size_t why_len)
{
	struct observer o = { .what = CTL_CM_LIST, .each_listener = each, .arg = arg };

	return observe(&o, why, why_len);
}

int observe_counters(const char *device, uint64_t out[CTL_COUNTS], char *why, size_t why_len)
{
	struct observer o = { .what = CTL_COUNTERS, .device = device, .counts = out };

	memset(out, 0, CTL_COUNTS * sizeof(*out));
	o.deadline_ns = deadline_in_ms(COUNTERS_MS);
	return observe(&o, why, why_len);
}
