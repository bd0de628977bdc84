/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/listening.h"

#include <stdatomic.h>
#include <sys/epoll.h>

#include "adapter/poll_lease.h"
#include "adapter/port_table.h"
#include "base/clock.h"
#include "base/lock.h"

#define FINDS_MIN    16
#define FINDS_MAX    256
#define THREAD_FIND  8
#define PRESENT_NS   5000
#define STREAM_FINDS 16 /* in quick succession: packets keep coming */
#define ALONE_PORTS  8	/* with more ports a look costs more than epoll */

enum state {
	LISTENS,
	LEFT_TO_POLLERS,
	TAKES_ALONE, /* entered and left by the progress thread alone */
};

static int epoll = -1;

/* Guards `state` and its effect on epoll. Only the port table's watch_lock is inside. */
static struct lock listen_lock = LOCK_INITIALIZER;
static _Atomic enum state state = LISTENS;

static _Atomic uint32_t finds;
static _Atomic uint32_t finds_needed = FINDS_MIN;
/* How many threads of the program send now; and when a thread last looked or had sent. */
static _Atomic uint32_t sending;
static _Atomic uint64_t present_ns;

/* Finds of the progress thread since it slept or another source called it. */
static uint32_t stream;
static _Thread_local bool is_progress_thread __attribute__((tls_model("initial-exec")));

void listening_init(int watching_epoll)
{
	epoll = watching_epoll;
}

void listening_begin(void)
{
	is_progress_thread = true;
}

bool listening_is_on(void)
{
	return state == LISTENS;
}

bool listening_takes_alone(void)
{
	return atomic_load_explicit(&state, memory_order_relaxed) == TAKES_ALONE;
}

static void watch_ports(uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = port_table_epoll() };

	epoll_ctl(epoll, EPOLL_CTL_MOD, port_table_epoll(), &event);
}

static void stop(enum state next) REQUIRES(listen_lock)
{
	watch_ports(0);
	port_table_listen(false);
	state = next;
}

/* Begins LISTENS; may fail, and is then tried again. True: the state was LEFT_TO_POLLERS. */
static bool start(void)
{
	bool left;

	lock_acquire(&listen_lock);
	left = state == LEFT_TO_POLLERS;
	if (state != LISTENS) {
		watch_ports(LISTENING_EVENTS);
		state = port_table_listen(true) ? LISTENS : LEFT_TO_POLLERS;
	}
	lock_release(&listen_lock);
	return left;
}

void listening_on_look(uint64_t now, bool found)
{
	atomic_store_explicit(&present_ns, now, memory_order_relaxed);
	if (found)
		atomic_fetch_add_explicit(&finds, 1, memory_order_relaxed);
}

void listening_on_send_begin(void)
{
	if (!is_progress_thread)
		atomic_fetch_add_explicit(&sending, 1, memory_order_relaxed);
}

void listening_on_send_end(void)
{
	if (is_progress_thread)
		return;
	atomic_store_explicit(&present_ns, clock_now_ns(), memory_order_relaxed);
	atomic_fetch_sub_explicit(&sending, 1, memory_order_relaxed);
}

void listening_on_renewal(void)
{
	if (state != LISTENS || finds < finds_needed)
		return;
	lock_acquire(&listen_lock);
	if (state == LISTENS && poll_lease_until_ns() != 0)
		stop(LEFT_TO_POLLERS);
	lock_release(&listen_lock);
}

void listening_on_find(uint64_t now)
{
	uint32_t before = finds;
	uint64_t present = atomic_load_explicit(&present_ns, memory_order_relaxed);

	stream++;
	if (atomic_load_explicit(&sending, memory_order_relaxed) || now < present + PRESENT_NS)
		atomic_fetch_add_explicit(&finds, 1, memory_order_relaxed);
	else
		atomic_store_explicit(&finds, before > THREAD_FIND ? before - THREAD_FIND : 0,
				      memory_order_relaxed);
}

void listening_on_other_call(void)
{
	stream = 0;
}

static void take_alone(void)
{
	if (listening_takes_alone())
		return;
	lock_acquire(&listen_lock);
	if (state == LISTENS) /* else a poller has stopped it, whose lease has just ended */
		stop(TAKES_ALONE);
	lock_release(&listen_lock);
}

bool listening_on_keep_polling(void)
{
	if (stream >= STREAM_FINDS && port_table_count <= ALONE_PORTS && !poll_lease_is_held())
		take_alone();
	else if (listening_takes_alone())
		start();
	return listening_takes_alone();
}

void listening_on_quiet(void)
{
	stream = 0;
	if (listening_takes_alone())
		start();
}

bool listening_on_lease_end(void)
{
	return !listening_takes_alone() && start();
}

void listening_on_last_look(bool found)
{
	uint32_t needed = finds_needed;

	if (found && needed < FINDS_MAX)
		finds_needed = needed * 2;
	else if (!found && needed > FINDS_MIN)
		finds_needed = needed / 2;
	finds = 0;
}

void listening_reset_after_fork(void)
{
	lock_acquire_in_child(&listen_lock);
	state = LISTENS;
	epoll = -1;
	stream = 0;
	sending = 0;
	finds = 0;
	finds_needed = FINDS_MIN;
	lock_release(&listen_lock);
}
