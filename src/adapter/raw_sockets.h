/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw sockets - the packet sockets of this process's RAW_PACKET QPs, as a source of progress.
 *
 * In:  sockets that raw/raw.h opens, one for each such QP.
 * Out: their frames, taken by the threads that look at the UDP ports (adapter/ports.h). The epoll
 *      descriptor of the ports watches these sockets, too.
 *
 * Any thread. Takes the locks of the QPs one by one.
 */
#ifndef ADAPTER_RAW_SOCKETS_H
#define ADAPTER_RAW_SOCKETS_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "object/limits.h"
#include "object/qp.h"

#define RAW_SOCKETS_MAX LIMIT_RAW_QP

void raw_sockets_init(void);

/* Gives a new RAW_PACKET QP its socket: 0, or an errno with a cause: EPERM, ENODEV, ENOMEM. */
int raw_sockets_open(struct qp *qp);

extern _Atomic uint32_t raw_sockets_count; /* entries of the table that were ever in use */

static inline bool raw_sockets_any(void)
{
	return atomic_load_explicit(&raw_sockets_count, memory_order_acquire) != 0;
}

/* Takes a bounded number of frames. Returns how many. No lock may be held. */
int raw_sockets_progress(void);

void raw_sockets_reset_after_fork(void);

#endif
