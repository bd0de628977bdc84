/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/ports.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/gid.h"
#include "base/host_address.h"
#include "ctl/deadline.h"
#include "daemon/owner.h"
#include "daemon/port_store.h"
#include "daemon/slot_token.h"
#include "event/close_pool.h"

#define SOON_MS 50 /* after which the token of a process that died is gone */

/* The address of a request, checked. */
struct wanted {
	const uint8_t *gid;
	uint32_t ifindex;
	char text[GID_TEXT_BYTES];
};

static struct port_group *find(struct daemon *d, const struct wanted *w)
{
	struct list *m;

	list_for_each(m, &d->port_groups) {
		struct port_group *g = container_of(m, struct port_group, in_daemon);

		if (g->ifindex == w->ifindex && !memcmp(g->gid, w->gid, sizeof(g->gid)))
			return g;
	}
	return NULL;
}

static void insert(struct daemon *d, struct port_group *g)
{
	list_add_tail(&d->port_groups, &g->in_daemon);
	d->port_group_count++;
}

/*
 * The group's sockets may be open for a while: the close pool has yet to close the descriptor
 * store, and the last process may not have closed its socket. A process that ends closes its
 * connection to the daemon first, and may then have to wait for a processor.
 */
static void remember_end(struct daemon *d, const struct port_group *g)
{
	struct ended_port *e = &d->ended_ports[d->ended_port_next++ % ENDED_PORTS];

	memcpy(e->gid, g->gid, sizeof(e->gid));
	e->ifindex = g->ifindex;
	e->when_ns = deadline_now_ns();
}

/* `closing`: the close pool still has descriptors of the user. */
static bool has_just_ended(const struct daemon *d, const struct wanted *w, bool closing)
{
	int64_t since = deadline_now_ns() - ENDED_PORT_MS * INT64_C(1000000);

	for (unsigned i = 0; i < ENDED_PORTS; i++) {
		const struct ended_port *e = &d->ended_ports[i];

		if (e->when_ns && (closing || e->when_ns >= since) && e->ifindex == w->ifindex &&
		    !memcmp(e->gid, w->gid, sizeof(e->gid)))
			return true;
	}
	return false;
}

static void end(struct daemon *d, struct port_group *g)
{
	remember_end(d, g);
	port_store_remove(d, g);
	d->port_group_count--;
	port_group_destroy(g);
}

static int read_wanted(const struct ctl_port *p, struct wanted *out, char *why)
{
	bool is_local = gid_is_link_local(p->gid);

	out->gid = p->gid;
	out->ifindex = is_local ? p->ifindex : 0;
	gid_text(p->gid, out->text);
	if (!gid_is_unicast(p->gid)) {
		snprintf(why, CTL_WHY_BYTES, "%s is not the address of an interface", out->text);
		return -EADDRNOTAVAIL;
	}
	if (is_local && !p->ifindex) {
		snprintf(why, CTL_WHY_BYTES, "%s is link-local: it needs an interface", out->text);
		return -EINVAL;
	}
	return 0;
}

/* The port is taken: finds out by which process, and whether to ask again helps. */
static int explain_taken(struct client *c, const struct wanted *w, char *why)
{
	bool away = slot_token_any_away(c->daemon);
	struct owner o;

	owner_find(w->gid, &o);
	if (away && o.pid)
		snprintf(why, CTL_WHY_BYTES,
			 "UDP port %d of %s is held by process %d (%.30s), which has not come back "
			 "to "
			 "verbatimd yet",
			 CTL_UDP_PORT, w->text, (int)o.pid, o.comm);
	else if (away)
		snprintf(why, CTL_WHY_BYTES,
			 "UDP port %d of %s is held, maybe by a process that has not come back to "
			 "verbatimd yet",
			 CTL_UDP_PORT, w->text);
	else
		owner_tell(&o, w->text, why);
	return away ? -EAGAIN : -EADDRINUSE;
}

