/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wait - wakes threads that sleep for an rsocket, besides the descriptors they sleep on.
 *
 * A sleeping thread polls the descriptors of the rsocket's completion channel and CM channel. But
 * another thread may take the event, and with it completions that both wait for. So each sleeper is
 * also in the rsocket's list of waiters, with an eventfd of its thread. The thread that takes an event
 * or finds completions kicks all waiters in the list.
 *
 * The rsocket's lock guards the list. Barrier WAIT is that lock: a sleeper enters the list under it,
 * after it has seen that there is nothing for it. A thread that changes that later, under the lock,
 * finds the sleeper in the list. An eventfd that was kicked stays readable until its thread reads it.
 */
#ifndef RSOCKET_WAIT_H
#define RSOCKET_WAIT_H

#include <stdint.h>

#include "base/list.h"

struct waiter {
	struct list link;
	int fd; /* of the thread that waits */
};

/* The calling thread's eventfd, made when it first sleeps and closed when it ends; or -errno. */
int wait_fd(void);

/* The calling thread's eventfd is no longer readable. */
void wait_clear(int fd);

/* The caller holds the lock that guards the list. */
void wait_join(struct list *waiters, struct waiter *waiter, int fd);
void wait_leave(struct waiter *waiter);
void wait_kick(struct list *waiters);

/* For the child of a fork: eventfds made before are the parent's. */
void wait_forget(void);

#endif
