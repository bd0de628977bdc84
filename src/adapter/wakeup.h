/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wakeup - how other threads of the process wake the progress thread, or spare it a wake-up.
 *
 * In:  threads that poll or arm a CQ; work that they leave to other threads.
 * Out: the process's wake eventfd written, or the poll lease renewed (adapter/poll_lease.h).
 *
 * Any thread. Never blocks; the locks that it takes are innermost.
 */
#ifndef ADAPTER_WAKEUP_H
#define ADAPTER_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>

/* `wake_fd`: the process's wake eventfd, which its peers write, too. */
void wakeup_init(int wake_fd);

/* The wake eventfd; -1: there is no progress thread. */
int wakeup_fd(void);

/* There is work that only the progress thread will do. */
void wakeup_send(void);

/* There is work that a look finds: of a thread that polls, or of the progress thread. */
void wakeup_kick(void);

/* A timer of the transport, or of retries on this host, is due earlier than all others. */
void wakeup_on_deadline(uint64_t ns);
void wakeup_on_retry_deadline(uint64_t ns);

/*
 * The calling thread polls; its last look began at `now`, CLOCK_MONOTONIC. True: it has renewed the
 * poll lease.
 */
bool wakeup_on_polling(uint64_t now_ns);

/* The calling thread arms a CQ: it will sleep, so its poll lease ends now. */
void wakeup_on_arm(void);

void wakeup_reset_after_fork(void);

#endif
