/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/iwcm_thread.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "cm/session.h"
#include "cm/thread.h"

#define EVENTS_AT_ONCE 32
#define RETRY_MS       50 /* verbatimd has no room for a ticket */
#define NS_PER_MS      1000000u

struct iwcm_common iwcm = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.handed = PTHREAD_COND_INITIALIZER,
	.all = { &iwcm.all, &iwcm.all },
	.tickets = { &iwcm.tickets, &iwcm.tickets },
	.freed = { &iwcm.freed, &iwcm.freed },
	.epoll = -1,
	.wake = -1,
	.over_lock = PTHREAD_MUTEX_INITIALIZER,
	.over = { &iwcm.over, &iwcm.over },
};

/* An event that waits for its ticket to be fetched. */
struct kept {
	struct list link;
	struct iwcm_event event;
};

/*
 * ------------------------------------------------------------------------------------------
 * Ends.
 */

struct iwcm *iwcm_create(void)
{
	struct iwcm *iw = calloc(1, sizeof(*iw));

	if (!iw)
		return NULL;
	iw->users = 1;
	iw->fd = -1;
	list_init(&iw->link);
	list_init(&iw->over);
	list_init(&iw->events);
	return iw;
}

int iwcm_watch(struct iwcm *iw, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = iw };
	int how = iw->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (events == iw->watched)
		return 0;
	if (!events)
		how = EPOLL_CTL_DEL;
	if (epoll_ctl(iwcm.epoll, how, iw->fd, &event) < 0)
		return -errno;
	iw->watched = events;
	return 0;
}

void iwcm_take(struct iwcm *iw, int fd)
{
	iw->fd = fd;
	tcp_identify(fd, &iw->socket);
	list_add_tail(&iwcm.all, &iw->link);
}

void iwcm_close(struct iwcm *iw)
{
	if (iw->fd >= 0) {
		iwcm_watch(iw, 0);
		close(iw->fd);
	}
	tls_end(iw->tls);
	iw->tls = NULL;
	iw->fd = -1;
	iw->due_ns = 0;
	iw->state = IWCM_CLOSED;
	list_del(&iw->link);
}

static void drop_events(struct iwcm *iw)
{
	while (!list_empty(&iw->events)) {
		struct kept *kept = list_entry(iw->events.next, struct kept, link);

		list_del(&kept->link);
		if (kept->event.asked) {
			iwcm_close(kept->event.asked);
			iwcm_put(kept->event.asked);
		}
		free(kept);
	}
}

void iwcm_put(struct iwcm *iw)
{
	if (--iw->users)
		return;
	drop_events(iw);
	if (iwcm.epoll < 0) {
		free(iw); /* there is no thread */
		return;
	}
	list_add_tail(&iwcm.freed, &iw->link);
	iwcm_thread_wake();
}

/*
 * ------------------------------------------------------------------------------------------
 * Events.
 */

void iwcm_post(struct iwcm *iw, const struct iwcm_event *event)
{
	struct kept *kept = iw->number ? malloc(sizeof(*kept)) : NULL;
	struct iwcm_ticket *ticket = kept ? malloc(sizeof(*ticket)) : NULL;

	if (!ticket) {
		/* without an identifier, or memory */
		free(kept);
		if (event->asked) {
			iw->waiting--;
			iwcm_resume(iw);
			iwcm_close(event->asked);
			iwcm_put(event->asked);
		}
		return;
	}
	kept->event = *event;
	list_add_tail(&iw->events, &kept->link);
	ticket->number = iw->number;
	list_add_tail(&iwcm.tickets, &ticket->link);
	iwcm_thread_wake();
}

bool iwcm_next_event(struct id *id, struct iwcm_event *out)
{
	struct kept *kept = NULL;
	struct iwcm *iw;

	pthread_mutex_lock(&iwcm.lock);
	iw = id->iwcm;
	if (iw && !list_empty(&iw->events)) {
		kept = list_entry(iw->events.next, struct kept, link);
		list_del(&kept->link);
		*out = kept->event;
		if (out->asked) {
			out->asked->listener = NULL;
			iw->waiting--;
			iwcm_resume(iw);
		}
	}
	pthread_mutex_unlock(&iwcm.lock);
	free(kept);
	return kept != NULL;
}

/* False: verbatimd has no room; the ticket waits. */
static bool raise_first(void)
{
	struct iwcm_ticket *ticket = list_entry(iwcm.tickets.next, struct iwcm_ticket, link);
	struct ctl_cm_raise ask = {
		.header = { .type = CTL_CM_RAISE },
		.id = ticket->number,
		.kind = CTL_CM_IWARP,
	};
	struct ctl_cm_reply reply;
	int rc;

	/* Only this thread takes tickets, and they are raised in their order. */
	pthread_mutex_unlock(&iwcm.lock);
	rc = session_ask(&ask.header, sizeof(ask), &reply);
	pthread_mutex_lock(&iwcm.lock);
	/* verbatimd is away, or has no room: later. A ticket that is raised twice finds no event */
	if (rc && rc != -ENOENT && rc != -EINVAL && rc != -ENODEV && rc != -EBADF)
		return false;
	list_del(&ticket->link);
	free(ticket);
	return true;
}

/*
 * ------------------------------------------------------------------------------------------
 * The thread.
 */

void iwcm_thread_wake(void)
{
	uint64_t one = 1;

	if (iwcm.wake >= 0 && write(iwcm.wake, &one, sizeof(one)) < 0)
		return; /* it is awake */
}

/* One whose time has come; sets *next to the first of the others. NULL: there is none. */
static struct iwcm *find_due(uint64_t now, uint64_t *next)
{
	struct list *pos;

