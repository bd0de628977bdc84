/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/client.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fork_free.h"
#include "ctl/control.h"
#include "ctl/deadline.h"
#include "ctl/exchange.h"
#include "ctl/fdmsg.h"
#include "ctl/hello.h"
#include "ctl/kept_ports.h"
#include "ctl/notices.h"
#include "ctl/sockname.h"

#define RETRY_MS     20
#define RECONNECT_MS 500

static struct ctl_client *make_client(int arena_fd, int wake_fd, int heap_fd, const char *comm)
{
	struct ctl_client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->arena_fd = arena_fd;
	c->wake_fd = wake_fd;
	c->heap_fd = heap_fd;
	c->token_fd = -1;
	snprintf(c->comm, sizeof(c->comm), "%s", comm);
	c->notices_end = &c->notices;
	return c;
}

/* Of make_client. With a slot it gets that one. Frees it on failure. */
static int enter(struct ctl_client *c, enum dial_which which, char *why, size_t why_len)
{
	struct entry entry;
	int rc = hello_enter(c, which, CTL_CONNECT_MS, &entry, why, why_len);

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
	return 0;
}

static int connect_to(struct ctl_client **out, struct ctl_client *c, enum dial_which which,
		      char *why, size_t why_len)
{
	int rc;

	if (!c) {
		snprintf(why, why_len, "out of memory");
		return -ENOMEM;
	}
	rc = enter(c, which, why, why_len);
	*out = rc ? NULL : c;
	return rc;
}

int ctl_connect(struct ctl_client **out, int arena_fd, int wake_fd, int heap_fd, const char *comm,
		char *why, size_t why_len)
{
	return connect_to(out, make_client(arena_fd, wake_fd, heap_fd, comm), DIAL_ANY, why,
			  why_len);
}

int ctl_connect_shared(struct ctl_client **out, int arena_fd, int wake_fd, int heap_fd,
		       const char *comm, char *why, size_t why_len)
{
	*out = NULL;
	if (!sockname_shared_dir())
		return 0;
	return connect_to(out, make_client(arena_fd, wake_fd, heap_fd, comm), DIAL_SHARED, why,
			  why_len);
}

int ctl_join(struct ctl_client **out, const struct ctl_client *shared, char *why, size_t why_len)
{
	struct ctl_client *c =
		make_client(shared->arena_fd, shared->wake_fd, shared->heap_fd, shared->comm);

	if (c) {
		c->slot = shared->slot;
		c->directory = sockname_shared_id();
	}
	return connect_to(out, c, DIAL_ANY, why, why_len);
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
	control_release(c);
	if (!mine) {
		snprintf(why, why_len, "the connection to verbatimd is not lost");
		return -EALREADY;
	}

	/* Without the lock, so that other threads' requests fail at once meanwhile. */
	rc = hello_enter(c, c->which, limit_ms, &entry, why, why_len);

	pthread_mutex_lock(&c->lock);
	c->reconnecting = false;
	if (!rc) {
		close(c->sock);
		c->sock = entry.sock;
		c->daemon_pid = entry.daemon_pid;
		c->down = false;
		/* Before a request can ask the new daemon for another port. */
		kept_ports_owe(c);
		rc = kept_ports_return(c);
		if (fdmsg_is_delayed(rc))
			rc = 0; /* ctl_return_ports */
		if (rc) {
			control_lose(c);
			snprintf(why, why_len, "verbatimd was lost again");
		}
	}
	control_release(c);
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
	control_release(c);
	return pid;
}

int ctl_fd(struct ctl_client *c)
{
	int fd;

	pthread_mutex_lock(&c->lock);
	fd = c->sock;
	control_release(c);
	return fd;
}

/*
 * ------------------------------------------------------------------------------------------
 * Notices.
 */

