/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/progress_thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "adapter/hot_links.h"
#include "adapter/adaptive.h"
#include "adapter/listening.h"
#include "adapter/liveness.h"
#include "adapter/notices.h"
#include "adapter/peers.h"
#include "adapter/poll_lease.h"
#include "adapter/ports.h"
#include "adapter/sources.h"
#include "adapter/timers.h"
#include "adapter/wakeup.h"
#include "base/clock.h"
#include "memory/hazard.h"
#include "memory/memory.h"
#include "roce/roce.h"
#include "shm/retry.h"
#include "shm/timer.h"

#define SOON_NS	      1000000ull /* until all sources are polled again */
#define TURN_NS	      1000000ull /* before slow sources are polled again */
#define WIRE_ROUNDS   16	 /* before links are polled again */
#define ALONE_NS      10000000ull
#define HELD_LOOKS    256 /* at links that other threads hold, before a pause */
#define HELD_PAUSE_NS 50000
#define EVENTS_MAX    8
#define TIME_SLICE_NS 100000ull /* the shortest there is */

static struct arena_header *own;
static int epoll = -1;
static bool look_found;	    /* the last look found packets */
static unsigned held_looks; /* in a row that found links held, and no work */
static struct adaptive adaptive;
static sem_t begun; /* posted when its liveness word is set */

/* True: there may be more, now. */
static bool look_at_wire(void)
{
	uint64_t now;
	int got;

	if (!ports_any())
		return false;
	now = clock_now_ns();
	got = ports_progress(now, PORTS_ALL);
	if (got > 0)
		roce_flush();
	if (now >= roce_deadline_ns())
		roce_run(now);
	if (got > 0) {
		look_found = true;
		listening_on_find(now);
		return true;
	}
	if (got == -EBUSY && !listening_takes_alone())
		poll_lease_lend(now);
	return false;
}

static void run_retries(void)
{
	uint64_t now;

	if (shm_timer_deadline_ns() == SHM_TIMER_NEVER)
		return;
	now = clock_now_ns();
	if (now >= shm_timer_deadline_ns())
		shm_retry_run(now);
}

/*
 * Other threads are at links, and nothing else was found. Such a thread is through with a link
 * after some microseconds if it runs. If it does not, it may wait for this processor: with a
 * real-time policy (which this thread inherits from the program's) it would never get it. So this
 * thread sleeps; to yield would not do, as the other one may have a lower priority.
 */
static void on_links_held(void)
{
	if (++held_looks >= HELD_LOOKS)
		nanosleep(&(struct timespec){ .tv_nsec = HELD_PAUSE_NS }, NULL);
}

/* One look at links, ports and timers. True: there may be more. */
static bool look(void)
{
	int links;
	bool any;

	look_found = false;
	links = hot_links_progress_all();
	any = look_at_wire() || links;
	run_retries();
	if (links == -EBUSY && !look_found)
		on_links_held();
	else
		held_looks = 0;
	return any;
}

/*
 * False: there is more, but slow sources have to be polled now and then, too. Leaves links to the
 * threads that poll.
 *
 * Such a thread may wait for this processor. At the end of a time slice it would find the port held
 * by this thread, poll in vain, yield, and so on, while this thread, which is slower, takes all
 * packets. So this one yields where it holds nothing.
 */
static bool work_off(void)
{
	uint64_t end = clock_now_ns() + TURN_NS;

	do {
		bool any = look(), polled = poll_lease_is_held();

		if (!any || (polled && !look_found))
			return true;
		if (polled)
			sched_yield();
	} while (clock_now_ns() < end);
	return false;
}

/* False: the last look found something. */
static bool prepare_to_sleep(void)
{
	bool last_of_lease, any;

	if (!poll_lease_end())
		return true;
	last_of_lease = listening_on_lease_end();
	any = look();
	if (last_of_lease)
		listening_on_last_look(look_found);
	if (any || poll_lease_is_held()) {
		poll_lease_on_awake();
		return false;
	}
	timers_arm_roce(roce_deadline_ns());
	if (shm_timer_deadline_ns() != SHM_TIMER_NEVER)
		timers_arm_retry(shm_timer_deadline_ns());
	return true;
}

/*
 * Takes all packets, as epoll is edge-triggered, unless another thread takes them. False: they have
 * no end, so all other sources get their turn. Peers take the progress thread for asleep, so no
 * barrier is needed before the next wait.
 */
static bool serve_wire(void)
{
	for (int round = 0; look_at_wire(); round++)
		if (round == WIRE_ROUNDS)
			return false;
	if (!poll_lease_is_held())
		timers_arm_roce(roce_deadline_ns());
	return true;
}

/*
 * Polls until no packet came for ADAPTIVE_POLL_NS (returns 0), or until epoll has events (returns
 * their number). -EAGAIN: packets come without end, and all other sources have to get their turn,
 * at `until` at the latest.
 */
