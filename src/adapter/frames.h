/*
 * Frames - the packet sockets of this process's RAW_PACKET QPs, for whoever makes progress.
 *
 * Each such QP has a socket (raw/raw.h). They are looked at with the UDP ports (adapter/ports.h), and
 * watched by the same epoll descriptor.
 *
 * Owner: any thread. A look locks the QPs one by one, and blocks for none longer than others hold it.
 */
#ifndef ADAPTER_FRAMES_H
#define ADAPTER_FRAMES_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "object/limits.h"
#include "object/qp.h"

#define FRAMES_QPS_MAX LIMIT_RAW_QP

void frames_init(void);

/* Gives a new RAW_PACKET QP its socket: 0, or an errno with a cause: EPERM, ENODEV, ENOMEM. */
int frames_open(struct qp *qp);

extern _Atomic uint32_t frames_count; /* high-water mark of the table */

static inline bool frames_any(void)
{
	return atomic_load_explicit(&frames_count, memory_order_acquire) != 0;
}

/* Takes what arrived, a bounded number of frames. Returns how many. No lock may be held. */
int frames_progress(void);

void frames_reset_after_fork(void);

#endif
