/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw - the path of RAW_PACKET QPs: whole Ethernet frames through AF_PACKET sockets.
 *
 * In:  posted frames; flows; frames of the interface.
 * Out: frames on the interface; completions.
 *
 * A QP has a socket of its own from its creation to its end. A posted frame completes when the
 * kernel has it. A frame that arrives goes to each QP with a flow that takes it, and to the host;
 * QPs without flows receive nothing.
 *
 * Owner: any thread, under the QP's lock. Nothing blocks.
 */
#ifndef RAW_RAW_H
#define RAW_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "object/flow.h"
#include "object/qp.h"

/* Functions of the adapter. */
struct raw_env {
	/* Whether to watch the descriptor for room to send, too; then raw_progress is called. */
	void (*want_room)(int fd, bool wanted);
	/* The descriptor is about to be closed. */
	void (*forget)(int fd);
};

void raw_init(const struct raw_env *env);

extern const struct qp_path raw_path;

/*
 * Gives a new QP its socket on the interface: 0, or with a cause reported -EPERM (CAP_NET_RAW is
 * needed), -ENODEV, -ENOMEM.
 */
int raw_open(struct qp *qp, uint32_t ifindex);
int raw_fd(const struct qp *qp);

/* The QP receives what the flow takes: 0, or with a cause reported -errno of the kernel. */
int raw_add_flow(struct qp *qp, struct flow *flow);
void raw_remove_flow(struct qp *qp, struct flow *flow);

/*
 * Takes a bounded number of frames, and sends requests that had to wait. Returns how many frames
 * came. The caller holds the lock.
 */
int raw_progress(struct qp *qp) REQUIRES(qp->lock);

#endif
