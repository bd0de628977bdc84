/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided - WRITE, READ and atomics executed by their requester, on the target's memory.
 *
 * In:  a WQE, the target's QP and key tables, its memory.
 * Out: the bytes moved; or ONESIDED_BY_MESSAGE if any check fails: then the requester sends a
 *      message, and the responder gives its verdict, as on a wire.
 *
 * Pages that the target has migrated are mapped here (memory/heap.h), and copied with plain loads
 * and stores; the kernel copies all others (shm/xcopy.h). Atomics are for mapped pages only.
 *
 * The caller holds the QP's lock. Publishes a hazard on each key (memory/hazard.h); moves at most
 * *budget bytes. See docs/design/one-sided.md.
 */
#ifndef SHM_ONESIDED_H
#define SHM_ONESIDED_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/shm_qp.h"

enum onesided {
	ONESIDED_DONE,
	ONESIDED_TURN_OVER, /* wqe->done tells how far; call again */
	ONESIDED_BY_MESSAGE,
	ONESIDED_LOCAL_ERROR, /* *cause says which */
};

enum onesided onesided_execute(struct shm_qp *lq, struct wqe *wqe, int64_t *budget,
			       enum cause *cause);

/*
 * A guess: the request can be executed on mapped pages, as soon as no earlier message is
 * unacknowledged. Counts towards migration what cannot.
 */
bool onesided_is_mapped(struct shm_qp *lq, const struct wqe *wqe);

#endif
