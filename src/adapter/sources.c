/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/sources.h"

#include <stddef.h>
#include <unistd.h>

#include "adapter/listening.h"
#include "adapter/notices.h"
#include "adapter/peers.h"
#include "adapter/poll_lease.h"
#include "adapter/port_events.h"
#include "adapter/ports.h"
#include "adapter/raw_sockets.h"
#include "adapter/timers.h"
#include "adapter/wakeup.h"
#include "base/clock.h"
#include "memory/migrate.h"
#include "netdev/watch.h"
#include "roce/roce.h"
#include "shm/progress.h"
#include "shm/shm.h"
#include "tcp/control.h"
#include "tcp/streams.h"

#define FOLLOW_NS 1000000000ull

static uint64_t follow_due_ns = SOURCES_NEVER;	  /* a group could not be joined anew */
static uint64_t migration_due_ns = MIGRATE_NEVER; /* when the next step of migration is due */

static void drain(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return; /* EAGAIN: another thread was quicker */
}

static void drain_retry_timer(int fd)
{
	timers_drain_retry();
}

static void drain_roce_timer(int fd)
{
	timers_drain_roce();
}

static bool send_notice(void)
{
	progress_send_notice();
	return false;
}

static bool look_for_deaths(void)
{
	peers_look_for_deaths(clock_now_ns());
	return false;
}

static bool poll_verbatimd(void)
{
	notices_take();
	return false;
}

static bool poll_migration(void)
{
	migration_due_ns = migrate_run(clock_now_ns());
	return migration_due_ns == 0;
}

static uint64_t migration_deadline_ns(void)
{
	return migration_due_ns;
}

static bool poll_interfaces(void)
{
	uint64_t now = clock_now_ns();
	bool changed = port_events_poll(now);

	if (changed || now >= follow_due_ns)
		follow_due_ns = ports_follow_interfaces(changed) ? SOURCES_NEVER : now + FOLLOW_NS;
	return false;
}

static uint64_t interfaces_due_ns(void)
{
	uint64_t due_ns = port_events_due_ns();

	return follow_due_ns < due_ns ? follow_due_ns : due_ns;
}

/* Polled in this order. */
static const struct source sources[] = {
	{
		.name = "wake-ups by peers and by threads of this process",
		.fd = wakeup_fd,
		.events = EPOLLIN,
		.drain = drain,
	},
	{
		.name = "end of the poll lease",
		.fd = poll_lease_fd,
		.events = EPOLLIN,
		.drain = drain,
	},
	{
		.name = "links", /* their work: hot_links_progress_all */
		.poll = look_for_deaths,
		.deadline_ns = peers_look_due_ns,
		.reset_after_fork = peers_reset_after_fork,
	},
	{
		.name = "retries on this host", /* shm_retry_run */
		.fd = timers_retry_fd,
		.events = EPOLLIN,
		.drain = drain_retry_timer,
		.reset_after_fork = shm_reset_after_fork,
	},
	{
		.name = "deferred notices of the sleeper",
		.fd = timers_notice_fd,
		.events = EPOLLIN,
		.drain = drain,
		.poll = send_notice,
	},
	{
		.name = "timers of the transport", /* roce_run */
		.fd = timers_roce_fd,
		.events = EPOLLIN,
		.drain = drain_roce_timer,
		.is_packets = true,
		.reset_after_fork = roce_reset_after_fork,
	},
	{
		.name = "raw sockets", /* ports_progress; in the epoll descriptor of the ports */
		.reset_after_fork = raw_sockets_reset_after_fork,
	},
	{
		.name = "ports", /* ports_progress */
		.fd = port_table_epoll,
		.events = LISTENING_EVENTS,
		.is_packets = true,
		.reset_after_fork = ports_reset_after_fork,
	},
	{
		.name = "sockets of connections in shared memory",
		.fd = tcp_control_epoll,
		.events = EPOLLIN,
		.drain = tcp_control_on_readable,
		.poll = tcp_control_service,
		.reset_after_fork = tcp_control_reset_after_fork,
	},
	{
		.name = "streams that end", /* their bytes: ports_progress */
		.poll = streams_service,
		.deadline_ns = streams_due_ns,
	},
	{
		.name = "verbatimd",
		.fd = notices_fd,
		.events = EPOLLIN,
		.poll = poll_verbatimd,
		.deadline_ns = notices_due_ns,
	},
	{
		.name = "migration of pages",
		.poll = poll_migration,
		.deadline_ns = migration_deadline_ns,
	},
	{
		.name = "network interfaces",
		.start = watch_start,
		.fd = watch_fd,
		.events = EPOLLIN,
		.poll = poll_interfaces,
		.deadline_ns = interfaces_due_ns,
		.reset_after_fork = watch_reset_after_fork,
	},
};

#define COUNT (sizeof(sources) / sizeof(sources[0]))

static int fds[COUNT]; /* watched descriptors; -1: none */

void sources_watch(int epoll)
{
	for (size_t i = 0; i < COUNT; i++) {
		struct epoll_event event = { .events = sources[i].events };

		if (sources[i].start)
			sources[i].start();
		fds[i] = event.data.fd = sources[i].fd ? sources[i].fd() : -1;
		if (fds[i] >= 0)
			epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
	}
}

void sources_on_ready(int fd)
{
	for (size_t i = 0; i < COUNT; i++)
		if (fds[i] == fd && sources[i].drain)
			sources[i].drain(fd);
}

static bool is_packets(int fd)
{
	for (size_t i = 0; i < COUNT; i++)
		if (fds[i] == fd)
			return sources[i].is_packets;
	return false; /* verbatimd's next socket */
}

bool sources_are_packets(const struct epoll_event *events, int count)
{
	for (int i = 0; i < count; i++)
		if (!is_packets(events[i].data.fd))
			return false;
	return count > 0;
}

bool sources_poll(void)
{
	bool more = false;

	for (size_t i = 0; i < COUNT; i++)
		if (sources[i].poll)
			more |= sources[i].poll();
	return more;
}

uint64_t sources_deadline_ns(void)
{
	uint64_t first = SOURCES_NEVER;

	for (size_t i = 0; i < COUNT; i++) {
		uint64_t ns = sources[i].deadline_ns ? sources[i].deadline_ns() : SOURCES_NEVER;

		if (ns < first)
			first = ns;
	}
	return first;
}

void sources_reset_after_fork(void)
{
	for (size_t i = 0; i < COUNT; i++)
		if (sources[i].reset_after_fork)
			sources[i].reset_after_fork();
	follow_due_ns = SOURCES_NEVER;
	migration_due_ns = MIGRATE_NEVER;
}
