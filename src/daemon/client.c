#include "daemon/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "ctl/fdmsg.h"
#include "daemon/cm.h"
#include "daemon/hello.h"
#include "daemon/links.h"
#include "daemon/listing.h"
#include "daemon/mcast.h"
#include "daemon/ports.h"
#include "daemon/slots.h"
#include "event/closer.h"
#include "event/intake.h"

#define SPEECHLESS_MS	  5000
#define MESSAGES_PER_TURN 16
#define TURN_NS		  500000

#define ASK sizeof(struct ctl_cm_ask)

/* All that a client may say. Whatever does not match its row is no message. */
static const struct {
	size_t len;
	unsigned fds_min, fds_max;
	enum client_role role; /* who may say it */
	void (*on_request)(struct client *c, struct fdmsg *m);
} requests[CTL_TYPE_COUNT] = {
	[CTL_HELLO] = { sizeof(struct ctl_hello), 3, 4, CLIENT_SPEECHLESS, hello_on_hello },
	[CTL_OBSERVE] = { sizeof(struct ctl_observe), 0, 0, CLIENT_SPEECHLESS, hello_on_observe },
	[CTL_PEER] = { sizeof(struct ctl_peer), 0, 0, CLIENT_PROCESS, links_on_peer },
	[CTL_MCAST_ATTACH] = { sizeof(struct ctl_mcast), 0, 0, CLIENT_PROCESS, mcast_on_attach },
	[CTL_MCAST_DETACH] = { sizeof(struct ctl_mcast), 0, 0, CLIENT_PROCESS, mcast_on_detach },
	[CTL_MCAST_MEMBERS] = { sizeof(struct ctl_mcast), 0, 0, CLIENT_PROCESS, mcast_on_members },
	[CTL_PORT] = { sizeof(struct ctl_port), 0, 0, CLIENT_PROCESS, ports_on_port },
	[CTL_PORT_KEPT] = { sizeof(struct ctl_port), 1, 1, CLIENT_PROCESS, ports_on_kept },
	[CTL_CM_HELLO] = { sizeof(struct ctl_cm_hello), 1, 2, CLIENT_SPEECHLESS, hello_on_cm },
	[CTL_CM_RETURN_CHANNEL] = { ASK, 1, 1, CLIENT_CM_EARLY, cm_on_return_channel },
	[CTL_CM_BEGIN] = { ASK, 0, 0, CLIENT_CM_EARLY, cm_return_on_begin },
	[CTL_CM_CREATE_CHANNEL] = { ASK, 1, 1, CLIENT_CM, cm_on_create_channel },
	[CTL_CM_DESTROY_CHANNEL] = { ASK, 0, 0, CLIENT_CM, cm_on_destroy_channel },
	[CTL_CM_CREATE_ID] = { ASK, 0, 0, CLIENT_CM, cm_on_create_id },
	[CTL_CM_DESTROY_ID] = { ASK, 0, 0, CLIENT_CM, cm_on_destroy_id },
	[CTL_CM_MIGRATE_ID] = { ASK, 0, 0, CLIENT_CM, cm_on_migrate_id },
	[CTL_CM_BIND] = { sizeof(struct ctl_cm_bind), 0, 0, CLIENT_CM, cm_on_bind },
	[CTL_CM_LISTEN] = { ASK, 0, 0, CLIENT_CM, cm_on_listen },
	[CTL_CM_CONNECT] = { sizeof(struct ctl_cm_talk), 0, 0, CLIENT_CM, cm_on_talk },
	[CTL_CM_ACCEPT] = { sizeof(struct ctl_cm_talk), 0, 0, CLIENT_CM, cm_on_talk },
	[CTL_CM_REJECT] = { sizeof(struct ctl_cm_talk), 0, 0, CLIENT_CM, cm_on_talk },
	[CTL_CM_READY] = { ASK, 0, 0, CLIENT_CM, cm_on_step },
	[CTL_CM_ESTABLISH] = { ASK, 0, 0, CLIENT_CM, cm_on_step },
	[CTL_CM_DISCONNECT] = { ASK, 0, 0, CLIENT_CM, cm_on_step },
	[CTL_CM_RAISE] = { sizeof(struct ctl_cm_raise), 0, 0, CLIENT_CM, cm_on_raise },
	[CTL_CM_GET_EVENT] = { ASK, 0, 0, CLIENT_CM, cm_on_get_event },
	[CTL_LIST] = { sizeof(struct ctl_list), 0, 0, CLIENT_OBSERVER, listing_on_list },
};

