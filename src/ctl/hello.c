/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/hello.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl/answer.h"
#include "ctl/client_types.h"
#include "ctl/control.h"
#include "ctl/deadline.h"
#include "ctl/fdmsg.h"
#include "ctl/reach.h"

#define AGAIN_MS 5

void hello_explain(const struct ctl_welcome *w, char *why, size_t why_len)
{
	switch (w->status) {
	case EPROTONOSUPPORT:
		snprintf(why, why_len,
			 "the running verbatimd (pid %d) speaks version %u of the control protocol "
			 "and this library version %u; end the programs that still use the old one",
			 (int)w->pid, w->greeting.version, CTL_VERSION);
		break;
	case ENOSPC:
		snprintf(why, why_len, "verbatimd (pid %d) has no slot left: %u processes use it",
			 (int)w->pid, CTL_SLOT_MAX);
		break;
	case EDQUOT:
		snprintf(why, why_len,
			 "verbatimd (pid %d) has no slot or no descriptor left for this user: as "
			 "many are its own as are free for others; end some of its processes",
			 (int)w->pid);
		break;
	case EMFILE:
	case ENFILE:
		snprintf(why, why_len,
			 "verbatimd (pid %d) is out of file descriptors; raise its limit "
			 "(ulimit -Hn) or run fewer processes",
			 (int)w->pid);
		break;
	case EADDRINUSE:
		snprintf(why, why_len,
			 "verbatimd (pid %d) has given this process's slot to another; restart the "
			 "program",
			 (int)w->pid);
		break;
	case EXDEV:
		snprintf(why, why_len,
			 "verbatimd (pid %d) serves processes of this network namespace whose "
			 "VERBATIM_SOCKET_DIR is another directory, or not set; set it alike for "
			 "all",
			 (int)w->pid);
		break;
	case EOPNOTSUPP:
		snprintf(
			why, why_len,
			"verbatimd --system (pid %d) serves no processes with VERBATIM_SOCKET_DIR; "
			"unset it, or end that verbatimd",
			(int)w->pid);
		break;
	case EAGAIN:
		snprintf(
			why, why_len,
			"verbatimd (pid %d) finds this process's slot in use: its last process, or "
			"a child of that, has not ended yet",
			(int)w->pid);
		break;
	default:
		snprintf(why, why_len, "verbatimd (pid %d) refuses this process: %s", (int)w->pid,
			 strerror(w->status));
	}
}

static int check_welcome(struct fdmsg *m, bool wants_token, struct entry *out, char *why,
			 size_t why_len)
{
	const struct ctl_welcome *w = &m->body.welcome;

	if (m->len != sizeof(*w) || w->greeting.header.type != CTL_WELCOME ||
	    w->greeting.magic != CTL_MAGIC) {
		snprintf(why, why_len,
			 "what answers in place of verbatimd does not speak its protocol");
		return -EPROTO;
	}
	if (w->status > 0) {
		hello_explain(w, why, why_len);
		return -w->status;
	}
	if (m->fds_lost) {
		snprintf(why, why_len, "this process is out of file descriptors");
		return -EMFILE;
	}
	if (m->fd_count != (wants_token ? 1 : 0) || w->slot < 1 || w->slot > CTL_SLOT_MAX) {
		snprintf(why, why_len, "verbatimd (pid %d) sent a malformed welcome", (int)w->pid);
		return -EPROTO;
	}
	out->token_fd = wants_token ? fdmsg_take_fd(m, 0) : -1;
	out->slot = w->slot;
	out->daemon_pid = w->pid;
	return 0;
}

/* One HELLO on a fresh socket. -ECONNRESET: the daemon ended meanwhile; try the next. */
static int send_hello(const struct ctl_client *c, struct entry *entry, int64_t deadline_ns,
		      char *why, size_t why_len)
{
	bool returns = c->token_fd >= 0;
	struct ctl_hello hello = {
		.greeting = { .header = { .type = CTL_HELLO, .seq = 1 },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
		.wanted_slot = c->slot, /* 0 at first, but for ctl_join */
		.directory = c->directory,
	};
	int fds[] = { c->arena_fd, c->wake_fd, c->heap_fd, c->token_fd };
	struct fdmsg m;
	int rc;

	memcpy(hello.comm, c->comm, sizeof(hello.comm));
	rc = fdmsg_send_until(entry->sock, &hello, sizeof(hello), fds, returns ? 4 : 3,
			      deadline_ns);
	/*
	 * The daemon may have refused and hung up before the HELLO: its reason can still be read.
	 */
	if (!rc || rc == -EPIPE)
		rc = answer_wait(entry->sock, deadline_in_ms(CTL_REQUEST_MS), deadline_ns, &m);
	if (rc == -ETIMEDOUT && answer_is_by_manager(entry->sock))
		rc = answer_wait(entry->sock, deadline_ns, deadline_ns, &m);
	if (rc) {
		snprintf(why, why_len, "verbatimd does not answer: %s", strerror(-rc));
		return rc == -EPIPE ? -ECONNRESET : rc;
	}
	rc = check_welcome(&m, !returns, entry, why, why_len);
	fdmsg_close_fds(&m);
	return rc;
}

int hello_enter(const struct ctl_client *c, enum dial_which which, int limit_ms, struct entry *out,
		char *why, size_t why_len)
{
	const struct timespec pause = { .tv_nsec = AGAIN_MS * 1000000 };
	int64_t deadline_ns = deadline_in_ms(limit_ms);
	struct entry entry;
	int rc;

	for (;;) {
		rc = reach_daemon(which, deadline_ns, &entry.sock, &entry.which, why, why_len);
		if (rc)
			return rc;
		rc = send_hello(c, &entry, deadline_ns, why, why_len);
		if (!rc) {
			*out = entry;
			return 0;
		}
		close(entry.sock);
		/* -EAGAIN: it has an earlier connection of this process, which it ends first. */
		if ((rc != -ECONNRESET && rc != -EAGAIN) || !deadline_left_ms(deadline_ns))
			return rc;
		nanosleep(&pause, NULL);
	}
}
