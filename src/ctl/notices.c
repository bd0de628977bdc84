/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/notices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork_free.h"
#include "ctl/client_types.h"
#include "ctl/control.h"
#include "ctl/fdmsg.h"
#include "ctl/kept_ports.h"

struct queued_notice {
	struct queued_notice *next;
	struct ctl_notice notice;
};

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

void notices_take_link(struct fdmsg *m, struct ctl_peer_info *out)
{
	const struct ctl_link *l = &m->body.link;
	bool whole = m->fd_count == CTL_LINK_FDS;

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

bool notices_is_link(const struct fdmsg *m)
{
	const struct ctl_link *l = &m->body.link;

	return m->len == sizeof(*l) && l->slot >= 1 && l->slot <= CTL_SLOT_MAX && l->side <= 1;
}

/* Caller holds lock. Makes a notice of a message. False: it is not a notice. */
static bool decode_notice(struct ctl_client *c, struct fdmsg *m, struct ctl_notice *out)
{
	*out = (struct ctl_notice){
		.peer = { .arena_fd = -1, .wake_fd = -1, .link_fd = -1, .heap_fd = -1 },
		.port = { .fd = -1 },
	};
	switch (m->len >= sizeof(struct ctl_header) ? m->body.header.type : 0) {
	case CTL_NOTICE_LINK:
		if (!notices_is_link(m) || (m->fd_count != CTL_LINK_FDS && !m->fds_lost))
			return false;
		out->kind = CTL_LINK;
		notices_take_link(m, &out->peer);
		return true;
	case CTL_PEER_REPLY:
		if (m->len != sizeof(m->body.link) || !(m->body.header.seq & CONTROL_ASKED))
			return false;
		if (m->body.link.status || (m->fd_count != CTL_LINK_FDS && !m->fds_lost) ||
		    !notices_is_link(m)) {
			out->kind = CTL_NO_PEER;
			out->error = m->body.link.status ? m->body.link.status : ENOENT;
			out->peer.slot = m->body.link.slot;
			return true;
		}
		out->kind = CTL_LINK;
		notices_take_link(m, &out->peer);
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
		if (m->len != sizeof(m->body.members_reply) ||
		    !(m->body.header.seq & CONTROL_ASKED))
			return false;
		out->kind = CTL_MEMBERS;
		out->question = m->body.header.seq;
		memcpy(out->members, m->body.members_reply.slots, sizeof(out->members));
		return true;
	case CTL_PORT_REPLY:
		if (m->len != sizeof(m->body.port_reply) || !(m->body.header.seq & CONTROL_ASKED))
			return false;
		out->kind = CTL_PORT_OPEN;
		return kept_ports_take_answer(c, m, &out->port);
	}
	return false;
}

bool notices_queue(struct ctl_client *c, struct fdmsg *m)
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

bool notices_is_late_reply(const struct fdmsg *m)
{
	return m->len >= sizeof(struct ctl_header) && m->body.header.seq != 0;
}

int notices_next(struct ctl_client *c, struct ctl_notice *out)
{
	if (take_queued(c, out))
		return 1;
	while (!c->down) {
		struct fdmsg m;
		int rc = fdmsg_recv(c->sock, &m);
		bool is_notice;

		/* The daemon has read some requests, so there is room for more kept ports. */
		if (rc == -EAGAIN && kept_ports_return(c) == -ENOTCONN)
			rc = -ENOTCONN;
		if (rc == -EAGAIN)
			return 0;
		if (rc) {
			control_lose(c);
			break;
		}
		is_notice = decode_notice(c, &m, out);
		if (!is_notice && !notices_is_late_reply(&m))
			control_lose(c);
		fdmsg_close_fds(&m);
		if (is_notice)
			return 1;
	}
	return -ENOTCONN;
}

void notices_drop(struct ctl_client *c)
{
	struct ctl_notice notice;

	while (take_queued(c, &notice)) {
		peer_info_close(&notice.peer);
		close_fd(notice.port.fd);
	}
}
