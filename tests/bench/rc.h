/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC - what programs that measure with verbs have in common: the device; of those that measure
 * WRITEs, an RC QP and its way to RTS.
 *
 * In:  the device's name, the other end. Out: verbs objects, or an errno with which the caller
 * ends.
 */
#ifndef TESTS_BENCH_RC_H
#define TESTS_BENCH_RC_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct rc_peer {
	union ibv_gid gid;
	uint32_t qpn;
};

/* NULL, and errno: there is none of this name, or it cannot be opened. */
struct ibv_context *rc_open_device(const char *name);

/* Both its queues complete to `cq`; it has room for `depth` requests of one SGE. NULL and errno. */
struct ibv_qp *rc_create_qp(struct ibv_pd *pd, struct ibv_cq *cq, unsigned depth);

/* From RESET to RTS, from our GID of this index; peers may WRITE. 0 or an errno. */
int rc_connect(struct ibv_qp *qp, uint8_t gid_index, const struct rc_peer *peer);

#endif
