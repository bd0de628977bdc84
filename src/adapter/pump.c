#include "adapter/pump.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "adapter/group.h"
#include "adapter/peers.h"
#include "adapter/watch.h"
#include "base/cause.h"
#include "local/retry.h"
#include "object/adopt.h"
#include "object/touch.h"

#define LEASE_NS	1000000ull
#define RENEW_NS	(LEASE_NS / 2)
#define RECONNECT_MS	200
#define ROUNDS_AT_ONCE	1024 /* before notices and timers get a look again */

static struct ctl_client *ctl;
static struct arena_header *own;
static int wake = -1, epoll = -1, lease_timer = -1, retry_timer = -1;
static bool daemon_lost;
static _Atomic uint64_t lease_until; /* 0: nobody holds it */
static _Atomic uint64_t renew_at;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void set_timer(int fd, uint64_t ns)
{
	struct itimerspec when = {
		.it_value = { (time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull) },
	};

	timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void pump_on_polling(uint64_t now)
{
	uint64_t renew = atomic_load_explicit(&renew_at, memory_order_relaxed);

	if (now < renew &&
	    atomic_load_explicit(&own->duty, memory_order_relaxed) == DUTY_POLLED)
		return;
	/* one of the threads that poll renews for all */
	if (!atomic_compare_exchange_strong(&renew_at, &renew, now + RENEW_NS))
		return;
	atomic_store(&lease_until, now + LEASE_NS);
	set_timer(lease_timer, now + LEASE_NS);
	atomic_store(&own->duty, DUTY_POLLED);
}

void pump_on_arm(void)
{
	if (atomic_load_explicit(&lease_until, memory_order_relaxed) == 0)
		return;
	atomic_store(&lease_until, 0);
	atomic_store(&renew_at, 0);
	pump_kick();
}

void pump_wake(void)
{
	uint64_t one = 1;

	if (write(wake, &one, sizeof(one)) < 0)
		return; /* full: it is awake */
}

/* Who kicks is a thread of this process that has just done something: the pump's look finds it. */
void pump_kick(void)
{
	if (lease_until == 0)
		pump_wake();
}

void pump_deadline(uint64_t ns)
{
	set_timer(retry_timer, ns);
}

static void on_notice(struct ctl_notice *notice)
{
	switch (notice->kind) {
	case CTL_LINK:
		peers_on_link(&notice->peer);
		break;
	case CTL_DEATH:
		peers_on_death(notice->peer.slot, notice->peer.pid);
		break;
	case CTL_MCAST_CHANGED:
		group_on_change();
		break;
	}
}

static void watch(int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Links outlive the daemon; what is lost meanwhile is news of deaths and new processes. */
static void find_daemon_again(void)
{
	char why[256];
	int error;

	if (!daemon_lost) {
		daemon_lost = true;
		epoll_ctl(epoll, EPOLL_CTL_DEL, ctl_fd(ctl), NULL);
	}
	error = ctl_reconnect(ctl, why, sizeof(why));
	if (error == -EADDRINUSE)
		cause_report(CAUSE_DAEMON_LOST, 0, "%s", why);
	if (error)
		return;
	daemon_lost = false;
	watch(ctl_fd(ctl));
	peers_introduce_again();
	group_attach_again();
}

static void take_notices(void)
{
	struct ctl_notice notice;
	int r;

	peers_bury_replaced();
	if (daemon_lost) {
		find_daemon_again();
		return;
	}
	while ((r = ctl_next_notice(ctl, &notice)) > 0)
		on_notice(&notice);
	if (r == -ENOTCONN)
		find_daemon_again();
}

/* One look at everything. */
static bool look(void)
{
	uint64_t now;

	if (peers_progress())
		return true;
	if (local_retry_deadline_ns() == RETRY_NEVER)
		return false;
	now = now_ns();
	if (now >= local_retry_deadline_ns())
		local_retry_run(now);
	return false;
}

static void empty(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return; /* EAGAIN: it was not this one */
}

/* Sleeps until somebody calls. Returns at once if the last look finds something. */
static void sleep_now(void)
{
	struct epoll_event events[8];
	/* without a membarrier a peer may take us for awake: then we look by ourselves */
	int timeout = daemon_lost ? RECONNECT_MS : touch_barrier_works() ? -1 : 1;
	uint64_t lease;
	int n;

	lease = atomic_load(&lease_until);
	if (lease > now_ns()) {
		/* who holds it may have been late to set the timer, or have set it back */
		set_timer(lease_timer, lease);
	} else {
		atomic_store(&lease_until, 0);
		atomic_store_explicit(&own->duty, DUTY_ASLEEP, memory_order_release);
		touch_barrier(); /* DUTY */
		if (look()) {
			atomic_store_explicit(&own->duty, DUTY_POLLED, memory_order_relaxed);
			return;
		}
	}
	n = epoll_wait(epoll, events, 8, timeout);
	atomic_store_explicit(&own->duty, DUTY_POLLED, memory_order_relaxed);
	for (int i = 0; i < n; i++)
		if (events[i].data.fd == wake || events[i].data.fd == lease_timer ||
		    events[i].data.fd == retry_timer)
			empty(events[i].data.fd);
}

static void *pump(void *arg)
{
	pthread_setname_np(pthread_self(), "verbatim-pump");
	for (;;) {
		take_notices();
		adopt_run();
		watch_run();
		for (int round = 0; round < ROUNDS_AT_ONCE && look(); round++)
			;
		sleep_now();
	}
	return arg;
}

static int start_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int error;

	/* Signals are the program's own threads' business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attr, pump, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

int pump_start(struct ctl_client *client, struct arena_header *header, int wake_fd)
{
	ctl = client;
	own = header;
	wake = wake_fd;
	daemon_lost = false;
	lease_until = renew_at = 0;
	epoll = epoll_create1(EPOLL_CLOEXEC);
	lease_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	retry_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (epoll < 0 || lease_timer < 0 || retry_timer < 0) {
		int error = -errno;

		pump_reset_after_fork();
		return error;
	}
	watch(wake);
	watch(lease_timer);
	watch(retry_timer);
	watch(ctl_fd(ctl));
	watch(watch_start());
	return start_thread();
}

void pump_reset_after_fork(void)
{
	int *fds[] = { &epoll, &lease_timer, &retry_timer };

	for (int i = 0; i < 3; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	wake = -1;
	lease_until = renew_at = 0;
	watch_reset_after_fork();
}
