#include "adapter/progress_thread.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "adapter/adaptive.h"
#include "adapter/liveness.h"
#include "adapter/notices.h"
#include "adapter/peers.h"
#include "adapter/ports.h"
#include "adapter/time_slice.h"
#include "adapter/watch.h"
#include "base/syscall.h"
#include "shm/retry.h"
#include "memory/adopt.h"
#include "memory/touch.h"
#include "roce/roce.h"

#define LEASE_NS	1000000ull
#define RENEW_NS	(LEASE_NS / 2)
#define SOON_NS		1000000ull /* until everything gets its turn again */
#define FINDS_MIN	16
#define FINDS_MAX	256
#define THREAD_FIND	8
#define PRESENT_NS	5000
#define ROUNDS_AT_ONCE	1024 /* before notices get a look again */
#define WIRE_ROUNDS	16   /* before links do */
#define STREAM_FINDS	16   /* one soon after the other: packets keep coming */
#define ALONE_PORTS	8    /* with more of them looks take longer than to be told */
#define ALONE_NS	10000000ull
#define LOOKS_A_WAIT	16 /* in vain, before epoll is asked for what else there is */
#define LOOKS_A_FIND	4  /* as so many of these counts one that finds packets */

static struct arena_header *own;
static int wake = -1, epoll = -1, lease_timer = -1, retry_timer = -1, wire_timer = -1;
static uint64_t adopt_due_ns = ADOPT_NEVER; /* when pages are to be moved on; 0: now */
static _Atomic uint64_t lease_until; /* 0: nobody holds it */
static _Atomic uint64_t renew_at;
/* Who took or renewed the lease last: the address of its `self`; 0: the progress thread lent it. */
static _Atomic uintptr_t holder;
static _Thread_local char self __attribute__((tls_model("initial-exec")));

/* Guards `listening` and what the kernel was told of it. Only that of what is listened to is inside. */
static struct lock listen_lock = LOCK_INITIALIZER;
static _Atomic bool listening = true;
/* Packets found by pollers, less THREAD_FIND for each time that the progress thread found some. */
static _Atomic uint32_t finds;
static _Atomic uint32_t finds_needed = FINDS_MIN;
static bool look_found; /* the progress thread's last look found packets */
static struct adaptive adaptive;
/* Looks of the progress thread that found packets, since it slept or anything else came. */
static uint32_t stream;
static bool takes_alone; /* the progress thread has stopped listening by itself; only if adaptive.keeps_polling */
/* Threads of the program that are sending, and when one looked or had sent last. */
static _Atomic uint32_t sending;
static _Atomic uint64_t present_ns;
static _Thread_local bool is_progress_thread __attribute__((tls_model("initial-exec")));

static struct lock wire_timer_lock = LOCK_INITIALIZER; /* innermost */
static uint64_t wire_timer_ns GUARDED_BY(wire_timer_lock) = TRANSPORT_NEVER; /* it is set to this */

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

/* To begin may fail: then it has to be tried again. */
static void set_listening(bool on) REQUIRES(listen_lock)
{
	struct epoll_event event = { .events = on ? EPOLLIN | EPOLLET : 0, .data.fd = ports_epoll() };

	if (on == listening)
		return;
	epoll_ctl(epoll, EPOLL_CTL_MOD, ports_epoll(), &event);
	listening = ports_listen(on) && on;
}

/* The pollers find the packets, so let the progress thread sleep, for as long as they do. */
static void stop_listening(void)
{
	lock_acquire(&listen_lock);
	if (atomic_load(&lease_until) != 0)
		set_listening(false);
	lock_release(&listen_lock);
}

/* The lease is over. True: listening had stopped for it. */
static bool listen_again(void)
{
	bool stopped;

	lock_acquire(&listen_lock);
	stopped = !listening;
	set_listening(true);
	lock_release(&listen_lock);
	return stopped;
}

/* What is taken as it comes need not call anybody, at the expense of who sends it. */
static void begin_to_take_alone(void)
{
	if (takes_alone)
		return;
	lock_acquire(&listen_lock);
	takes_alone = listening; /* a poller may have stopped, whose lease has just ended */
	set_listening(false);
	lock_release(&listen_lock);
}

static void end_to_take_alone(void)
{
	if (takes_alone)
		listen_again();
	takes_alone = false;
}