void client_condemn(struct client *c, const char *reason)
{
	if (c->condemned)
		return;
	if (reason)
		fprintf(stderr, "verbatimd: process %d is cut off: %s\n", (int)c->pid, reason);
	c->condemned = true;
	list_del(&c->in_daemon);
	list_add_tail(&c->daemon->condemned, &c->in_daemon);
}

bool client_sees(const struct client *a, const struct client *b)
{
	return a->uid == b->uid || (a->uid == 0 && a->role == CLIENT_OBSERVER);
}

static void watch_outbox(struct client *c)
{
	bool waits = c->outbox.count != 0;

	loop_change(&c->daemon->loop, c->sock, EPOLLIN | (waits ? EPOLLOUT : 0), &c->on_socket);
}

int client_post(struct client *c, const void *message, size_t len, struct fdref *const *fds,
		unsigned fd_count)
{
	unsigned before = c->outbox.count;
	int rc;

	if (c->condemned)
		return -ECONNRESET;
	rc = outbox_post(&c->outbox, c->sock, message, len, fds, fd_count);
	if (rc == -ETOOMANYREFS)
		return rc;
	if (rc) {
		client_condemn(c, rc == -ENOBUFS ? "it does not read what it is sent" : NULL);
		return -ECONNRESET;
	}
	if (!before && c->outbox.count)
		watch_outbox(c);
	return 0;
}

void client_post_once(struct client *c, const void *message, size_t len)
{
	if (!outbox_holds(&c->outbox, message, len))
		client_post(c, message, len, NULL, 0);
}

/* The first words of another version may have another length; they still deserve an answer. */
static bool is_other_version(const struct client *c, const struct fdmsg *m)
{
	const struct ctl_greeting *g = &m->body.greeting;

	return c->role == CLIENT_SPEECHLESS && m->len >= sizeof(*g) &&
	       (g->header.type == CTL_HELLO || g->header.type == CTL_OBSERVE ||
		g->header.type == CTL_CM_HELLO) &&
	       g->magic == CTL_MAGIC && g->version != CTL_VERSION;
}

static const char *serve(struct client *c, struct fdmsg *m)
{
	uint32_t type = m->len >= sizeof(struct ctl_header) ? m->body.header.type : 0;

	if (is_other_version(c, m)) {
		hello_refuse(c, m->body.header.seq, EPROTONOSUPPORT);
		return NULL;
	}
	if (type >= CTL_TYPE_COUNT || !requests[type].on_request)
		return "it sent what is no request";
	if (!(requests[type].role & c->role))
		return "it sent a request out of place";
	if (m->len != requests[type].len)
		return "it sent a request of a wrong length";
	if (m->fds_lost) {
		if (!requests[type].fds_max)
			return "it sent descriptors that belong to no request";
		/* It is not the client's fault: whoever serves the request says so. */
		if (c->role != CLIENT_SPEECHLESS) {
			requests[type].on_request(c, m);
			return NULL;
		}
		hello_refuse(c, m->body.header.seq, EMFILE);
		return NULL;
	}
	if (m->fd_count < requests[type].fds_min || m->fd_count > requests[type].fds_max)
		return "it sent a wrong number of descriptors";
	requests[type].on_request(c, m);
	return NULL;
}

