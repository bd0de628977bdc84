/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress - what the program's own threads do for it when they poll: adapter_progress,
 * adapter_settle and adapter_on_arm of adapter.h.
 *
 * In:  threads that find their CQs empty, or arm them.
 * Out: looks at links, ports and timers; a lease (adapter/poll_lease.h) for a thread that polls on
 * and on.
 *
 * Any thread, without locks; what it counts is the thread's own.
 */
#ifndef ADAPTER_PROGRESS_H
#define ADAPTER_PROGRESS_H

#include <stdbool.h>

/* There is an adapter to make progress for. Written by adapter.c. */
extern bool progress_running;

#endif
