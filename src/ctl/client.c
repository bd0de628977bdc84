/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fork_free.h"
#include "base/uncancelled.h"
#include "ctl/answer.h"
#include "ctl/client_state.h"
#include "ctl/deadline.h"
#include "ctl/fdmsg.h"
#include "ctl/hello.h"
#include "ctl/notices.h"
#include "ctl/ports.h"

void client_release(struct ctl_client *c)
{
	bool tell = c->notices != NULL;

	pthread_mutex_unlock(&c->lock);
	if (tell)
		eventfd_write(c->wake_fd, 1);
}

static bool try_lock(struct ctl_client *c)
{
	return !pthread_mutex_trylock(&c->lock);
}

int ctl_connect(struct ctl_client **out, int arena_fd, int wake_fd, int heap_fd, const char *comm,
		char *why, size_t why_len)
{
	struct ctl_client *c = calloc(1, sizeof(*c));
	struct entry entry;
	int rc;

	if (!c) {
		snprintf(why, why_len, "out of memory");
		return -ENOMEM;
	}
	c->arena_fd = arena_fd;
	c->wake_fd = wake_fd;
	c->heap_fd = heap_fd;
	c->token_fd = -1;
	snprintf(c->comm, sizeof(c->comm), "%s", comm);
	c->notices_end = &c->notices;

	rc = hello_enter(c, DIAL_ANY, CTL_CONNECT_MS, &entry, why, why_len);
	if (rc) {
		free(c);
		return rc;
	}
	pthread_mutex_init(&c->lock, NULL);
	c->sock = entry.sock;
	c->token_fd = entry.token_fd;
	c->slot = entry.slot;
	c->daemon_pid = entry.daemon_pid;
	c->which = entry.which;
	*out = c;
	return 0;
}

int ctl_reconnect(struct ctl_client *c, int limit_ms, char *why, size_t why_len)
{
	struct entry entry;
	bool mine;
	int rc;

	pthread_mutex_lock(&c->lock);
	mine = c->down && !c->reconnecting;
	if (mine)
		c->reconnecting = true;
	client_release(c);
	if (!mine) {
		snprintf(why, why_len, "the connection to verbatimd is not lost");
		return -EALREADY;
	}

	/* Not under the lock, so that other threads' requests fail at once meanwhile. */
	rc = hello_enter(c, c->which, limit_ms, &entry, why, why_len);

	pthread_mutex_lock(&c->lock);
	c->reconnecting = false;
	if (!rc) {
		close(c->sock);
		c->sock = entry.sock;
		c->daemon_pid = entry.daemon_pid;
		c->down = false;
		/* Before a request asks the new daemon for another port. */
		ports_owe(c);
		rc = ports_return(c);
		if (rc == -EAGAIN)
			rc = 0;
		if (rc) {
			c->down = true;
			snprintf(why, why_len, "verbatimd was lost again");
		}
	}
	client_release(c);
	return rc;
}

unsigned ctl_slot(const struct ctl_client *c)
{
	return c->slot;
}

pid_t ctl_daemon_pid(struct ctl_client *c)
{
	pid_t pid;

	pthread_mutex_lock(&c->lock);
	pid = c->daemon_pid;
	client_release(c);
	return pid;
}

int ctl_fd(struct ctl_client *c)
{
	int fd;

	pthread_mutex_lock(&c->lock);
	fd = c->sock;
	client_release(c);
	return fd;
}

/* ------------------------------------------------------------------------------------------
 * Notices.
 */