int ctl_next_notice(struct ctl_client *c, struct ctl_notice *out)
{
	int rc;

	if (pthread_mutex_trylock(&c->lock))
		return 0;
	rc = notices_next(c, out);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * Requests.
 */

int ctl_peer(struct ctl_client *c, unsigned slot, struct ctl_peer_info *out)
{
	struct ctl_peer ask = { .header = { .type = CTL_PEER }, .slot = slot };
	struct fdmsg m;
	int rc;

	rc = exchange_request(c, &ask.header, sizeof(ask), CTL_PEER_REPLY, sizeof(struct ctl_link),
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

int ctl_peer_ask(struct ctl_client *c, unsigned slot)
{
	struct ctl_peer ask = { .header = { .type = CTL_PEER }, .slot = slot };

	return exchange_send(c, &ask.header, sizeof(ask));
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
	int rc = exchange_request(c, &ask.header, sizeof(ask), CTL_MCAST_REPLY,
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

	return exchange_send(c, &ask.header, sizeof(ask));
}

int ctl_mcast_detach(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES])
{
	return change_membership(c, CTL_MCAST_DETACH, mgid);
}

int ctl_mcast_ask(struct ctl_client *c, const uint8_t mgid[CTL_MGID_BYTES], uint32_t *question)
{
	struct ctl_mcast ask = make_mcast(CTL_MCAST_MEMBERS, mgid);
	int rc = exchange_send(c, &ask.header, sizeof(ask));

	if (!rc)
		*question = ask.header.seq;
	return rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * Ports.
 */

static int port_once(struct ctl_client *c, struct ctl_port *ask, int *fd, char *why, size_t why_len)
{
	struct fdmsg m;
	int rc = exchange_request(c, &ask->header, sizeof(*ask), CTL_PORT_REPLY,
				  sizeof(struct ctl_port_reply), &m);

	if (rc) {
		snprintf(why, why_len, "verbatimd cannot be asked for UDP port %d: %s",
			 CTL_UDP_PORT, strerror(-rc));
		return rc;
	}
	pthread_mutex_lock(&c->lock);
	rc = kept_ports_take(c, &m, ask->gid, ask->ifindex, fd, why, why_len);
	control_release(c);
	fdmsg_close_fds(&m);
	return rc;
}

int ctl_port(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES], unsigned ifindex, int *fd,
	     char *why, size_t why_len)
{
	struct timespec pause = { .tv_nsec = RETRY_MS * 1000000 };
	int64_t deadline_ns = deadline_in_ms(CTL_REQUEST_MS);
	int64_t reconnected_ns = deadline_in_ms(RECONNECT_MS);
	struct ctl_port ask = kept_ports_request(CTL_PORT, gid, ifindex);
	int rc;

	/* Another thread reconnects meanwhile, or other processes return to the daemon. */
	for (;;) {
		rc = port_once(c, &ask, fd, why, why_len);
		if (rc != -EAGAIN && rc != -ENOTCONN)
			return rc;
		if (!deadline_left_ms(rc == -EAGAIN ? deadline_ns : reconnected_ns))
			return rc;
		nanosleep(&pause, NULL);
	}
}

int ctl_port_ask(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES], unsigned ifindex)
{
	int rc;

	if (pthread_mutex_trylock(&c->lock))
		return -EAGAIN;
	rc = kept_ports_ask(c, gid, ifindex);
	control_release(c);
	return fdmsg_is_delayed(rc) ? -EAGAIN : rc;
}

int ctl_return_ports(struct ctl_client *c)
{
	int rc;

	if (!kept_ports_is_owing(c))
		return 0;
	if (pthread_mutex_trylock(&c->lock))
		return -EAGAIN;
	rc = kept_ports_return(c);
	control_release(c);
	return fdmsg_is_delayed(rc) ? -EAGAIN : rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * Leaving.
 */

void ctl_close(struct ctl_client *c)
{
	notices_drop(c);
	kept_ports_drop(c);
	close(c->sock);
	close(c->token_fd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void ctl_close_in_child(struct ctl_client *c)
{
	/*
	 * A thread that held the lock at the fork does not exist here. Then the queue may be half
	 * changed, and its descriptors stay open until the child execs or ends.
	 */
	if (!pthread_mutex_trylock(&c->lock)) {
		notices_drop(c);
		kept_ports_drop(c);
		pthread_mutex_unlock(&c->lock);
	}
	close(c->sock);
	close(c->token_fd);
	fork_free(c);
}
