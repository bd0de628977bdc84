/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kept - requests that arrived behind a missing one, until that one has come (selective repeat).
 *
 * In:  request packets with PSNs after the expected one.
 * Out: the same packets, by PSN, once the responder expects them.
 *
 * Nothing is executed and no memory of the program is written before its turn: the responder
 * executes a kept packet as if it had just arrived. So checks, data, receives and completions keep
 * the order of the PSNs (docs/design/transport.md).
 *
 * The packets are copies, as they outlive the receive buffer. They are bounded for each QP and for
 * the process; what finds no room is dropped, and the requester sends it again. Callers hold the
 * QP's lock. A QP that never misses a packet has no memory here; that of packets which were kept at
 * one time is used again, for all QPs (base/block_pool.h).
 */
#ifndef ROCE_KEPT_H
#define ROCE_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/roce_qp.h"

#define KEPT_PROCESS_BYTES_MAX (64 * 1024 * 1024)

struct kept_packet {
	struct packet packet; /* its payload is `bytes` */
	uint8_t bytes[];
};

struct kept {
	uint32_t count, bytes;
	psn_t last;				/* the highest PSN since there were none */
	struct kept_packet *packets[KEPT_PSNS]; /* by PSN, modulo KEPT_PSNS */
};

static inline bool kept_any(const struct roce_qp *tq)
{
	return tq->kept && tq->kept->count;
}

/* Keeps a copy, unless that PSN is kept already or there is no room. */
void kept_add(struct roce_qp *tq, const struct packet *packet);

/* Takes the packet with this PSN, which the caller frees with kept_free; NULL: not kept. */
struct kept_packet *kept_take(struct roce_qp *tq, psn_t psn);
void kept_free(struct kept_packet *packet);

/* Drops those from `from` to before `to`. */
void kept_drop(struct roce_qp *tq, psn_t from, psn_t to);

/* Drops all. */
void kept_drop_all(struct roce_qp *tq);

/* Drops all, and frees the memory. */
void kept_fini(struct roce_qp *tq);

void kept_reset_after_fork(void);

/* base/check.h */
void kept_check(const struct roce_qp *tq);

#endif
