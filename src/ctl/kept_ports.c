/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/kept_ports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork_free.h"
#include "ctl/client_types.h"
#include "ctl/control.h"
#include "ctl/fdmsg.h"

/* Guarded by the client's lock. */
struct kept_port {
	struct kept_port *next;
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
	int fd_store;
	bool owed; /* to a new daemon */
};

struct ctl_port kept_ports_request(enum ctl_type type, const uint8_t *gid, uint32_t ifindex)
{
	struct ctl_port ask = { .header = { .type = type }, .ifindex = ifindex };

	memcpy(ask.gid, gid, sizeof(ask.gid));
	return ask;
}

/* Caller holds the lock. Keeps fd_store, and closes the address's older store. */
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

void kept_ports_owe(struct ctl_client *c)
{
	for (struct kept_port *p = c->ports; p; p = p->next)
		p->owed = true;
	atomic_store_explicit(&c->owes_ports, c->ports != NULL, memory_order_relaxed);
}

bool kept_ports_is_owing(struct ctl_client *c)
{
	return atomic_load_explicit(&c->owes_ports, memory_order_relaxed);
}

int kept_ports_return(struct ctl_client *c)
{
	if (!kept_ports_is_owing(c))
		return 0;
	for (struct kept_port *p = c->ports; p; p = p->next) {
		struct ctl_port ask = kept_ports_request(CTL_PORT_KEPT, p->gid, p->ifindex);
		int rc = p->owed ? control_send(c, &ask.header, sizeof(ask), p->fd_store) : 0;

		if (rc)
			return rc;
		p->owed = false;
	}
	atomic_store_explicit(&c->owes_ports, false, memory_order_relaxed);
	return 0;
}

int kept_ports_take(struct ctl_client *c, struct fdmsg *m, const uint8_t *gid, uint32_t ifindex,
		    int *fd, char *why, size_t why_len)
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

int kept_ports_ask(struct ctl_client *c, const uint8_t *gid, uint32_t ifindex)
{
	struct ctl_port ask = kept_ports_request(CTL_PORT, gid, ifindex);
	int rc = kept_ports_return(c);
	struct asked_port *asked;

	if (!rc)
		rc = control_send(c, &ask.header, sizeof(ask), -1);
	if (rc)
		return rc;
	asked = &c->asked_ports[c->next_asked++ % ASKED_PORTS];
	asked->seq = ask.header.seq;
	asked->ifindex = ifindex;
	memcpy(asked->gid, gid, sizeof(asked->gid));
	return 0;
}

bool kept_ports_take_answer(struct ctl_client *c, struct fdmsg *m, struct ctl_port_answer *out)
{
	for (unsigned i = 0; i < ASKED_PORTS; i++) {
		struct asked_port *asked = &c->asked_ports[i];

		if (asked->seq != m->body.header.seq)
			continue;
		asked->seq = 0;
		out->ifindex = asked->ifindex;
		memcpy(out->gid, asked->gid, sizeof(out->gid));
		out->error = kept_ports_take(c, m, asked->gid, asked->ifindex, &out->fd, out->why,
					     sizeof(out->why));
		return true;
	}
	return false;
}

void kept_ports_drop(struct ctl_client *c)
{
	for (struct kept_port *p = c->ports, *next; p; p = next) {
		next = p->next;
		close(p->fd_store);
		fork_free(p);
	}
	c->ports = NULL;
}