int ctl_next_notice(struct ctl_client *c, struct ctl_notice *out)
{
	int rc;

	if (!try_lock(c))
		return 0;
	rc = notices_next(c, out);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* ------------------------------------------------------------------------------------------
 * Requests.
 */

static void next_seq(struct ctl_client *c)
{
	if (++c->seq == ASKED)
		c->seq = 1;
}

int client_ask(struct ctl_client *c, struct ctl_header *request, size_t len)
{
	int rc = ports_return(c);

	return rc ? rc : client_send_request(c, request, len, -1);
}

int client_send_request(struct ctl_client *c, struct ctl_header *request, size_t len, int fd)
{
	int rc;

	if (c->down || c->reconnecting)
		return -ENOTCONN;
	next_seq(c);
	request->seq = c->seq | ASKED;
	rc = fdmsg_send(c->sock, request, len, &fd, fd >= 0);
	return rc && rc != -EAGAIN ? -ENOTCONN : rc;
}

static int exchange(struct ctl_client *c, struct ctl_header *request, size_t len,
		    struct fdmsg *reply)
{
	int64_t deadline_ns = deadline_in_ms(CTL_REQUEST_MS);
	int64_t latest_ns = deadline_in_ms(CTL_CONNECT_MS);
	int rc;

	if (c->down || c->reconnecting)
		return -ENOTCONN;
	next_seq(c);
	request->seq = c->seq;
	while ((rc = ports_return(c)) == -EAGAIN ||
	       (!rc && (rc = fdmsg_send(c->sock, request, len, NULL, 0)) == -EAGAIN)) {
		struct pollfd p = { .fd = c->sock, .events = POLLOUT };

		if (!poll(&p, 1, deadline_left_ms(deadline_ns)))
			return -ETIMEDOUT;
	}
	while (!rc) {
		rc = answer_wait(c->sock, deadline_ns, latest_ns, reply);
		if (rc)
			break;
		if (reply->len >= sizeof(*request) && reply->body.header.seq == request->seq)
			return 0;
		if (!notices_queue(c, reply) && !notices_is_late_reply(reply))
			rc = -EPROTO;
		fdmsg_close_fds(reply);
	}
	if (rc == -ETIMEDOUT)
		return rc;
	c->down = true;
	return -ENOTCONN;
}

int client_request(struct ctl_client *c, struct ctl_header *request, size_t len,
		   enum ctl_type reply_type, size_t reply_len, struct fdmsg *reply)
{
	UNCANCELLED;
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = exchange(c, request, len, reply);
	if (!rc && (reply->body.header.type != reply_type || reply->len != reply_len)) {
		fdmsg_close_fds(reply);
		c->down = true;
		rc = -ENOTCONN;
	}
	client_release(c);
	return rc;
}

int ctl_peer(struct ctl_client *c, unsigned slot, struct ctl_peer_info *out)
{
	struct ctl_peer ask = { .header = { .type = CTL_PEER }, .slot = slot };
	struct fdmsg m;
	int rc;

	rc = client_request(c, &ask.header, sizeof(ask), CTL_PEER_REPLY, sizeof(struct ctl_link),
			    &m);
	if (rc)
		return rc;
	if (m.body.link.status)
		rc = -m.body.link.status;
	else if (m.fds_lost)
		rc = -EMFILE;
	else if (m.fd_count != CTL_LINK_FDS || !notices_is_link(&m))
		rc = -EPROTO;
	else
		notices_take_link(&m, out);
	fdmsg_close_fds(&m);
	return rc;
}

/* As client_ask; -EAGAIN also if another thread is in a call. */
static int try_ask(struct ctl_client *c, struct ctl_header *request, size_t len)
{
	int rc;

	if (!try_lock(c))
		return -EAGAIN;
	rc = client_ask(c, request, len);
	client_release(c);
	return rc;
}

int ctl_peer_ask(struct ctl_client *c, unsigned slot)
{
	struct ctl_peer ask = { .header = { .type = CTL_PEER }, .slot = slot };

	return try_ask(c, &ask.header, sizeof(ask));
}

static struct ctl_mcast make_mcast(enum ctl_type type, const uint8_t *mgid)
{
	struct ctl_mcast ask = { .header = { .type = type } };

	memcpy(ask.mgid, mgid, sizeof(ask.mgid));
	return ask;
}

static int change_membership(struct ctl_client *c, enum ctl_type type, const uint8_t *mgid)
{
	struct ctl_mcast ask = make_mcast(type, mgid);
	struct fdmsg m;
	int rc = client_request(c, &ask.header, sizeof(ask), CTL_MCAST_REPLY,
				sizeof(struct ctl_mcast_reply), &m);

	if (rc)
		return rc;
	fdmsg_close_fds(&m);
	return -m.body.mcast_reply.status;
}

int ctl_mcast_attach(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES])
{
	return change_membership(c, CTL_MCAST_ATTACH, mgid);
}

int ctl_mcast_attach_again(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES])
{
	struct ctl_mcast ask = make_mcast(CTL_MCAST_ATTACH, mgid);

	return try_ask(c, &ask.header, sizeof(ask));
}

int ctl_mcast_detach(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES])
{
	return change_membership(c, CTL_MCAST_DETACH, mgid);
}

int ctl_mcast_ask(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES], uint32_t *question)
{
	struct ctl_mcast ask = make_mcast(CTL_MCAST_MEMBERS, mgid);
	int rc = try_ask(c, &ask.header, sizeof(ask));

	if (!rc)
		*question = ask.header.seq;
	return rc;
}

int ctl_port_ask(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES], unsigned ifindex)
{
	int rc;

	if (!try_lock(c))
		return -EAGAIN;
	rc = ports_ask_for(c, gid, ifindex);
	client_release(c);
	return rc;
}

/* ------------------------------------------------------------------------------------------
 * Leaving.
 */

void ctl_close(struct ctl_client *c)
{
	notices_drop(c);
	ports_drop(c);
	close(c->sock);
	close(c->token_fd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void ctl_close_in_child(struct ctl_client *c)
{
	/*
	 * A thread that held the lock at the time of the fork is not here to finish: then the
	 * queue may be half changed, and what is in it stays open until the child execs or ends.
	 */
	if (!pthread_mutex_trylock(&c->lock)) {
		notices_drop(c);
		ports_drop(c);
		pthread_mutex_unlock(&c->lock);
	}
	close(c->sock);
	close(c->token_fd);
	fork_free(c);
}
