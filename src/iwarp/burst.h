/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Burst - FPDUs that leave by one `send`: headers and short payload in memory of the burst, long
 * payload in place, in the program's memory.
 *
 * In:  a segment and where its payload is.
 * Out: pieces for the stream. What the stream does not take is staged (stage.h).
 *
 * A burst has a hazard on one key at most, from the moment that a piece points to its memory until
 * burst_send returns. Payload of several keys ends the burst, or is copied. The kernel reads the
 * pieces, so memory that is missing is an error and no signal.
 *
 * On the stack of transmit_run; callers hold the QP's lock. Never waits.
 */
#ifndef IWARP_BURST_H
#define IWARP_BURST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/cause.h"
#include "iwarp/iwarp_qp.h"

#define BURST_OWN_BYTES 8192
#define BURST_BYTES_MAX 131072 /* of a burst, or of what is staged before it is sent */
#define BURST_COPY_MAX	512    /* payload that is copied rather than pointed to */

struct burst {
	int count;
	size_t used;  /* of `own` */
	size_t bytes; /* of all pieces */
	struct arena_hazard *hazard;
	uint32_t key; /* of the hazard */
	struct iovec pieces[IWARP_SEND_PIECES];
	uint8_t own[BURST_OWN_BYTES];
};

/* The payload of a segment. One of: `control`; `wqe`; `response`. */
struct payload {
	const uint8_t *control; /* the engine's own bytes */
	const struct wqe *wqe;
	const struct owed_response *response; /* `offset` bytes on */
	uint32_t offset, bytes;
};

enum burst_result {
	BURST_ADDED,
	BURST_FULL,   /* burst_send, then again */
	BURST_BAD,    /* the payload's memory: *cause */
	BURST_FAILED, /* no memory for a copy: the stream cannot go on */
};

static inline void burst_init(struct burst *burst)
{
	burst->count = 0;
	burst->used = burst->bytes = 0;
	burst->hazard = NULL;
}

static inline bool burst_is_empty(const struct burst *burst)
{
	return !burst->count;
}

/* Adds the FPDU of a segment to the burst; or stages it, if it needs a copy. */
enum burst_result burst_add(struct iwarp_qp *iq, struct burst *burst, const struct segment *segment,
			    const struct payload *payload, enum cause *cause);

/* Sends the burst, which is empty then, and stages the rest. Sets iq->lost, sending.blocked. */
void burst_send(struct iwarp_qp *iq, struct burst *burst);

#endif
