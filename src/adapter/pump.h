/*
 * Pump - the thread that makes progress for a process whose program does not poll; and the
 * agreement between it and the threads that do.
 *
 * The arena's duty word tells peers whether somebody will look at the rings by himself:
 *   DUTY_ASLEEP  nobody: whoever leaves something writes the wake eventfd
 *   DUTY_POLLED  the pump is awake, or a program's thread polls and holds the lease
 * A thread that polled in vain for a while takes the lease: it pushes the lease timer (timerfd, 1 ms)
 * ahead of itself, every half millisecond, and the pump sleeps on. When it stops polling the timer
 * fires, and the pump looks, and says ASLEEP.
 *
 * Barrier DUTY: the pump stores ASLEEP, executes a membarrier, and then looks at everything once more
 * before it sleeps. A peer stores its record, then loads duty, with no fence between. Either the
 * peer sees ASLEEP and writes the eventfd, or the pump's look sees the record.
 *
 * The same pair covers work that this process leaves itself (pump_kick) and acknowledgements.
 */
#ifndef ADAPTER_PUMP_H
#define ADAPTER_PUMP_H

#include <stdint.h>

#include "base/arena.h"
#include "ctl/client.h"

/* Starts the thread. 0 or -errno. `wake_fd` is the process's wake eventfd. */
int pump_start(struct ctl_client *ctl, struct arena_header *header, int wake_fd);

/* A thread has polled in vain a number of times in a row; it is `now`, CLOCK_MONOTONIC. */
void pump_on_polling(uint64_t now_ns);

/* The program arms a CQ: it will sleep, so the lease ends now. */
void pump_on_arm(void);

/* There is work that only a look will find. */
void pump_kick(void);

/* There is work that only the pump's own thread will do. */
void pump_wake(void);

/* A retry timer is due earlier than all others. */
void pump_deadline(uint64_t ns);

void pump_reset_after_fork(void);

#endif
