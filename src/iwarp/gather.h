/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gather - a burst: FPDUs that leave by one `send`, headers and short payload in memory of the
 * burst, long payload in place, in the program's memory.
 *
 * In:  a segment and where its payload is.
 * Out: pieces for the stream. What the stream does not take is staged (stage.h).
 *
 * A burst has a hazard on one key at most, from the moment that a piece points to its memory until
 * gather_send returns. Payload of several keys ends the burst, or is copied. The kernel reads the
 * pieces, so memory that is missing is an error and no signal.
 *
 * On the stack of transmit_run; callers hold the QP's lock. Never waits.
 */
#ifndef IWARP_GATHER_H
#define IWARP_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/cause.h"
#include "iwarp/iwarp_qp.h"
#include "memory/hazard.h"

#define GATHER_OWN_BYTES 8192
#define GATHER_BYTES_MAX 131072 /* of a burst, or of what is staged before it is sent */
#define GATHER_COPY_MAX	 512	/* payload that is copied rather than pointed to */

struct gather {
	int count;
	size_t used;  /* of `own` */
	size_t bytes; /* of all pieces */
	struct arena_hazard *hazard;
	uint32_t key; /* of the hazard */
	struct iovec pieces[IWARP_SEND_PIECES];
	uint8_t own[GATHER_OWN_BYTES];
};

/* The payload of a segment. One of: `control`; `wqe`; `response`. */
struct payload {
	const uint8_t *control; /* the engine's own bytes */
	const struct wqe *wqe;
	const struct owed_response *response; /* `offset` bytes on */
	uint32_t offset, bytes;
};

enum gather_result {
	GATHER_ADDED,
	GATHER_FULL,   /* gather_send, then again */
	GATHER_BAD,    /* the payload's memory: *cause */
	GATHER_FAILED, /* no memory for a copy: the stream cannot go on */
};

static inline void gather_init(struct gather *gather)
{
	gather->count = 0;
	gather->used = gather->bytes = 0;
	gather->hazard = NULL;
}

/* The hazard of a burst that was not sent ends. */
static inline void gather_fini(struct gather *gather)
{
	if (gather->hazard)
		hazard_clear(gather->hazard);
	gather->hazard = NULL;
}

static inline bool gather_is_empty(const struct gather *gather)
{
	return !gather->count;
}

/* Adds the FPDU of a segment to the burst; or stages it, if it needs a copy. */
enum gather_result gather_add(struct iwarp_qp *iq, struct gather *gather,
			      const struct segment *segment, const struct payload *payload,
			      enum cause *cause);

/*
 * Sends the burst, which is empty then, and stages the rest. Sets sending.broken and
 * sending.blocked. `more`: the next burst follows at once.
 */
void gather_send(struct iwarp_qp *iq, struct gather *gather, bool more);

#endif
