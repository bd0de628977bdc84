/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/progress.h"

#include <errno.h>
#include <sched.h>

#include "adapter/hot_links.h"
#include "adapter/listening.h"
#include "adapter/peers.h"
#include "adapter/poll_lease.h"
#include "adapter/ports.h"
#include "adapter/timers.h"
#include "adapter/wakeup.h"
#include "base/clock.h"
#include "base/sleeper.h"
#include "memory/hazard.h"
#include "memory/hold.h"
#include "object/context.h"
#include "shm/nagle.h"
#include "shm/shm_qp.h"
#include "shm/progress.h"
#include "shm/retry.h"
#include "shm/timer.h"
#include "roce/roce.h"

bool progress_running;

/* One in so many polls reads the clock, if there is no other need for it. */
#define POLLS_PER_LOOK 32
/*
 * A poll that copies many bytes takes long, and so does the program's next step. So many bytes
 * count as one more poll, so that the lease does not end while the thread polls all the time.
 */
#define MOVED_PER_POLL 2048

/* A thread that has polled sockets in vain for so long gets the poll lease (poll_lease.h). */
#define LEASE_AFTER_NS 15000ull

/*
 * A thread that has polled in vain for so long yields its processor repeatedly. Where more programs
 * spin than there are processors, the peer's thread (or the kernel's thread with its packets) would
 * otherwise run only at the end of the time slice. The limits are times, because a poll that looks
 * at sockets takes a hundred times as long as one that does not.
 */
#define YIELD_AFTER_NS 100000ull
#define YIELD_EVERY_NS 10000ull

/* Polls of this thread since it read the clock, or armed a CQ. */
static _Thread_local uint32_t polls __attribute__((tls_model("initial-exec")));

/*
 * This thread owes acknowledgements for what it polled, to be sent after the program's next post.
 */
static _Thread_local bool owing __attribute__((tls_model("initial-exec")));

/* This thread's last look at the ports has sent acknowledgements. */
static _Thread_local bool has_sent __attribute__((tls_model("initial-exec")));

/* True if packets came. Looks at idle ports only now and then. */
static bool poll_wire(bool all, uint64_t now)
{
	/* before a time-out is declared, an answer is looked for at all ports */
	bool due = now >= roce_deadline_ns();
	int got = ports_progress(now, all || due ? PORTS_ALL : PORTS_BUSY_ONES);

	listening_on_look(now, got > 0);
	has_sent = got > 0 && !poll_lease_is_held();
	if (got > 0) {
		if (has_sent)
			roce_flush();
		else
			owing = roce_flush_urgent(now);
	}
	if (now >= roce_deadline_ns())
		roce_run(now);
	return got > 0;
}

/* Since when this thread has found nothing; 0: it just found something. */
static _Thread_local uint64_t in_vain_ns __attribute__((tls_model("initial-exec")));

static bool is_polling(uint64_t now)
{
	return poll_lease_is_held() || (in_vain_ns && now - in_vain_ns >= LEASE_AFTER_NS);
}

static bool is_time_to_yield(uint64_t now)
{
	if (!in_vain_ns || now - in_vain_ns < YIELD_AFTER_NS)
		return false;
	in_vain_ns = now - YIELD_AFTER_NS + YIELD_EVERY_NS;
	return true;
}

/*
 * In a system call of this poll others may have run for milliseconds: peers, whom packets wake,
 * too. A program that is told of an empty CQ may next take an event, such as the end of the
 * connection, that came after a message.
 */
static void look_again(bool wire)
{
	bool any = hot_links_progress();

	any |= wire && poll_wire(false, clock_now_ns());
	if (any)
		in_vain_ns = 0;
}

static bool send_what_is_owed(void)
{
	if (!owing && !roce_owes())
		return false;
	owing = false;
	roce_flush();
	return true;
}

bool adapter_on_empty(void)
{
	if (!send_what_is_owed() && !has_sent)
		return false;
	has_sent = false;
	look_again(ports_any());
	send_what_is_owed(); /* the program may not poll again soon */
	return true;
}

/*
 * A signal handler has left this thread's ibv_get_cq_event by longjmp, or runs in it. Peers may
 * count on the look that did not follow.
 */
static void leave_left_sleep(void)
{
	if (!sleeper_left())
		return;
	channel_look_left();
	progress_defers_notice = false;
	wakeup_send();
}