	*next = UINT64_MAX;
	list_for_each(pos, &iwcm.all) {
		struct iwcm *iw = list_entry(pos, struct iwcm, link);

		if (iw->due_ns && iw->due_ns <= now)
			return iw;
		if (iw->due_ns && iw->due_ns < *next)
			*next = iw->due_ns;
	}
	return NULL;
}

/* iwcm_on_due may release the lock, so each begins anew. */
static void serve_due(uint64_t now, uint64_t *next)
{
	struct iwcm *iw;

	while ((iw = find_due(now, next))) {
		iw->due_ns = 0;
		iwcm_on_due(iw);
	}
}

static struct iwcm *take_over(void)
{
	struct iwcm *iw = NULL;

	pthread_mutex_lock(&iwcm.over_lock);
	if (!list_empty(&iwcm.over)) {
		iw = list_entry(iwcm.over.next, struct iwcm, over);
		list_del(&iw->over);
	}
	pthread_mutex_unlock(&iwcm.over_lock);
	return iw;
}

/* The QP's hold keeps each of them. */
static void end_all(void)
{
	struct iwcm *iw;

	while ((iw = take_over()))
		iwcm_on_end(iw);
}

static void free_all(void)
{
	while (!list_empty(&iwcm.freed)) {
		struct iwcm *iw = list_entry(iwcm.freed.next, struct iwcm, link);

		list_del(&iw->link);
		free(iw);
	}
}

static int timeout_ms(uint64_t now, uint64_t next, bool is_full)
{
	uint64_t ms = next == UINT64_MAX ? UINT64_MAX
		      : next <= now	 ? 0
					 : (next - now) / NS_PER_MS + 1;

	if (is_full && ms > RETRY_MS)
		return RETRY_MS;
	return ms == UINT64_MAX ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* A handshake takes a while, with the lock, and strangers may begin many. */
static void let_others_in(void)
{
	pthread_mutex_unlock(&iwcm.lock);
	sched_yield();
	pthread_mutex_lock(&iwcm.lock);
}

static void serve(const struct epoll_event *events, int count)
{
	for (int i = 0; i < count; i++) {
		struct iwcm *iw = events[i].data.ptr;
		uint64_t drained;

		if (!iw) {
			if (read(iwcm.wake, &drained, sizeof(drained)) < 0)
				continue;
		} else if (iw->fd >= 0 && iw->watched) {
			iwcm_on_socket(iw, events[i].events);
		}
		if (tls_is_on())
			let_others_in();
	}
}

static void *run(void *unused)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	uint64_t next;

	pthread_mutex_lock(&iwcm.lock);
	for (;;) {
		bool is_full = false;
		int n;

		end_all();
		serve_due(clock_now_ns(), &next);
		while (!is_full && !list_empty(&iwcm.tickets))
			is_full = !raise_first();
		free_all();
		pthread_mutex_unlock(&iwcm.lock);
		n = epoll_wait(iwcm.epoll, events, EVENTS_AT_ONCE,
			       timeout_ms(clock_now_ns(), next, is_full));
		pthread_mutex_lock(&iwcm.lock);
		serve(events, n);
	}
	return NULL;
}

static int make_descriptors(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
	int rc;

	iwcm.epoll = epoll_create1(EPOLL_CLOEXEC);
	iwcm.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (iwcm.epoll >= 0 && iwcm.wake >= 0 &&
	    !epoll_ctl(iwcm.epoll, EPOLL_CTL_ADD, iwcm.wake, &event))
		return 0;
	rc = -errno;
	if (iwcm.epoll >= 0)
		close(iwcm.epoll);
	if (iwcm.wake >= 0)
		close(iwcm.wake);
	iwcm.epoll = iwcm.wake = -1;
	return rc;
}

int iwcm_thread_start(void)
{
	int rc;

	if (iwcm.epoll >= 0)
		return 0;
	rc = make_descriptors();
	if (rc)
		return rc;
	rc = thread_start(run, "verbatim-iwcm");
	if (rc) {
		close(iwcm.epoll);
		close(iwcm.wake);
		iwcm.epoll = iwcm.wake = -1;
	}
	return rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * Fork. The child has no thread, and its copies of sockets are closed: the connection has to end
 * with the parent. In IWCM_HANDING the parent's QP may have closed the socket already. What the
 * parent's thread and QP hold of an end is never given back: the child leaks the end.
 */

void iwcm_before_fork(void)
{
	pthread_mutex_lock(&iwcm.lock);
}

void iwcm_after_fork(void)
{
	pthread_mutex_unlock(&iwcm.lock);
}

void iwcm_after_fork_in_child(void)
{
	struct list *pos, *after;

	tls_after_fork_in_child();
	list_for_each_safe(pos, after, &iwcm.all) {
		struct iwcm *iw = list_entry(pos, struct iwcm, link);

		tcp_close_copy(iw->fd, &iw->socket);
		iw->fd = -1;
		iw->watched = 0;
		iw->state = IWCM_CLOSED;
		list_init(&iw->link);
	}
	if (iwcm.epoll >= 0) {
		close(iwcm.epoll);
		close(iwcm.wake);
	}
	iwcm.epoll = iwcm.wake = -1;
	list_init(&iwcm.all);
	list_init(&iwcm.tickets);
	list_init(&iwcm.freed);
	list_init(&iwcm.over);
	pthread_mutex_init(&iwcm.over_lock, NULL);
	pthread_cond_init(&iwcm.handed, NULL);
	pthread_mutex_unlock(&iwcm.lock);
}