/* A lease without listening is over, and there were packets or not. */
static void judge(bool found)
{
	uint32_t needed = finds_needed;

	if (found && needed < FINDS_MAX)
		finds_needed = needed * 2;
	else if (!found && needed > FINDS_MIN)
		finds_needed = needed / 2;
	finds = 0;
}

bool progress_thread_has_lease(void)
{
	return atomic_load_explicit(&lease_until, memory_order_relaxed) != 0;
}

void progress_thread_on_look(uint64_t now, bool found)
{
	atomic_store_explicit(&present_ns, now, memory_order_relaxed);
	if (found)
		atomic_fetch_add_explicit(&finds, 1, memory_order_relaxed);
}

void progress_thread_on_send_begin(void)
{
	if (!is_progress_thread)
		atomic_fetch_add_explicit(&sending, 1, memory_order_relaxed);
}

void progress_thread_on_send_end(void)
{
	if (is_progress_thread)
		return;
	atomic_store_explicit(&present_ns, now_ns(), memory_order_relaxed);
	atomic_fetch_sub_explicit(&sending, 1, memory_order_relaxed);
}

/* Who sends, or has just sent or looked, would have found it a moment later. */
static void on_thread_found(uint64_t now)
{
	uint32_t before = finds;
	uint64_t present = atomic_load_explicit(&present_ns, memory_order_relaxed);

	if (atomic_load_explicit(&sending, memory_order_relaxed) || now < present + PRESENT_NS) {
		atomic_fetch_add_explicit(&finds, 1, memory_order_relaxed);
		return;
	}
	atomic_store_explicit(&finds, before > THREAD_FIND ? before - THREAD_FIND : 0,
			      memory_order_relaxed);
}

void progress_thread_on_polling(uint64_t now)
{
	uint64_t renew = atomic_load_explicit(&renew_at, memory_order_relaxed), fresh;

	if (now < renew && !atomic_load_explicit(&own->need_wakeup, memory_order_relaxed))
		return;
	fresh = now_ns(); /* its look may have taken longer than a lease */
	if (now < fresh)
		now = fresh;
	/* one of the threads that poll renews for all */
	if (!atomic_compare_exchange_strong(&renew_at, &renew, now + RENEW_NS))
		return;
	atomic_store_explicit(&holder, (uintptr_t)&self, memory_order_relaxed);
	atomic_store(&lease_until, now + LEASE_NS);
	atomic_store(&own->need_wakeup, false);
	set_timer(lease_timer, now + LEASE_NS); /* LEASE: last */
	if (listening && finds >= finds_needed)
		stop_listening();
}

void progress_thread_on_arm(void)
{
	uintptr_t whose = atomic_load_explicit(&holder, memory_order_relaxed);

	if (atomic_load_explicit(&lease_until, memory_order_relaxed) == 0)
		return;
	if (whose && whose != (uintptr_t)&self)
		return; /* another thread polls, and takes what comes */
	atomic_store(&lease_until, 0);
	atomic_store(&renew_at, 0);
	progress_thread_kick();
}

void progress_thread_wake(void)
{
	uint64_t one = 1;

	if (sys_write(wake, &one, sizeof(one)) < 0)
		return; /* full: it is awake */
}

/* Who kicks is a thread of this process that has just done something: the progress thread's look finds it. */
void progress_thread_kick(void)
{
	if (lease_until == 0)
		progress_thread_wake();
}

void progress_thread_deadline(uint64_t ns)
{
	set_timer(retry_timer, ns);
}

static void arm_wire_timer(uint64_t ns)
{
	lock_acquire(&wire_timer_lock);
	if (ns < wire_timer_ns) {
		wire_timer_ns = ns;
		set_timer(wire_timer, ns ? ns : 1);
	}
	lock_release(&wire_timer_lock);
}

void progress_thread_roce_deadline(uint64_t ns)
{
	if (atomic_load_explicit(&lease_until, memory_order_relaxed) == 0) /* TIMER */
		arm_wire_timer(ns);
}

