/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/notices.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "adapter/hot_links.h"
#include "adapter/group.h"
#include "adapter/peer_link.h"
#include "adapter/peers.h"
#include "adapter/poll_lease.h"
#include "adapter/port_open.h"
#include "base/cause.h"
#include "base/clock.h"
#include "shm/retry.h"

#define NEVER	     UINT64_MAX
#define ASK_AGAIN_NS 1000000ull
#define RECONNECT_NS 200000000ull /* between two attempts */
/*
 * An attempt blocks the progress thread, so the first ones are short. Each further one gets more
 * time, which a daemon on a slow machine may need, but less than the usual time-outs of peers' QPs.
 */
#define ATTEMPT_MS_MIN 50
#define ATTEMPT_MS_MAX 400

struct connection {
	struct ctl_client *ctl;
	bool has_links, has_ports;
	bool lost;
	int attempt_ms;
	uint64_t attempt_ns; /* when the next attempt to find verbatimd begins */
};

static struct connection links, ports; /* the latter has a client only if it is another one */
static int epoll = -1;
static bool asks; /* a question waits: another thread uses the connection, or it is full */
/* when verbatimd is asked again for peers that have not reconnected */
static uint64_t introduce_ns = NEVER;

static void watch(const struct connection *c)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = ctl_fd(c->ctl) };

	epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
}

int notices_fd(void)
{
	return ctl_fd(links.ctl);
}

void notices_take_ports_from(struct ctl_client *client)
{
	ports = (struct connection){ .ctl = client, .has_ports = client != NULL };
}

void notices_start(struct ctl_client *client, int thread_epoll)
{
	links = (struct connection){ .ctl = client, .has_links = true, .has_ports = !ports.ctl };
	epoll = thread_epoll;
	asks = false;
	introduce_ns = NEVER;
	if (ports.ctl)
		watch(&ports);
}

static struct ctl_client *client_of_ports(void)
{
	return ports.ctl ? ports.ctl : links.ctl;
}

static void on_notice(struct ctl_notice *notice)
{
	switch (notice->kind) {
	case CTL_LINK:
		peers_on_link(&notice->peer);
		break;
	case CTL_NO_PEER:
		peers_on_none(notice->peer.slot, notice->error);
		break;
	case CTL_DEATH:
		peers_on_death(notice->peer.slot, notice->peer.pid);
		break;
	case CTL_MCAST_CHANGED:
		group_on_change();
		break;
	case CTL_MEMBERS:
		group_on_members(notice->question, notice->members);
		break;
	case CTL_PORT_OPEN:
		port_open_on_answer(&notice->port);
		break;
	}
}

/*
 * A process that does not share the directory may link with this one's slot. But in the directory
 * its own slot may be another process's.
 */
static void on_notice_of_ports(struct ctl_notice *notice)
{
	if (notice->kind == CTL_LINK)
		peer_link_close_info(&notice->peer);
	else if (notice->kind != CTL_DEATH)
		on_notice(notice);
}

static void ask(void)
{
	asks = peers_ask();
	asks |= group_ask();
	asks |= ctl_return_ports(client_of_ports()) == -EAGAIN;
	port_open_ask(clock_now_ns());
}

static void introduce(bool all)
{
	introduce_ns = peers_introduce_again(all) ? clock_now_ns() + RECONNECT_NS : NEVER;
}

/* The progress thread is away meanwhile, and threads that sleep for events serve themselves. */
static int search(const struct connection *c, char *why, size_t why_len)
{
	int error;

	poll_lease_leave();
	hot_links_progress_last(); /* what came before peers took this process for asleep */
	error = ctl_reconnect(c->ctl, c->attempt_ms, why, why_len);
	poll_lease_on_awake();
	return error;
}

static void on_lost(struct connection *c)
{
	c->lost = true;
	c->attempt_ms = ATTEMPT_MS_MIN;
	if (c->has_links)
		introduce_ns = NEVER; /* the next verbatimd is asked for all peers */
	epoll_ctl(epoll, EPOLL_CTL_DEL, ctl_fd(c->ctl), NULL);
}

static void on_found(struct connection *c)
{
	c->lost = false;
	watch(c);
	if (c->has_links)
		introduce(true);
	if (c->has_ports) {
		group_attach_again();
		port_open_ask_again();
	}
	shm_retry_on_peers(); /* waiting requests repeat their questions to the new verbatimd */
	ask();
}

/*
 * True: an attempt was made. Links outlive verbatimd, but notices of deaths and of new processes
 * are lost meanwhile.
 */
static bool reconnect(struct connection *c)
{
	char why[256];
	int error;

	if (!c->lost)
		on_lost(c);
	if (clock_now_ns() < c->attempt_ns)
		return false;
	error = search(c, why, sizeof(why));
	if (c->attempt_ms < ATTEMPT_MS_MAX)
		c->attempt_ms *= 2;
	if (error == -EADDRINUSE || error == -EPERM || error == -EXDEV)
		cause_report(CAUSE_DAEMON_LOST, 0, "%s", why);
	c->attempt_ns = clock_now_ns() + RECONNECT_NS;
	if (!error)
		on_found(c);
	return true;
}

/* False: it took the time of an attempt. */
static bool take(struct connection *c)
{
	struct ctl_notice notice;
	int r = -ENOTCONN;

	while (!c->lost && (r = ctl_next_notice(c->ctl, &notice)) > 0)
		if (c->has_links)
			on_notice(&notice);
		else
			on_notice_of_ports(&notice);
	return r != -ENOTCONN || !reconnect(c);
}

void notices_take(void)
{
	peers_free_deferred();
	ask();
	if (take(&links) && ports.ctl)
		take(&ports);
	if (!links.lost && clock_now_ns() >= introduce_ns) {
		introduce(false);
		ask();
	}
}

static uint64_t attempt_due_ns(const struct connection *c)
{
	return c->lost ? c->attempt_ns : NEVER;
}

uint64_t notices_due_ns(void)
{
	uint64_t due = introduce_ns,
		 others[] = { port_open_due_ns(), attempt_due_ns(&links), attempt_due_ns(&ports) };

	if (asks && clock_now_ns() + ASK_AGAIN_NS < due)
		due = clock_now_ns() + ASK_AGAIN_NS;
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i] < due)
			due = others[i];
	return due;
}