void adapter_progress(void)
{
	bool any, now_and_then, wire;
	uint64_t now = 0;

	if (!progress_running)
		return;
	leave_left_sleep();
	if (owing)
		send_what_is_owed();
	nagle_on_poll();
	any = hot_links_progress();
	wire = ports_any();
	polls += 1 + (uint32_t)(shm_moved / MOVED_PER_POLL);
	shm_moved = 0;
	now_and_then = polls >= POLLS_PER_LOOK;
	if (now_and_then)
		polls = 0;
	if (wire || now_and_then)
		now = clock_now_ns();
	any |= wire && poll_wire(now_and_then, now);
	if (any)
		in_vain_ns = 0;
	else if (!in_vain_ns)
		in_vain_ns = now;
	if (now_and_then)
		progress_send_notice();
	if (now_and_then && now >= shm_timer_deadline_ns())
		shm_retry_run(now);
	if ((now_and_then || (wire && is_polling(now))) && wakeup_on_polling(now))
		hot_links_on_renewal();
	if (now && is_time_to_yield(now)) {
		sched_yield();
		look_again(wire);
	}
	if (!qp_building)
		hold_point();
}

void adapter_catch_up(struct qp *qp)
{
	if (!progress_running)
		return;
	lock_acquire(&qp->lock);
	if (progress_catch_up_with(qp))
		return;
	if (qp->context->iwarp)
		streams_catch_up(qp);
	else if (ports_any() && (ports_catch_up(clock_now_ns()) || roce_owes()))
		roce_flush();
}

/*
 * A program that waits for events polls a few times after each. If these polls added up from event
 * to event, the thread would take the poll lease every few events, just before it sleeps, and what
 * comes then would wait for the lease's end. So the count starts again here.
 */
void adapter_on_arm(void)
{
	send_what_is_owed();
	nagle_on_poll();
	polls = 0;
	in_vain_ns = 0;
	if (!progress_running)
		return;
	leave_left_sleep();
	hot_links_before_sleep();
	wakeup_on_arm();
}

/*
 * Peers count on this thread for all that they left, at any link. What it does not get done it
 * leaves to the progress thread. If its program answers what came, the answer wakes the peer, too;
 * if it does not, then this thread before its next sleep, or the progress thread a moment later.
 */
static void on_woken(uint32_t role)
{
	bool more;

	sleeper_awake(role);
	progress_defers_notice = true;
	more = hot_links_progress_rounds() != 0;
	progress_defers_notice = false;
	if (progress_has_notice())
		timers_on_deferred_notice(clock_now_ns());
	if (more)
		wakeup_send();
	if (!qp_building)
		hold_point();
}

/* The progress thread does not look in this thread's place (poll_lease_is_left). */
static void look_if_alone(void)
{
	if (!poll_lease_is_left())
		return;
	hazard_barrier();
	hot_links_progress_last();
}

/* One sleep, after sleeper_prepare. False: the role is lost; see sleeper.h. */
static bool sleep_once(struct channel *channel, uint32_t role, uint32_t asleep, struct cq **cq,
		       int *rc)
{
	int error;

	progress_send_notice();
	*rc = sleeper_wait(asleep);
	error = errno;
	if (!sleeper_is(role)) {
		if (sleeper_lost())
			wakeup_send();
		errno = error;
		return false;
	}
	/* after EINTR too: a peer may have found WOKEN */
	channel_look_begin(channel);
	on_woken(role);
	*cq = channel_sleep_end(channel);
	errno = error;
	return true;
}

int adapter_sleep(struct channel *channel, struct cq **cq)
{
	uint32_t role;
	int rc = 0;

	*cq = NULL;
	if (!progress_running)
		return 0;
	leave_left_sleep();
	nagle_on_poll();
	hot_links_before_sleep(); /* of what was sent since the CQ was armed */
	role = sleeper_begin();
	if (!role)
		return 0;
	while (!*cq && rc == 0 && sleeper_is(role)) {
		uint32_t asleep = sleeper_prepare(role);

		look_if_alone();
		if (!channel_sleep_begin(channel))
			break;
		if (!sleep_once(channel, role, asleep, cq, &rc))
			return rc;
	}
	if (sleeper_end(role))
		wakeup_send();
	return *cq ? 0 : rc;
}
