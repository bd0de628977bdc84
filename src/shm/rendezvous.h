/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rendezvous - the payload of long messages (all SENDs, and WRITE with immediate data), which the
 * responder copies straight from the requester's migrated memory.
 *
 * In:  at the requester, a WQE whose SGEs lie in migrated regions; at the responder, a record with
 *      RECORD_BY_KEY.
 * Out: the source that such a record names (struct record_source); the payload, for as long as the
 *      responder copies it.
 *
 * Without it a payload is copied twice: into the ring, and out of it. The requester still owns the
 * memory of a message that is not acknowledged, so it is as posted until then. The responder checks
 * that once more behind its copy (payload_is_whole). It refuses a source that it cannot reach
 * (VERDICT_SOURCE_LOST), and the requester sends the message again through the ring.
 *
 * Callers hold the QP's lock. Publishes a hazard on the source's key (memory/hazard.h), like a
 * READ. See docs/design/one-sided.md.
 */
#ifndef SHM_RENDEZVOUS_H
#define SHM_RENDEZVOUS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/shm_qp.h"

/* Shorter messages go through the ring: both processors copy them at a time. */
#define RENDEZVOUS_MIN (32 * 1024)
/* Of one record at most: a turn of the responder. */
#define RENDEZVOUS_PIECE (256 * 1024)
/*
 * After a refusal so many long messages of the QP go through the ring, the refused one included.
 * Each further refusal doubles that, up to the maximum, until a message that was offered has been
 * acknowledged.
 */
#define RENDEZVOUS_PAUSE     64
#define RENDEZVOUS_PAUSE_MAX 4096

/* Payload of a record that names a piece of so many bytes: the source, and room (record.h). */
static inline uint32_t rendezvous_room(uint32_t bytes)
{
	return bytes / 16 > sizeof(struct record_source) ? bytes / 16
							 : sizeof(struct record_source);
}

static_assert(RENDEZVOUS_PIECE / 16 <= RECORD_PAYLOAD_MAX, "a piece's record");

/*
 * The next piece of the message, from wqe->done on. True: it is to be fetched from *source. False:
 * it goes through the ring, and *bytes is reduced to what lies before memory that could be fetched.
 */
bool rendezvous_offer(const struct shm_qp *lq, const struct wqe *wqe, struct record_source *source,
		      uint32_t *bytes);

/* The last piece of a message was sent; a message was acknowledged; one was refused (NAK_BY_RING).
 */
void rendezvous_on_sent(struct shm_qp *lq, const struct wqe *wqe);
void rendezvous_on_ack(struct shm_qp *lq, const struct wqe *wqe);
void rendezvous_on_refusal(struct shm_qp *lq);

/* A record's payload. */
struct payload {
	const void *at;
	uint32_t bytes;
	/* of a source in the requester's memory; hazard NULL: it is in the ring */
	struct arena_hazard *hazard;
	const struct arena_qp *requester;
	uint32_t generation; /* of the connection that the record is of */
};

/*
 * Finds the payload of a record of the QP's peer. False: the source cannot be reached, and there is
 * nothing to close.
 */
bool payload_open(const struct shm_qp *lq, struct link *link, const struct record_header *header,
		  const uint8_t *data, struct payload *payload);
/* What was copied since payload_open is the message: its requester has not given it up meanwhile.
 */
bool payload_is_whole(const struct payload *payload);
/* Before the message is acknowledged. Once more does nothing. */
void payload_close(struct payload *payload);

#endif
