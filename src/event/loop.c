/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "ctl/deadline.h"

#define EVENTS_PER_TURN 64

int loop_init(struct loop *l)
{
	list_init(&l->timers);
	l->deferred = NULL;
	l->turn = 1;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return l->epoll_fd < 0 ? -errno : 0;
}

static int control(struct loop *l, int op, int fd, uint32_t events, struct loop_source *source)
{
	struct epoll_event e = { .events = events, .data.ptr = source };

	return epoll_ctl(l->epoll_fd, op, fd, &e) < 0 ? -errno : 0;
}

int loop_watch(struct loop *l, int fd, uint32_t events, struct loop_source *source)
{
	return control(l, EPOLL_CTL_ADD, fd, events, source);
}

void loop_change(struct loop *l, int fd, uint32_t events, struct loop_source *source)
{
	control(l, EPOLL_CTL_MOD, fd, events, source);
}

void loop_forget(struct loop *l, int fd)
{
	control(l, EPOLL_CTL_DEL, fd, 0, NULL);
}

void loop_timer_init(struct loop_timer *t, void (*on_expire)(struct loop_timer *))
{
	list_init(&t->in_loop);
	t->deadline_ns = 0;
	t->on_expire = on_expire;
}

void loop_timer_arm(struct loop *l, struct loop_timer *t, int64_t after_ms)
{
	list_del(&t->in_loop);
	t->deadline_ns = deadline_in_ms(after_ms);
	list_add_tail(&l->timers, &t->in_loop);
}

void loop_timer_disarm(struct loop_timer *t)
{
	list_del(&t->in_loop);
}

/* The armed timer that expires next, or NULL. */
static struct loop_timer *next_timer(struct loop *l)
{
	struct loop_timer *next = NULL;
	struct list *m;

	list_for_each(m, &l->timers) {
		struct loop_timer *t = container_of(m, struct loop_timer, in_loop);

		if (!next || t->deadline_ns < next->deadline_ns)
			next = t;
	}
	return next;
}

static void expire_timers(struct loop *l)
{
	int64_t now_ns = deadline_now_ns();

	for (;;) {
		struct loop_timer *t = next_timer(l);

		if (!t || t->deadline_ns > now_ns)
			return;
		loop_timer_disarm(t);
		t->on_expire(t);
	}
}

void loop_defer_free(struct loop *l, struct loop_deferred_free *deferred)
{
	deferred->next = l->deferred;
	l->deferred = deferred;
}

static void free_deferred(struct loop *l)
{
	while (l->deferred) {
		struct loop_deferred_free *next = l->deferred->next;

		free(l->deferred);
		l->deferred = next;
	}
}

void loop_fini(struct loop *l)
{
	free_deferred(l);
	close(l->epoll_fd);
}

void loop_turn(struct loop *l)
{
	struct epoll_event events[EVENTS_PER_TURN];
	struct loop_timer *next = next_timer(l);
	int timeout_ms = next ? deadline_left_ms(next->deadline_ns) : -1;
	int count = epoll_wait(l->epoll_fd, events, EVENTS_PER_TURN, timeout_ms);

	for (int i = 0; i < count; i++) {
		struct loop_source *source = events[i].data.ptr;

		source->on_ready(source, events[i].events);
	}
	expire_timers(l);
	free_deferred(l);
	l->turn++;
}
