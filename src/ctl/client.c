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
#include "ctl/dial.h"
#include "ctl/fdmsg.h"
#include "ctl/ports.h"

/* In the sequence number of a request whose reply is a notice. */
#define ASKED 0x80000000u

/* Of a ctl_link: arena, wake, link, heap. */
#define LINK_FDS 4

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void peer_info_close(struct ctl_peer_info *info)
{
	close_fd(info->arena_fd);
	close_fd(info->wake_fd);
	close_fd(info->link_fd);
	close_fd(info->heap_fd);
}

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

/* ------------------------------------------------------------------------------------------
 * Entering: HELLO and WELCOME.
 */

/* What entering gives: all of it is the receiver's. */
struct entry {
	int sock;
	int token_fd; /* -1 if the slot was ours already */
	unsigned slot;
	pid_t daemon_pid;
	enum dial_which which;
};

static void explain_refusal(const struct ctl_welcome *w, char *why, size_t why_len)
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
			 "verbatimd (pid %d) has no slot left for this user: as many of the %u are its "
			 "own as are free for others; end some of its processes",
			 (int)w->pid, CTL_SLOT_MAX);
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
		explain_refusal(w, why, why_len);
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
static int say_hello(const struct ctl_client *c, struct entry *entry, int64_t deadline_ns,
		     char *why, size_t why_len)
{
	bool returns = c->token_fd >= 0;
	struct ctl_hello hello = {
		.greeting = { .header = { .type = CTL_HELLO, .seq = 1 },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
		.wanted_slot = returns ? c->slot : 0,
	};
	int fds[] = { c->arena_fd, c->wake_fd, c->heap_fd, c->token_fd };
	struct fdmsg m;
	int rc;

	memcpy(hello.comm, c->comm, sizeof(hello.comm));
	rc = fdmsg_send(entry->sock, &hello, sizeof(hello), fds, returns ? 4 : 3);
	/* It may have refused and hung up before we spoke: the reason is there to be read. */
	if (!rc || rc == -EPIPE)
		rc = answer_wait(entry->sock, deadline_in_ms(CTL_REQUEST_MS), deadline_ns, &m);
	if (rc) {
		snprintf(why, why_len, "verbatimd does not answer: %s", strerror(-rc));
		return rc == -EPIPE ? -ECONNRESET : rc;
	}
	rc = check_welcome(&m, !returns, entry, why, why_len);
	fdmsg_close_fds(&m);
	return rc;
}

static int enter(const struct ctl_client *c, enum dial_which which, int limit_ms, struct entry *out,
		 char *why, size_t why_len)
{
	int64_t deadline_ns = deadline_in_ms(limit_ms);
	struct entry entry;
	int rc;

	do {
		rc = dial_daemon(which, deadline_ns, &entry.sock, &entry.which, why, why_len);
		if (rc)
			return rc;
		rc = say_hello(c, &entry, deadline_ns, why, why_len);
		if (!rc) {
			*out = entry;
			return 0;
		}
		close(entry.sock);
	} while (rc == -ECONNRESET && deadline_left_ms(deadline_ns));
	return rc;
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

	rc = enter(c, DIAL_ANY, CTL_CONNECT_MS, &entry, why, why_len);
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
	rc = enter(c, c->which, limit_ms, &entry, why, why_len);

	pthread_mutex_lock(&c->lock);
	c->reconnecting = false;
	if (!rc) {
		close(c->sock);
		c->sock = entry.sock;
		c->daemon_pid = entry.daemon_pid;
		c->down = false;
		/* Before anybody asks the new daemon for another. */
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

static void take_link(struct fdmsg *m, struct ctl_peer_info *out)
{
	const struct ctl_link *l = &m->body.link;
	bool whole = m->fd_count == LINK_FDS;

	*out = (struct ctl_peer_info){
		.slot = l->slot,
		.pid = l->pid,
		.uid = l->uid,
		.side = l->side,
		.arena_fd = whole ? fdmsg_take_fd(m, 0) : -1,
		.wake_fd = whole ? fdmsg_take_fd(m, 1) : -1,
		.link_fd = whole ? fdmsg_take_fd(m, 2) : -1,
		.heap_fd = whole ? fdmsg_take_fd(m, 3) : -1,
	};
}

static bool is_link(const struct fdmsg *m)
{
	const struct ctl_link *l = &m->body.link;

	return m->len == sizeof(*l) && l->slot >= 1 && l->slot <= CTL_SLOT_MAX && l->side <= 1;
}

/* Caller holds lock. Turns a message into a notice. False: it is none. */
static bool decode_notice(struct ctl_client *c, struct fdmsg *m, struct ctl_notice *out)
{
	*out = (struct ctl_notice){
		.peer = { .arena_fd = -1, .wake_fd = -1, .link_fd = -1, .heap_fd = -1 },
		.port = { .fd = -1 },
	};
	switch (m->len >= sizeof(struct ctl_header) ? m->body.header.type : 0) {
	case CTL_NOTICE_LINK:
		if (!is_link(m) || (m->fd_count != LINK_FDS && !m->fds_lost))
			return false;
		out->kind = CTL_LINK;
		take_link(m, &out->peer);
		return true;
	case CTL_PEER_REPLY:
		if (m->len != sizeof(m->body.link) || !(m->body.header.seq & ASKED))
			return false;
		if (m->body.link.status || (m->fd_count != LINK_FDS && !m->fds_lost) || !is_link(m)) {
			out->kind = CTL_NO_PEER;
			out->peer.slot = m->body.link.slot;
			return true;
		}
		out->kind = CTL_LINK;
		take_link(m, &out->peer);
		return true;
	case CTL_NOTICE_DEATH:
		if (m->len != sizeof(m->body.death))
			return false;
		out->kind = CTL_DEATH;
		out->peer.slot = m->body.death.slot;
		out->peer.pid = m->body.death.pid;
		return true;
	case CTL_NOTICE_MCAST_CHANGED:
		if (m->len != sizeof(m->body.mcast))
			return false;
		out->kind = CTL_MCAST_CHANGED;
		memcpy(out->mgid, m->body.mcast.mgid, sizeof(out->mgid));
		return true;
	case CTL_MCAST_MEMBERS_REPLY:
		if (m->len != sizeof(m->body.members_reply) || !(m->body.header.seq & ASKED))
			return false;
		out->kind = CTL_MEMBERS;
		out->question = m->body.header.seq;
		memcpy(out->members, m->body.members_reply.slots, sizeof(out->members));
		return true;
	case CTL_PORT_REPLY:
		if (m->len != sizeof(m->body.port_reply) || !(m->body.header.seq & ASKED))
			return false;
		out->kind = CTL_PORT_OPEN;
		return ports_take_answer(c, m, &out->port);
	}
	return false;
}

/* Caller holds lock. False: not a notice, or no memory to keep it. */
static bool queue_notice(struct ctl_client *c, struct fdmsg *m)
{
	struct queued_notice *q = malloc(sizeof(*q));

	if (!q || !decode_notice(c, m, &q->notice)) {
		free(q);
		return false;
	}
	q->next = NULL;
	*c->notices_end = q;
	c->notices_end = &q->next;
	return true;
}

/* Caller holds lock. */
static bool take_queued(struct ctl_client *c, struct ctl_notice *out)
{
	struct queued_notice *q = c->notices;

	if (!q)
		return false;
	c->notices = q->next;
	if (!c->notices)
		c->notices_end = &c->notices;
	*out = q->notice;
	fork_free(q);
	return true;
}

/* A reply that comes after its request has timed out, or to what nobody wants to know the answer of. */
static bool is_late_reply(const struct fdmsg *m)
{
	return m->len >= sizeof(struct ctl_header) && m->body.header.seq != 0;
}

/* Caller holds lock. As ctl_next_notice. */
static int next_notice(struct ctl_client *c, struct ctl_notice *out)
{
	if (take_queued(c, out))
		return 1;
	while (!c->down) {
		struct fdmsg m;
		int rc = fdmsg_recv(c->sock, &m);
		bool is_notice;

		/* There is room for more of them when the daemon has answered. */
		if (rc == -EAGAIN && ports_return(c) == -ENOTCONN)
			rc = -ENOTCONN;
		if (rc == -EAGAIN)
			return 0;
		if (rc) {
			c->down = true;
			break;
		}
		is_notice = decode_notice(c, &m, out);
		if (!is_notice && !is_late_reply(&m))
			c->down = true;
		fdmsg_close_fds(&m);
		if (is_notice)
			return 1;
	}
	return -ENOTCONN;
}

int ctl_next_notice(struct ctl_client *c, struct ctl_notice *out)
{
	int rc;

	if (!try_lock(c))
		return 0;
	rc = next_notice(c, out);
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
		if (!queue_notice(c, reply) && !is_late_reply(reply))
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
	else if (m.fd_count != LINK_FDS || !is_link(&m))
		rc = -EPROTO;
	else
		take_link(&m, out);
	fdmsg_close_fds(&m);
	return rc;
}

int ctl_peer_ask(struct ctl_client *c, unsigned slot)
{
	struct ctl_peer ask = { .header = { .type = CTL_PEER }, .slot = slot };
	int rc;

	if (!try_lock(c))
		return -EAGAIN;
	rc = client_ask(c, &ask.header, sizeof(ask));
	client_release(c);
	return rc;
}

static int change_membership(struct ctl_client *c, enum ctl_type type, const uint8_t *mgid)
{
	struct ctl_mcast ask = { .header = { .type = type } };
	struct fdmsg m;
	int rc;

	memcpy(ask.mgid, mgid, sizeof(ask.mgid));
	rc = client_request(c, &ask.header, sizeof(ask), CTL_MCAST_REPLY,
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
	struct ctl_mcast ask = { .header = { .type = CTL_MCAST_ATTACH } };
	int rc;

	memcpy(ask.mgid, mgid, sizeof(ask.mgid));
	if (!try_lock(c))
		return -EAGAIN;
	rc = client_ask(c, &ask.header, sizeof(ask));
	client_release(c);
	return rc;
}

int ctl_mcast_detach(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES])
{
	return change_membership(c, CTL_MCAST_DETACH, mgid);
}

int ctl_mcast_members(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES],
		      uint64_t slots[CTL_BITMAP_WORDS])
{
	struct ctl_mcast ask = { .header = { .type = CTL_MCAST_MEMBERS } };
	struct fdmsg m;
	int rc;

	memcpy(ask.mgid, mgid, sizeof(ask.mgid));
	rc = client_request(c, &ask.header, sizeof(ask), CTL_MCAST_MEMBERS_REPLY,
			    sizeof(struct ctl_mcast_members_reply), &m);
	if (rc)
		return rc;
	fdmsg_close_fds(&m);
	memcpy(slots, m.body.members_reply.slots, sizeof(m.body.members_reply.slots));
	return 0;
}

int ctl_mcast_ask(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES], uint32_t *question)
{
	struct ctl_mcast ask = { .header = { .type = CTL_MCAST_MEMBERS } };
	int rc;

	memcpy(ask.mgid, mgid, sizeof(ask.mgid));
	if (!try_lock(c))
		return -EAGAIN;
	rc = client_ask(c, &ask.header, sizeof(ask));
	if (!rc)
		*question = ask.header.seq;
	client_release(c);
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

static void drop_notices(struct ctl_client *c)
{
	struct ctl_notice notice;

	while (take_queued(c, &notice)) {
		peer_info_close(&notice.peer);
		close_fd(notice.port.fd);
	}
}

void ctl_close(struct ctl_client *c)
{
	drop_notices(c);
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
		drop_notices(c);
		ports_drop(c);
		pthread_mutex_unlock(&c->lock);
	}
	close(c->sock);
	close(c->token_fd);
	fork_free(c);
}