static int keep_polling(struct epoll_event *events, uint64_t until)
{
	uint64_t begin = clock_now_ns(), last = begin;
	int n;

	do {
		if (listening_on_keep_polling() && look_at_wire()) {
			adaptive_on_found(&adaptive);
			last = clock_now_ns();
			if (last - begin >= ALONE_NS || last >= until)
				return -EAGAIN;
		}
		n = epoll_wait(epoll, events, EVENTS_MAX, 0);
		if (n > 0) {
			adaptive_on_found(&adaptive);
			if (!sources_are_packets(events, n))
				listening_on_other_call();
			return n;
		}
	} while (clock_now_ns() - last < ADAPTIVE_POLL_NS);
	adaptive_on_empty(&adaptive);
	return 0;
}

static int timeout_ms(uint64_t now, uint64_t until)
{
	if (!listening_is_on() && !poll_lease_is_held())
		return 1; /* no descriptor tells of packets */
	if (until == SOURCES_NEVER)
		return -1;
	return now < until ? (int)((until - now) / 1000000 + 1) : 0;
}

/* epoll_wait, which may keep polling for a moment before it sleeps; or -EAGAIN. */
static int wait_for(struct epoll_event *events, uint64_t until)
{
	bool polled = adaptive.keeps_polling;
	int n = polled ? keep_polling(events, until) : 0;
	uint64_t begin;

	if (n)
		return n;
	listening_on_quiet();
	begin = clock_now_ns();
	n = epoll_wait(epoll, events, EVENTS_MAX, timeout_ms(begin, until));
	if (!polled)
		adaptive_on_slept(&adaptive, clock_now_ns() - begin);
	return n;
}

/* When all sources have to be polled although none calls. */
static uint64_t next_turn_ns(void)
{
	uint64_t next = sources_deadline_ns();

	if (!hazard_barrier_works()) {
		/*
		 * a peer may believe that this process polls, and not wake it: so look again soon
		 */
		uint64_t soon = clock_now_ns() + SOON_NS;

		return soon < next ? soon : next;
	}
	return next;
}

/* Sleeps until a source calls or is due. Returns at once if the last look finds something. */
static void sleep_now(void)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t until = next_turn_ns();
	bool again;
	int n;

	if (!prepare_to_sleep())
		return;
	do {
		n = wait_for(events, until);
		for (int i = 0; i < n; i++)
			sources_on_ready(events[i].data.fd);
		again = sources_are_packets(events, n) && serve_wire() &&
			(until == SOURCES_NEVER || clock_now_ns() < until);
	} while (again);
	poll_lease_on_awake();
}

/* struct sched_attr: its kernel header clashes with C libraries before glibc 2.41. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/*
 * Asks the scheduler for short time slices (EEVDF, Linux 6.12), so that the thread runs soon after
 * it wakes up. Programs may spin on memory that this thread is to write. If they occupy all
 * processors, it would wait for the end of their time slices, which are milliseconds. An older
 * kernel ignores the request. A thread with another policy than SCHED_OTHER keeps it.
 */
static void shorten_time_slice(void)
{
	struct scheduling own_scheduling = { .size = sizeof(own_scheduling) };

	if (syscall(SYS_sched_getattr, 0, &own_scheduling, sizeof(own_scheduling), 0) ||
	    own_scheduling.policy != SCHED_OTHER)
		return;
	own_scheduling.runtime = TIME_SLICE_NS;
	syscall(SYS_sched_setattr, 0, &own_scheduling, 0);
}

static void *run(void *arg)
{
	listening_begin();
	memory_check_copies();
	liveness_begin(own);
	sem_post(&begun);
	pthread_setname_np(pthread_self(), "verbatim-prog");
	shorten_time_slice();
	for (;;) {
		bool more = sources_poll();

		if ((work_off() || poll_lease_is_held()) && !more)
			sleep_now();
	}
	return NULL;
}

static int start_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int error;

	sem_init(&begun, 0, 0);
	/* Only the program's own threads handle signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attr, run, NULL);
	pthread_attr_destroy(&attr);
	/* Waits, so that from the first connection on peers see whether this process is alive. */
	while (!error && sem_wait(&begun) && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

int progress_thread_start(struct ctl_client *client, struct arena_header *header, int wake_fd)
{
	int error;

	own = header;
	wakeup_init(wake_fd);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	error = epoll < 0 ? -errno : poll_lease_init(header);
	if (!error)
		error = timers_init();
	if (error) {
		progress_thread_reset_after_fork();
		return error;
	}
	listening_init(epoll);
	notices_start(client, epoll);
	sources_watch(epoll);
	error = start_thread();
	if (error)
		progress_thread_reset_after_fork();
	return error;
}

void progress_thread_reset_after_fork(void)
{
	if (epoll >= 0)
		close(epoll);
	epoll = -1;
	wakeup_reset_after_fork();
	poll_lease_reset_after_fork();
	timers_reset_after_fork();
	listening_reset_after_fork();
	adaptive = (struct adaptive){ 0 };
}
