/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "ctl/fdmsg.h"
#include "event/close_pool.h"
#include "event/receive_queue.h"

#define HELLO_MS       5000
#define REFUSED_MS     10   /* between two tries of what the kernel refuses to send */
#define REFUSED_MS_MAX 2000 /* for one message */
/*
 * Of a client's socket; the kernel doubles it. What does not fit waits in the send queue, where
 * descriptors do not count as under way: all those of a user are limited together.
 */
#define SEND_BYTES	  8192
#define MESSAGES_PER_TURN 16
#define TURN_NS		  500000

void client_disconnect(struct client *c, const char *reason)
{
	if (c->disconnecting)
		return;
	if (reason)
		fprintf(stderr, "verbatimd: process %d is cut off: %s\n", (int)c->pid, reason);
	c->disconnecting = true;
	list_del(&c->in_daemon);
	list_add_tail(&c->daemon->disconnecting, &c->in_daemon);
}

bool client_sees_user(const struct client *a, uid_t uid)
{
	return a->uid == uid || (a->uid == 0 && a->role == CLIENT_OBSERVER);
}

bool client_sees(const struct client *a, const struct client *b)
{
	return client_sees_user(a, b->uid);
}

/* The other end of the socket is gone. */
static void on_hang_up(struct client *c)
{
	if (c->has_hung_up || c->disconnecting)
		return;
	if (!c->daemon->hooks->on_hang_up(c)) {
		client_disconnect(c, NULL);
		return;
	}
	c->has_hung_up = true;
	loop_forget(&c->daemon->loop, c->sock);
}

static void watch_send_queue(struct client *c)
{
	bool waits = c->send_queue.count != 0;

	loop_change(&c->daemon->loop, c->sock, EPOLLIN | (waits ? EPOLLOUT : 0), &c->on_socket);
}

int client_post(struct client *c, const void *message, size_t len, struct fdref *const *fds,
		unsigned fd_count)
{
	unsigned before = c->send_queue.count;
	int rc;

	if (c->disconnecting || c->has_hung_up)
		return -ECONNRESET;
	rc = send_queue_post(&c->send_queue, c->sock, message, len, fds, fd_count);
	if (rc == -ETOOMANYREFS)
		return rc;
	if (rc == -ENOBUFS)
		client_disconnect(c, "it does not read what it is sent");
	else if (rc)
		on_hang_up(c);
	if (rc)
		return -ECONNRESET;
	if (!before && c->send_queue.count)
		watch_send_queue(c);
	return 0;
}

void client_post_change(struct client *c, const void *message, size_t len)
{
	if (c->change_waits || client_post(c, message, len, NULL, 0))
		return;
	c->change_waits = c->send_queue.count != 0;
}

static void receive(struct client *c)
{
	int64_t until_ns = deadline_now_ns() + TURN_NS;

	/* After so many messages it is the turn of other clients. */
	for (int i = 0; i < MESSAGES_PER_TURN && !c->disconnecting && !c->has_hung_up; i++) {
		if (i && deadline_now_ns() > until_ns)
			return;

		struct fdmsg m;
		int rc = receive_queue_take(c->uid, c->sock, &m);

		if (rc == -EAGAIN)
			return;
		if (rc) {
			on_hang_up(c);
			return;
		}

		const char *fault;

		if (m.fd_count && close_pool_is_behind(c->uid))
			fault = CLOSE_POOL_BEHIND;
		else
			fault = c->daemon->hooks->on_message(c, &m);
		receive_queue_close_fds(c->uid, &m);
		if (fault)
			client_disconnect(c, fault);
	}
}

static void delay(struct client *c)
{
	struct daemon *d = c->daemon;

	if (list_empty(&d->refused))
		loop_timer_arm(&d->loop, &d->send_again, REFUSED_MS);
	if (!c->refused_until_ns)
		c->refused_until_ns = deadline_in_ms(REFUSED_MS_MAX);
	list_del(&c->in_refused);
	list_add_tail(&d->refused, &c->in_refused);
	loop_change(&d->loop, c->sock, EPOLLIN, &c->on_socket);
}

/* The socket has room, or what the kernel refused is due again. */
static void send_queued(struct client *c)
{
	unsigned before = c->send_queue.count;
	int rc = send_queue_on_writable(&c->send_queue, c->sock);

	/* Maybe it was sent; else the next one waits beside it. */
	if (c->send_queue.count < before)
		c->change_waits = false;
	if (c->send_queue.count < before || !fdmsg_is_delayed(rc))
		c->refused_until_ns = 0;
	if (fdmsg_is_delayed(rc) &&
	    (!c->refused_until_ns || deadline_left_ms(c->refused_until_ns))) {
		delay(c);
		return;
	}
	if (fdmsg_is_delayed(rc))
		client_disconnect(c, "it cannot be sent descriptors");
	else if (rc)
		on_hang_up(c);
	if (!c->send_queue.count)
		c->daemon->hooks->on_drained(c);
	if (!c->disconnecting && !c->has_hung_up)
		watch_send_queue(c);
}

