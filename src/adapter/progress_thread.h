/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress thread - the thread that makes progress for a process whose program does not poll.
 *
 * In:  the sources of progress (adapter/sources.h).
 * Out: work done while no thread of the program polls, when a peer, the kernel or a timer wakes it.
 *      Other threads wake it through adapter/wakeup.h.
 *
 * One a process, made by the first ibv_open_device; it ends with the process. It blocks all
 * signals. See docs/design/progress.md: its round, and why no source starves.
 */
#ifndef ADAPTER_PROGRESS_THREAD_H
#define ADAPTER_PROGRESS_THREAD_H

#include "base/arena.h"
#include "ctl/client.h"

/* Starts the thread, after ports_init. 0 or -errno. `wake_fd` is the process's wake eventfd. */
int progress_thread_start(struct ctl_client *ctl, struct arena_header *header, int wake_fd);

void progress_thread_reset_after_fork(void);

#endif