static int explain(struct client *c, const struct wanted *w, int rc, char *why)
{
	switch (rc) {
	case -EAGAIN:
		snprintf(why, CTL_WHY_BYTES,
			 "UDP port %d of %s is taken; its last process has just ended, and it may "
			 "not "
			 "be closed yet",
			 CTL_UDP_PORT, w->text);
		return rc;
	case -EADDRINUSE:
		return explain_taken(c, w, why);
	case -EADDRNOTAVAIL:
	case -ENODEV:
		snprintf(why, CTL_WHY_BYTES, "%s is no address of this host", w->text);
		return -EADDRNOTAVAIL;
	case -EMFILE:
	case -ENFILE:
	case -ETOOMANYREFS:
	case -ENOBUFS:
		snprintf(why, CTL_WHY_BYTES,
			 "verbatimd (pid %d) is out of file descriptors or socket memory (%s); "
			 "raise "
			 "its limit (ulimit -Hn) or run fewer processes",
			 (int)getpid(), strerror(-rc));
		return rc == -ENOBUFS ? rc : -EMFILE;
	case -ENOSPC:
		snprintf(why, CTL_WHY_BYTES,
			 "verbatimd has ports of %u addresses, of %d, and this user has its share",
			 c->daemon->port_group_count, PORT_GROUPS_MAX);
		return rc;
	default:
		snprintf(why, CTL_WHY_BYTES, "UDP port %d of %s cannot be opened: %s", CTL_UDP_PORT,
			 w->text, strerror(-rc));
		return rc;
	}
}

/* As of slots (daemon/slots.h): one more only while more are free than this user has begun. */
static bool has_its_share(const struct daemon *d, uint64_t begun_by)
{
	unsigned mine = 0;
	struct list *m;

	if (d->scope != DAEMON_OF_SYSTEM || !begun_by)
		return false;
	list_for_each(m, &d->port_groups)
		mine += container_of(m, struct port_group, in_daemon)->begun_by == begun_by;
	return mine >= PORT_GROUPS_MAX - d->port_group_count;
}

/* -EAGAIN: the port is taken, maybe by a group that has just ended. */
static int find_or_create(struct daemon *d, const struct wanted *w, uint64_t begun_by,
			  struct port_group **out)
{
	bool closing;
	int rc;

	*out = find(d, w);
	if (*out)
		return 0;
	if (d->port_group_count >= PORT_GROUPS_MAX || has_its_share(d, begun_by))
		return -ENOSPC;
	/* Its descriptor store will go to the close pool. */
	if (d->scope == DAEMON_OF_USER && close_pool_is_behind(d->uid))
		return -EMFILE;
	/* With ip_nonlocal_bind, bind() would succeed. */
	if (host_holds_address(w->gid, w->ifindex) == 0)
		return -EADDRNOTAVAIL;
	closing = close_pool_has(
		geteuid()); /* read first: the close pool may finish before bind() fails */
	rc = port_group_create(w->gid, w->ifindex, out);
	if (!rc) {
		(*out)->begun_by = begun_by;
		insert(d, *out);
		port_store_add(d, *out);
	}
	return rc == -EADDRINUSE && has_just_ended(d, w, closing) ? -EAGAIN : rc;
}

static void reply(struct client *c, const struct fdmsg *m, int rc, const char *why,
		  const struct port_group *g)
{
	struct ctl_port_reply r = {
		.header = { .type = CTL_PORT_REPLY, .seq = m->body.header.seq },
		.status = -rc,
	};
	struct fdref *fds[2];
	unsigned count = 0;

	if (rc)
		snprintf(r.why, sizeof(r.why), "%s", why);
	if (g) {
		fds[count++] = g->sockets[c->slot];
		if (c->daemon->scope == DAEMON_OF_USER)
			fds[count++] = g->fd_store;
	}
	if (client_post(c, &r, sizeof(r), fds, count) == -ETOOMANYREFS) {
		r.status = EMFILE;
		snprintf(r.why, sizeof(r.why),
			 "too many file descriptors are on their way between processes");
		client_post(c, &r, sizeof(r), NULL, 0);
	}
}

void ports_on_port(struct client *c, struct fdmsg *m)
{
	char why[CTL_WHY_BYTES] = "";
	struct port_group *g = NULL;
	struct wanted w;
	int rc = read_wanted(&m->body.port, &w, why);

	if (rc) {
		reply(c, m, rc, why, NULL);
		return;
	}
	rc = find_or_create(c->daemon, &w, c->uid + UINT64_C(1), &g);
	if (!rc) {
		rc = port_group_use(g, c->slot, c->uid);
		/* No process uses the new group, so it ends. */
		if (rc && port_group_leave(g, c->slot))
			end(c->daemon, g);
	}
	if (rc) {
		rc = explain(c, &w, rc, why);
		g = NULL;
	}
	reply(c, m, rc, why, g);
}

/* The group of the descriptor store, made if it is not known. */
static int adopt(struct daemon *d, const struct wanted *w, int fd_store, struct port_group **out)
{
	int rc;

	*out = find(d, w);
	if (*out)
		return port_group_has_fd_store(*out, fd_store) ? 0 : -EEXIST;
	if (d->port_group_count >= PORT_GROUPS_MAX)
		return -ENOSPC;
	rc = port_group_adopt(w->gid, w->ifindex, fd_store, out);
	if (!rc)
		insert(d, *out);
	return rc;
}

