#include "cm/session.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "ctl/dial.h"
#include "ctl/fdmsg.h"

#define CONNECT_MS 5000
#define REQUEST_MS 10000

static struct {
	pthread_mutex_t lock; /* guards all below, and an exchange as a whole */
	int sock;	      /* -1: none */
	uint32_t seq;
	atomic_uint number; /* read without the lock, too */
} session = { PTHREAD_MUTEX_INITIALIZER, -1, 0, 0 };

static void hang_up(void)
{
	if (session.sock < 0)
		return;
	close(session.sock);
	session.sock = -1;
	session.number++;
}

unsigned session_number(void)
{
	return session.number;
}

/* ------------------------------------------------------------------------------------------
 * A fork may come while another thread is in an exchange: it waits for its end.
 */

static void before_fork(void)
{
	pthread_mutex_lock(&session.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&session.lock);
}

static void after_fork_in_child(void)
{
	hang_up();
	pthread_mutex_unlock(&session.lock);
}

/* Before others of this library: handlers run the other way round, this lock is the innermost. */
__attribute__((constructor(200))) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* ------------------------------------------------------------------------------------------
 * All below: caller holds the lock.
 */

static int greet(int64_t deadline_ns)
{
	struct ctl_cm_hello hello = {
		.greeting = { .header = { .type = CTL_CM_HELLO, .seq = ++session.seq },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
	};
	struct fdmsg m;
	int rc = fdmsg_send(session.sock, &hello, sizeof(hello), NULL, 0);

	if (!rc)
		rc = fdmsg_wait(session.sock, deadline_ns, &m);
	if (rc)
		return rc;
	fdmsg_close_fds(&m);
	if (m.len != sizeof(m.body.welcome) || m.body.header.type != CTL_WELCOME)
		return -EPROTO;
	return m.body.welcome.status > 0 ? -m.body.welcome.status : 0;
}

static int connect_daemon(void)
{
	int64_t deadline_ns = deadline_in_ms(CONNECT_MS);
	enum dial_which reached;
	char why[256] = "";
	int rc;

	do {
		rc = dial_daemon(DIAL_ANY, deadline_ns, &session.sock, &reached, why, sizeof(why));
		if (rc) {
			session.sock = -1;
			break;
		}
		rc = greet(deadline_ns);
		if (rc)
			hang_up();
		/* It ended at that very moment: the next one, then. */
	} while ((rc == -ECONNRESET || rc == -EPIPE) && deadline_left_ms(deadline_ns));
	if (rc)
		fprintf(stderr, "verbatim: connections cannot be managed: %s\n",
			*why ? why : strerror(-rc));
	return rc;
}

static int exchange(struct ctl_header *request, size_t len, const int *fds, unsigned fd_count,
		    struct fdmsg *reply)
{
	int rc;

	request->seq = ++session.seq ? session.seq : ++session.seq;
	rc = fdmsg_send(session.sock, request, len, fds, fd_count);
	if (!rc)
		rc = fdmsg_wait(session.sock, deadline_in_ms(REQUEST_MS), reply);
	if (rc)
		return rc;
	fdmsg_close_fds(reply);
	return reply->body.header.seq == request->seq ? 0 : -EPROTO;
}

/* Takes the lock. */
static int ask(struct ctl_header *request, size_t len, const int *fds, unsigned fd_count,
	       enum ctl_type type, size_t reply_len, struct fdmsg *reply)
{
	int rc = 0, cancel;

	/* Programs cancel threads that wait for events: not here, with the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&session.lock);
	for (int tries = 0; tries < 2; tries++) {
		if (session.sock < 0)
			rc = connect_daemon();
		if (rc)
			break;
		rc = exchange(request, len, fds, fd_count, reply);
		if (!rc)
			break;
		/* The stream is of no more use: an answer may come that nobody waits for. */
		hang_up();
		if (rc != -ECONNRESET && rc != -EPIPE)
			break;
		rc = 0;
	}
	pthread_mutex_unlock(&session.lock);
	pthread_setcancelstate(cancel, NULL);
	if (!rc && (reply->body.header.type != type || reply->len != reply_len))
		rc = -EPROTO;
	return rc;
}

int session_ask(struct ctl_header *request, size_t len, const int *fds, unsigned fd_count,
		struct ctl_cm_reply *reply)
{
	struct fdmsg m = { .len = 0 };
	int rc = ask(request, len, fds, fd_count, CTL_CM_REPLY, sizeof(*reply), &m);

	if (rc)
		return rc;
	*reply = m.body.cm_reply;
	return reply->status > 0 ? -reply->status : 0;
}

int session_ask_plain(const struct ctl_cm_ask *plain, uint32_t *number)
{
	struct ctl_cm_ask request = *plain;
	struct ctl_cm_reply reply;
	int rc = session_ask(&request.header, sizeof(request), NULL, 0, &reply);

	if (!rc && number)
		*number = reply.number;
	return rc;
}

int session_next_event(uint32_t channel, struct ctl_cm_event *out)
{
	struct ctl_cm_ask request = {
		.header = { .type = CTL_CM_GET_EVENT },
		.channel = channel,
	};
	struct fdmsg m = { .len = 0 };
	int rc = ask(&request.header, sizeof(request), NULL, 0, CTL_CM_EVENT, sizeof(*out), &m);

	if (rc)
		return rc;
	*out = m.body.cm_event;
	return out->answer > 0 ? -out->answer : 0;
}
