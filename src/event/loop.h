/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loop - waits for descriptors and timers, and calls their owners.
 *
 * In:  descriptors with their sources, timers.
 * Out: calls of on_ready and on_expire, one after another.
 *
 * Owner: the daemon's one thread, which sleeps nowhere else. After loop_forget a source must live
 * on until the end of the turn: an event for it may already have been fetched (loop_defer_free).
 */
#ifndef EVENT_LOOP_H
#define EVENT_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* Embedded in the owner of a descriptor. */
struct loop_source {
	void (*on_ready)(struct loop_source *source, uint32_t events); /* EPOLLIN and so on */
};

/* Embedded in its owner. Expires once per arming. */
struct loop_timer {
	struct list in_loop; /* linked while armed */
	int64_t deadline_ns;
	void (*on_expire)(struct loop_timer *timer);
};

/* First in an object with a source. The object is freed when no event for it can be left. */
struct loop_deferred_free {
	struct loop_deferred_free *next;
};

struct loop {
	int epoll_fd;
	struct list timers; /* armed, in no order: there are few */
	struct loop_deferred_free *deferred;
	uint64_t turn; /* their number */
};

int loop_init(struct loop *l);

/* After the last turn: frees what is deferred. */
void loop_fini(struct loop *l);

/* events: 0 watches for EPOLLHUP and EPOLLERR alone. 0 or -errno. */
int loop_watch(struct loop *l, int fd, uint32_t events, struct loop_source *source);
void loop_change(struct loop *l, int fd, uint32_t events, struct loop_source *source);

/* To be called before fd is closed: a copy of it in another process would keep it watched. */
void loop_forget(struct loop *l, int fd);

void loop_timer_init(struct loop_timer *t, void (*on_expire)(struct loop_timer *));

/* Moves the deadline if it is armed already. */
void loop_timer_arm(struct loop *l, struct loop_timer *t, int64_t after_ms);
void loop_timer_disarm(struct loop_timer *t);

/* Calls free() at the end of the turn; the source may be called until then. */
void loop_defer_free(struct loop *l, struct loop_deferred_free *deferred);

/* Waits for the next event or deadline, and calls the owners of all that are due. */
void loop_turn(struct loop *l);

#endif