void ports_on_kept(struct client *c, struct fdmsg *m)
{
	char why[CTL_WHY_BYTES] = "";
	struct port_group *g = NULL;
	struct wanted w;
	int rc = read_wanted(&m->body.port, &w, why);

	if (!rc && c->daemon->scope != DAEMON_OF_USER)
		rc = -EPERM;
	if (!rc && m->fds_lost)
		rc = -EMFILE;
	if (!rc)
		rc = adopt(c->daemon, &w, m->fds[0], &g);
	if (!rc) {
		rc = port_group_use_on(g, c->slot, c->uid);
		if (rc && port_group_leave(g, c->slot))
			end(c->daemon, g);
	}
	if (rc && !*why)
		snprintf(why, sizeof(why), "what was kept of %s's port is of no use: %s", w.text,
			 strerror(-rc));
	reply(c, m, rc, why, NULL);
}

int ports_use_for_daemon(struct daemon *d, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex,
			 uint64_t begun_by, struct port_group **out)
{
	struct wanted w = { .gid = gid, .ifindex = gid_is_link_local(gid) ? ifindex : 0 };
	int rc;

	if (!gid_is_unicast(gid))
		return -EADDRNOTAVAIL;
	rc = find_or_create(d, &w, begun_by, out);
	if (rc)
		return rc == -EADDRINUSE && slot_token_any_away(d) ? -EAGAIN : rc;
	/* Packets for QP 1 that came since the earlier daemon ended are this one's. */
	rc = port_group_use_on(*out, 0, d->uid);
	if (rc && port_group_leave(*out, 0))
		end(d, *out);
	return rc;
}

void ports_leave_for_daemon(struct daemon *d, struct port_group *g)
{
	if (port_group_leave(g, 0))
		end(d, g);
}

bool ports_suit(struct daemon *d, unsigned slot, uid_t uid)
{
	struct list *m;

	list_for_each(m, &d->port_groups) {
		if (!port_group_suits(container_of(m, struct port_group, in_daemon), slot, uid))
			return false;
	}
	return true;
}

int ports_restore(struct daemon *d, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex,
		  int fd_store, int record_fd)
{
	struct wanted w = { .gid = gid, .ifindex = ifindex };
	struct port_group *g;
	int rc;

	if (find(d, &w))
		return -EEXIST;
	if (d->port_group_count >= PORT_GROUPS_MAX)
		return -ENOSPC;
	rc = port_group_restore(gid, ifindex, fd_store, record_fd, &g);
	if (!rc)
		insert(d, g);
	return rc;
}

bool ports_give_up_dead(struct daemon *d)
{
	bool any_away = false;
	struct list *m, *after;

	list_for_each_safe(m, after, &d->port_groups) {
		struct port_group *g = container_of(m, struct port_group, in_daemon);

		for (unsigned slot = 1; slot <= CTL_SLOT_MAX; slot++) {
			if (!port_group_is_user(g, slot) || d->by_slot[slot])
				continue;
			if (slot_token_is_held(d, slot))
				any_away = true;
			else
				port_group_leave(g, slot);
		}
		/*
		 * port_group_leave of a slot that does not use the group only tells whether others
		 * do.
		 */
		if (!port_group_is_user(g, 0) && port_group_leave(g, 0))
			end(d, g);
	}
	return any_away;
}

void ports_on_new_slot(struct daemon *d, unsigned slot)
{
	struct list *m, *after;

	list_for_each_safe(m, after, &d->port_groups) {
		struct port_group *g = container_of(m, struct port_group, in_daemon);

		if (port_group_is_user(g, slot) && port_group_leave(g, slot))
			end(d, g);
	}
}

void ports_on_death(struct client *c)
{
	struct daemon *d = c->daemon;
	struct list *m, *after;

	if (!c->slot)
		return;
	/*
	 * A process that lost only its connection returns with its slot, but has no descriptor
	 * store. This happens above all if it connected while a service manager had the socket, and
	 * connected again: the end of the first connection is not the end of the process.
	 */
	if (d->scope == DAEMON_OF_SYSTEM && slot_token_is_held(d, c->slot)) {
		loop_timer_arm(&d->loop, &d->returned, SOON_MS);
		return;
	}
	list_for_each_safe(m, after, &d->port_groups) {
		struct port_group *g = container_of(m, struct port_group, in_daemon);

		if (port_group_leave(g, c->slot))
			end(d, g);
	}
}

void ports_on_end(struct daemon *d)
{
	struct list *m, *after;

	list_for_each_safe(m, after, &d->port_groups)
		port_group_destroy(container_of(m, struct port_group, in_daemon));
}
