/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fork_free.h"
#include "ctl/client_state.h"
#include "ctl/deadline.h"

#define RETRY_MS     20
#define RECONNECT_MS 500

/* Guarded by the client's lock. */
struct kept_port {
	struct kept_port *next;
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
	int fd_store;
	bool owed; /* to a new daemon */
};

static struct ctl_port ask_port(enum ctl_type type, const uint8_t *gid, uint32_t ifindex)
{
	struct ctl_port ask = { .header = { .type = type }, .ifindex = ifindex };

	memcpy(ask.gid, gid, sizeof(ask.gid));
	return ask;
}

/* Caller holds the lock. Takes over fd_store, in place of an older one of the address. */
static int keep_port(struct ctl_client *c, const uint8_t *gid, uint32_t ifindex, int fd_store)
{
	struct kept_port *p;

	for (p = c->ports; p; p = p->next) {
		if (p->ifindex == ifindex && !memcmp(p->gid, gid, sizeof(p->gid)))
			break;
	}
	if (p) {
		close(p->fd_store);
		p->fd_store = fd_store;
	} else if ((p = malloc(sizeof(*p)))) {
		*p = (struct kept_port){ .next = c->ports,
					 .ifindex = ifindex,
					 .fd_store = fd_store };
		memcpy(p->gid, gid, sizeof(p->gid));
		c->ports = p;
	}
	if (p)
		return 0;
	close(fd_store);
	return -ENOMEM;
}

void ports_owe(struct ctl_client *c)
{
	for (struct kept_port *p = c->ports; p; p = p->next)
		p->owed = true;
	c->owes_ports = c->ports;
}

int ports_return(struct ctl_client *c)
{
	if (!c->owes_ports)
		return 0;
	for (struct kept_port *p = c->ports; p; p = p->next) {
		struct ctl_port ask = ask_port(CTL_PORT_KEPT, p->gid, p->ifindex);
		int rc =
			p->owed ? client_send_request(c, &ask.header, sizeof(ask), p->fd_store) : 0;

		if (rc)
			return rc;
		p->owed = false;
	}
	c->owes_ports = false;
	return 0;
}

/* Caller holds the lock. Takes the descriptors of the reply. Results as of ctl_port. */
static int take(struct ctl_client *c, struct fdmsg *m, const uint8_t *gid, uint32_t ifindex, int *fd,
		char *why, size_t why_len)
{
	const struct ctl_port_reply *r = &m->body.port_reply;
	int rc = 0;

	if (r->status) {
		snprintf(why, why_len, "%.*s", (int)sizeof(r->why) - 1, r->why);
		return r->status > 0 ? -r->status : -EPROTO;
	}
	if (m->fds_lost) {
		snprintf(why, why_len, "this process is out of file descriptors");
		return -EMFILE;
	}
	if (m->fd_count < 1 || m->fd_count > 2) {
		snprintf(why, why_len, "verbatimd sent a malformed answer");
		return -EPROTO;
	}
	if (m->fd_count == 2)
		rc = keep_port(c, gid, ifindex, fdmsg_take_fd(m, 1));
	if (!rc)
		*fd = fdmsg_take_fd(m, 0);
	else
		snprintf(why, why_len, "out of memory");
	return rc;
}

static int port_once(struct ctl_client *c, struct ctl_port *ask, int *fd, char *why, size_t why_len)
{
	struct fdmsg m;
	int rc = client_request(c, &ask->header, sizeof(*ask), CTL_PORT_REPLY,
				sizeof(struct ctl_port_reply), &m);

	if (rc) {
		snprintf(why, why_len, "verbatimd cannot be asked for UDP port %d: %s",
			 CTL_UDP_PORT, strerror(-rc));
		return rc;
	}
	pthread_mutex_lock(&c->lock);
	rc = take(c, &m, ask->gid, ask->ifindex, fd, why, why_len);
	client_release(c);
	fdmsg_close_fds(&m);
	return rc;
}

int ports_ask_for(struct ctl_client *c, const uint8_t *gid, uint32_t ifindex)
{
	struct ctl_port ask = ask_port(CTL_PORT, gid, ifindex);
	int rc = client_ask(c, &ask.header, sizeof(ask));
	struct asked_port *asked;

	if (rc)
		return rc;
	asked = &c->asked_ports[c->next_asked++ % ASKED_PORTS];
	asked->seq = ask.header.seq;
	asked->ifindex = ifindex;
	memcpy(asked->gid, gid, sizeof(asked->gid));
	return 0;
}

bool ports_take_answer(struct ctl_client *c, struct fdmsg *m, struct ctl_port_answer *out)
{
	for (unsigned i = 0; i < ASKED_PORTS; i++) {
		struct asked_port *asked = &c->asked_ports[i];

		if (asked->seq != m->body.header.seq)
			continue;
		asked->seq = 0;
		out->ifindex = asked->ifindex;
		memcpy(out->gid, asked->gid, sizeof(out->gid));
		out->error = take(c, m, asked->gid, asked->ifindex, &out->fd, out->why, sizeof(out->why));
		return true;
	}
	return false;
}

int ctl_port(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES], unsigned ifindex, int *fd,
	     char *why, size_t why_len)
{
	struct timespec pause = { .tv_nsec = RETRY_MS * 1000000 };
	int64_t deadline_ns = deadline_in_ms(CTL_REQUEST_MS);
	int64_t reconnected_ns = deadline_in_ms(RECONNECT_MS);
	struct ctl_port ask = ask_port(CTL_PORT, gid, ifindex);
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

void ports_drop(struct ctl_client *c)
{
	for (struct kept_port *p = c->ports, *next; p; p = next) {
		next = p->next;
		close(p->fd_store);
		fork_free(p);
	}
	c->ports = NULL;
}