static void on_send_again(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, send_again);
	struct list due;

	list_init(&due);
	list_take_all(&due, &d->refused);
	while (!list_empty(&due)) {
		struct client *c = container_of(due.next, struct client, in_refused);

		list_del(&c->in_refused);
		if (!c->disconnecting && !c->has_hung_up)
			send_queued(c);
	}
}

static void on_socket(struct loop_source *source, uint32_t events)
{
	struct client *c = container_of(source, struct client, on_socket);

	if (c->disconnecting || c->has_hung_up)
		return;
	if (events & EPOLLOUT)
		send_queued(c);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(c);
}

static void on_hello_timeout(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, hello_timer);
	int64_t now_ns = deadline_now_ns();

	while (!list_empty(&d->silent)) {
		struct client *c = container_of(d->silent.next, struct client, in_silent);

		if (c->hello_ns > now_ns) {
			loop_timer_arm(&d->loop, timer, deadline_left_ms(c->hello_ns));
			return;
		}
		list_del(&c->in_silent);
		client_disconnect(c, "it says nothing");
	}
}

/* One timer for all, which may expire for one that has said something meanwhile. */
static void await_hello(struct client *c)
{
	struct daemon *d = c->daemon;

	c->hello_ns = deadline_in_ms(HELLO_MS);
	if (list_empty(&d->silent))
		loop_timer_arm(&d->loop, &d->hello_timer, HELLO_MS);
	list_add_tail(&d->silent, &c->in_silent);
}

int client_create(struct daemon *d, int sock, const struct ucred *peer)
{
	struct client *c = calloc(1, sizeof(*c));
	int bytes = SEND_BYTES, rc;

	if (!c)
		return -ENOMEM;
	setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	c->daemon = d;
	c->role = CLIENT_CONNECTED;
	c->sock = sock;
	c->pid = peer->pid;
	c->uid = peer->uid;
	c->pid_fd = -1;
	c->on_socket.on_ready = on_socket;
	send_queue_init(&c->send_queue);
	list_init(&c->in_daemon);
	list_init(&c->in_refused);
	list_init(&c->in_silent);
	list_init(&c->memberships);
	c->user = users_add(&d->users, c->uid);
	rc = c->user ? loop_watch(&d->loop, sock, EPOLLIN, &c->on_socket) : -ENOMEM;
	if (rc) {
		if (c->user)
			users_drop(c->user);
		free(c);
		return rc;
	}
	await_hello(c);
	list_add_tail(&d->clients, &c->in_daemon);
	return 0;
}

void client_set_role(struct client *c, enum client_role role)
{
	list_del(&c->in_silent);
	c->role = role;
}

void client_init_all(struct daemon *d)
{
	list_init(&d->clients);
	users_init(&d->users);
	list_init(&d->disconnecting);
	list_init(&d->refused);
	list_init(&d->silent);
	loop_timer_init(&d->send_again, on_send_again);
	loop_timer_init(&d->hello_timer, on_hello_timeout);
}

static void destroy(struct client *c)
{
	list_del(&c->in_daemon);
	list_del(&c->in_refused);
	list_del(&c->in_silent);
	send_queue_fini(&c->send_queue);
	if (c->pid_fd >= 0) {
		loop_forget(&c->daemon->loop, c->pid_fd);
		close(c->pid_fd);
	}
	loop_forget(&c->daemon->loop, c->sock);
	close_pool_hang_up(c->uid, c->sock);
	users_drop(c->user);
	fdref_put(c->arena);
	fdref_put(c->wake);
	fdref_put(c->heap);
	free(c->links);
	free(c);
}

bool client_is_closed(const struct client *c)
{
	struct pollfd p = { .fd = c->sock, .events = POLLRDHUP };

	return c->has_hung_up || poll(&p, 1, 0) == 1;
}

bool client_has_ended(const struct client *c)
{
	struct pollfd death = { .fd = c->pid_fd, .events = POLLIN };

	return c->pid_fd >= 0 && poll(&death, 1, 0) == 1;
}

void client_free_disconnecting(struct daemon *d)
{
	/*
	 * A notice of a death may disconnect its receiver, which is added at the end of this list.
	 */
	while (!list_empty(&d->disconnecting)) {
		struct client *c = container_of(d->disconnecting.next, struct client, in_daemon);

		d->hooks->on_death(c);
		destroy(c);
	}
}

void client_dismiss_all(struct daemon *d)
{
	struct list *m, *after;

	client_free_disconnecting(d);
	list_for_each_safe(m, after, &d->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		c->daemon->hooks->on_dismissal(c);
		destroy(c);
	}
}