static void receive(struct client *c)
{
	int64_t until_ns = deadline_now_ns() + TURN_NS;

	/* A few, fewer if they take long, then it is the others' turn. */
	for (int i = 0; i < MESSAGES_PER_TURN && !c->condemned; i++) {
		if (i && deadline_now_ns() > until_ns)
			return;

		struct fdmsg m;
		int rc = intake_message(c->uid, c->sock, &m);

		if (rc == -EAGAIN)
			return;
		if (rc) {
			client_condemn(c, NULL);
			return;
		}

		const char *fault;

		if (m.fd_count && closer_is_behind(c->uid))
			fault = CLOSER_BEHIND;
		else
			fault = serve(c, &m);
		intake_close(c->uid, &m);
		if (fault)
			client_condemn(c, fault);
	}
}

static void on_socket(struct loop_source *source, uint32_t events)
{
	struct client *c = container_of(source, struct client, on_socket);

	if (c->condemned)
		return;
	if (events & EPOLLOUT) {
		if (outbox_on_writable(&c->outbox, c->sock))
			client_condemn(c, NULL);
		if (!c->outbox.count)
			listing_on_drained(c);
		if (!c->condemned)
			watch_outbox(c);
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(c);
}

static void on_speechless(struct loop_timer *timer)
{
	struct client *c = container_of(timer, struct client, speechless);

	client_condemn(c, "it says nothing");
}

int client_create(struct daemon *d, int sock, const struct ucred *peer)
{
	struct client *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->daemon = d;
	c->role = CLIENT_SPEECHLESS;
	c->sock = sock;
	c->pid = peer->pid;
	c->uid = peer->uid;
	c->pid_fd = -1;
	c->on_socket.on_ready = on_socket;
	outbox_init(&c->outbox);
	list_init(&c->in_daemon);
	list_init(&c->memberships);
	rc = loop_watch(&d->loop, sock, EPOLLIN, &c->on_socket);
	if (rc) {
		free(c);
		return rc;
	}
	loop_timer_init(&c->speechless, on_speechless);
	loop_timer_arm(&d->loop, &c->speechless, SPEECHLESS_MS);
	list_add_tail(&d->clients, &c->in_daemon);
	return 0;
}

void client_set_role(struct client *c, enum client_role role)
{
	loop_timer_disarm(&c->speechless);
	c->role = role;
}

static void destroy(struct client *c)
{
	list_del(&c->in_daemon);
	loop_timer_disarm(&c->speechless);
	outbox_fini(&c->outbox);
	if (c->pid_fd >= 0) {
		loop_forget(&c->daemon->loop, c->pid_fd);
		close(c->pid_fd);
	}
	loop_forget(&c->daemon->loop, c->sock);
	closer_hang_up(c->uid, c->sock);
	fdref_put(c->arena);
	fdref_put(c->wake);
	fdref_put(c->heap);
	free(c->links);
	free(c);
}

static bool has_ended(const struct client *c)
{
	struct pollfd death = { .fd = c->pid_fd, .events = POLLIN };

	return c->pid_fd >= 0 && poll(&death, 1, 0) == 1;
}

/*
 * A process that ended has a socket for its connections, too, whose end may be noticed later. But
 * its peers hear of the end of a connection before that of the QP (links_on_death): what they do
 * about requests that were flushed may be to put the connection away, and then they never learn
 * why.
 */
static void end_connections(struct client *dead)
{
	struct list *m, *after;

	list_for_each_safe(m, after, &dead->daemon->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		if (c == dead || !c->cm || c->pid != dead->pid)
			continue;
		cm_on_death(c);
		client_condemn(c, NULL);
	}
}

static void bury(struct client *c)
{
	if (c->role == CLIENT_PROCESS && has_ended(c))
		end_connections(c);
	cm_on_death(c);
	ports_on_death(c);
	slots_on_death(c);
	links_on_death(c);
	mcast_on_death(c);
	destroy(c);
}

void client_bury_condemned(struct daemon *d)
{
	/* Telling the others of a death may condemn one of them: they come last in the list. */
	while (!list_empty(&d->condemned))
		bury(container_of(d->condemned.next, struct client, in_daemon));
}

void client_dismiss_all(struct daemon *d)
{
	struct list *m, *after;

	client_bury_condemned(d);
	list_for_each_safe(m, after, &d->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		links_on_dismissal(c);
		mcast_on_dismissal(c);
		cm_on_death(c);
		destroy(c);
	}
}
