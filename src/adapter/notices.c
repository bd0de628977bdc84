/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/notices.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "adapter/group.h"
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

static struct ctl_client *ctl;
static int epoll = -1;
static bool daemon_lost;
static uint64_t attempt_ns; /* when the next attempt to find verbatimd begins */
static bool asks; /* a question waits: another thread uses the connection, or it is full */
/* when verbatimd is asked again for peers that have not reconnected */
static uint64_t introduce_ns = NEVER;

static void watch(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = ctl_fd(ctl) };

	epoll_ctl(epoll, EPOLL_CTL_ADD, ctl_fd(ctl), &event);
}

int notices_fd(void)
{
	return ctl_fd(ctl);
}

void notices_start(struct ctl_client *client, int thread_epoll)
{
	ctl = client;
	epoll = thread_epoll;
	daemon_lost = asks = false;
	attempt_ns = 0;
	introduce_ns = NEVER;
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

static void ask(void)
{
	asks = peers_ask();
	asks |= group_ask();
	asks |= ctl_return_ports(ctl) == -EAGAIN;
	port_open_ask(clock_now_ns());
}

static void introduce(bool all)
{
	introduce_ns = peers_introduce_again(all) ? clock_now_ns() + RECONNECT_NS : NEVER;
}

/* The progress thread is away meanwhile, and threads that sleep for events serve themselves. */
static int search(int limit_ms, char *why, size_t why_len)
{
	int error;

	poll_lease_leave();
	peers_progress_last(); /* what came before peers took this process for asleep */
	error = ctl_reconnect(ctl, limit_ms, why, why_len);
	poll_lease_on_awake();
	return error;
}

/* Links outlive verbatimd, but notices of deaths and of new processes are lost meanwhile. */
static void reconnect(void)
{
	static int attempt_ms;
	char why[256];
	int error;

	if (!daemon_lost) {
		daemon_lost = true;
		introduce_ns = NEVER; /* the next verbatimd is asked for all peers */
		attempt_ms = ATTEMPT_MS_MIN;
		epoll_ctl(epoll, EPOLL_CTL_DEL, ctl_fd(ctl), NULL);
	}
	if (clock_now_ns() < attempt_ns)
		return;
	error = search(attempt_ms, why, sizeof(why));
	if (attempt_ms < ATTEMPT_MS_MAX)
		attempt_ms *= 2;
	if (error == -EADDRINUSE || error == -EPERM)
		cause_report(CAUSE_DAEMON_LOST, 0, "%s", why);
	attempt_ns = clock_now_ns() + RECONNECT_NS;
	if (error)
		return;
	daemon_lost = false;
	watch();
	introduce(true);
	group_attach_again();
	port_open_ask_again();
	shm_retry_on_peers(); /* waiting requests repeat their questions to the new verbatimd */
	ask();
}

void notices_take(void)
{
	struct ctl_notice notice;
	int r;

	peers_free_deferred();
	ask();
	if (daemon_lost) {
		reconnect();
		return;
	}
	while ((r = ctl_next_notice(ctl, &notice)) > 0)
		on_notice(&notice);
	if (r == -ENOTCONN) {
		reconnect();
	} else if (clock_now_ns() >= introduce_ns) {
		introduce(false);
		ask();
	}
}

uint64_t notices_due_ns(void)
{
	uint64_t due = introduce_ns, ports = port_open_due_ns();

	if (asks && clock_now_ns() + ASK_AGAIN_NS < due)
		due = clock_now_ns() + ASK_AGAIN_NS;
	if (ports < due)
		due = ports;
	return daemon_lost && attempt_ns < due ? attempt_ns : due;
}