static void watch(int fd)
{
	uint32_t how = fd == ports_epoll() ? EPOLLIN | EPOLLET : EPOLLIN;
	struct epoll_event event = { .events = how, .data.fd = fd };

	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

/* A thread is at a port: if nobody has a lease it is given one. */
static void lend(uint64_t now)
{
	uint64_t nobody = 0;

	if (atomic_compare_exchange_strong(&lease_until, &nobody, now + LEASE_NS)) {
		atomic_store_explicit(&holder, 0, memory_order_relaxed);
		set_timer(lease_timer, now + LEASE_NS);
	}
}

/* True: there may be more, now. */
static bool look_at_wire(void)
{
	uint64_t now;
	int got;

	if (!ports_any())
		return false;
	now = now_ns();
	got = ports_progress(now, PORTS_ALL);
	if (got > 0)
		roce_flush();
	if (now >= roce_deadline_ns())
		roce_run(now);
	if (got > 0) {
		look_found = true;
		stream++;
		on_thread_found(now);
		return true;
	}
	if (got == -EBUSY && !takes_alone) /* progress_thread.h tells why not */
		lend(now);
	return false;
}

static void run_local_timers(void)
{
	uint64_t now;

	if (shm_retry_deadline_ns() == RETRY_NEVER)
		return;
	now = now_ns();
	if (now >= shm_retry_deadline_ns())
		shm_retry_run(now);
}

/* One look at everything. True: there may be more. */
static bool look(void)
{
	bool any;

	look_found = false;
	any = peers_progress();
	any |= look_at_wire();
	run_local_timers();
	return any;
}

/*
 * False: there is more, but notices have to be taken now and then, whatever the traffic. Links are
 * left to the threads that poll.
 */
static bool work_off(void)
{
	for (int round = 0; round < ROUNDS_AT_ONCE; round++)
		if (!look() || (progress_thread_has_lease() && !look_found))
			return true;
	return false;
}

static void empty(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return; /* EAGAIN: it was not this one */
}

static void on_event(int fd)
{
	if (fd == wake || fd == lease_timer || fd == retry_timer)
		empty(fd);
	if (fd != wire_timer)
		return;
	lock_acquire(&wire_timer_lock);
	empty(fd);
	wire_timer_ns = TRANSPORT_NEVER;
	lock_release(&wire_timer_lock);
}

/* False: the last look found something. */
static bool prepare_to_sleep(void)
{
	uint64_t lease = atomic_load(&lease_until);
	bool stopped, any;

	if (lease > now_ns()) {
		/* who holds it may have been late to set the timer, or have set it back */
		set_timer(lease_timer, lease);
		return true;
	}
	atomic_store(&lease_until, 0);
	atomic_store_explicit(&own->need_wakeup, true, memory_order_release);
	touch_barrier(); /* WAKEUP, TIMER */
	stopped = !takes_alone && listen_again();
	any = look();
	if (stopped)
		judge(look_found);
	if (any || progress_thread_has_lease()) {
		atomic_store_explicit(&own->need_wakeup, false, memory_order_relaxed);
		return false;
	}
	arm_wire_timer(roce_deadline_ns());
	return true;
}

/*
 * Packets and their timers, and nothing else: then the progress thread sleeps on, for all that others see. need_wakeup
 * stays what it is, so no barrier is needed before the next wait.
 */
static bool is_wire_only(const struct epoll_event *events, int n)
{
	for (int i = 0; i < n; i++)
		if (events[i].data.fd != ports_epoll() && events[i].data.fd != wire_timer)
			return false;
	return n > 0;
}

/*
 * The ports are watched edge-triggered: what lies there is taken, or somebody else is at it. False: it
 * has no end. Then everything else gets its turn, too.
 */
static bool serve_wire(void)
{
	for (int round = 0; look_at_wire(); round++)
		if (round == WIRE_ROUNDS)
			return false;
	if (atomic_load_explicit(&lease_until, memory_order_relaxed) == 0)
		arm_wire_timer(roce_deadline_ns());
	return true;
}

/*
 * Until nothing came for ADAPTIVE_POLL_NS, which is 0, or epoll tells of something: the number of its events.
 * -EAGAIN: packets come without end, and everything else has to get its turn.
 */
static int keep_polling(struct epoll_event *events, int max)
{
	uint64_t begin = now_ns(), last = begin;
	unsigned looks = LOOKS_A_WAIT - 1;
	int n;

	do {
		if (stream >= STREAM_FINDS && ports_count <= ALONE_PORTS && !progress_thread_has_lease())
			begin_to_take_alone();
		else
			end_to_take_alone();
		if (takes_alone && look_at_wire()) {
			adaptive_on_found(&adaptive);
			last = now_ns();
			if (last - begin >= ALONE_NS)
				return -EAGAIN;
			looks += LOOKS_A_FIND - 1;
		}
		if (takes_alone && ++looks < LOOKS_A_WAIT)
			continue;
		looks = 0;
		n = epoll_wait(epoll, events, max, 0);
		if (n > 0) {
			adaptive_on_found(&adaptive);
			if (!is_wire_only(events, n))
				stream = 0;
			return n;
		}
	} while (now_ns() - last < ADAPTIVE_POLL_NS);
	adaptive_on_vain(&adaptive);
	return 0;
}

/* epoll_wait, which may keep polling for a moment before it sleeps; or -EAGAIN. */
static int wait_for(struct epoll_event *events, int max, uint64_t until)
{
	bool looked = adaptive.keeps_polling;
	int n = looked ? keep_polling(events, max) : 0, timeout = -1;
	uint64_t begin;

	if (n)
		return n;
	stream = 0;
	end_to_take_alone();
	begin = now_ns();
	if (until != TRANSPORT_NEVER)
		timeout = begin < until ? (int)((until - begin) / 1000000 + 1) : 0;
	if (!listening && !progress_thread_has_lease())
		timeout = 1; /* nothing tells of packets */
	n = epoll_wait(epoll, events, max, timeout);
	if (!looked)
		adaptive_on_slept(&adaptive, now_ns() - begin);
	return n;
}

/* When everything has to get its turn although nobody calls. */
static uint64_t next_turn_ns(void)
{
	uint64_t soon = adopt_due_ns;

	/* a peer may take this process for one that polls: then we look by ourselves */
	if (!touch_barrier_works() && now_ns() + SOON_NS < soon)
		soon = now_ns() + SOON_NS;
	return notices_due_ns() < soon ? notices_due_ns() : soon;
}

/* Sleeps until somebody calls. Returns at once if the last look finds something. */
static void sleep_now(void)
{
	struct epoll_event events[8];
	uint64_t until = next_turn_ns();
	bool again;
	int n;

	if (!prepare_to_sleep())
		return;
	do {
		n = wait_for(events, 8, until);
		for (int i = 0; i < n; i++)
			on_event(events[i].data.fd);
		again = is_wire_only(events, n) && serve_wire() &&
			(until == TRANSPORT_NEVER || now_ns() < until);
	} while (again);
	atomic_store_explicit(&own->need_wakeup, false, memory_order_relaxed);
}

static sem_t begun; /* the progress thread has announced its liveness */

static void *run(void *arg)
{
	is_progress_thread = true;
	liveness_begin(own);
	sem_post(&begun);
	pthread_setname_np(pthread_self(), "verbatim-prog");
	time_slice_shorten();
	for (;;) {
		notices_take();
		adopt_due_ns = adopt_run(now_ns());
		watch_run();
		if ((work_off() || progress_thread_has_lease()) && adopt_due_ns)
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
	/* Signals are the program's own threads' business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attr, run, NULL);
	pthread_attr_destroy(&attr);
	/* From the first connection on its peers can see it die. */
	while (!error && sem_wait(&begun) && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

int progress_thread_start(struct ctl_client *client, struct arena_header *header, int wake_fd)
{
	own = header;
	wake = wake_fd;
	lease_until = renew_at = 0;
	epoll = epoll_create1(EPOLL_CLOEXEC);
	lease_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	retry_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	wire_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (epoll < 0 || lease_timer < 0 || retry_timer < 0 || wire_timer < 0) {
		int error = -errno;

		progress_thread_reset_after_fork();
		return error;
	}
	watch(wake);
	watch(lease_timer);
	watch(retry_timer);
	watch(wire_timer);
	watch(ports_epoll());
	notices_start(client, epoll);
	watch(watch_start());
	return start_thread();
}

void progress_thread_reset_after_fork(void) NO_LOCK_CHECK
{
	int *fds[] = { &epoll, &lease_timer, &retry_timer, &wire_timer };

	for (int i = 0; i < 4; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	wake = -1;
	lease_until = renew_at = 0;
	lock_init(&listen_lock);
	lock_init(&wire_timer_lock);
	wire_timer_ns = TRANSPORT_NEVER;
	listening = true;
	adaptive = (struct adaptive){ 0 };
	stream = 0;
	takes_alone = false;
	sending = 0;
	finds = 0;
	finds_needed = FINDS_MIN;
	watch_reset_after_fork();
}
