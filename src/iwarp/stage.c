/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/stage.h"

#include <stdlib.h>
#include <string.h>

#include "iwarp/bytes.h"
#include "iwarp/crc32c.h"
#include "iwarp/marker.h"

#define ROOM_MIN 4096

uint8_t *stage_reserve(struct stage *stage, size_t bytes)
{
	size_t used = stage_bytes(stage), room;
	uint8_t *more;

	if (stage->head) {
		memmove(stage->bytes, stage->bytes + stage->head, used);
		stage->head = 0;
		stage->tail = used;
	}
	if (used + bytes > stage->room) {
		for (room = ROOM_MIN; room < used + bytes;)
			room *= 2;
		more = realloc(stage->bytes, room);
		if (!more)
			return NULL;
		stage->bytes = more;
		stage->room = room;
	}
	return stage->bytes + stage->tail;
}

/*
 * With markers the FPDU is built behind the room of the result: markers are inserted on the way to
 * its place.
 */
static size_t ahead(const struct iwarp_qp *iq, uint32_t ulpdu)
{
	return iq->options.mpa.sends_markers ? MARKERS_MAX(fpdu_bytes(ulpdu)) * MARKER_BYTES : 0;
}

uint8_t *stage_open(struct iwarp_qp *iq, uint32_t ulpdu)
{
	size_t gap = ahead(iq, ulpdu);
	uint8_t *place = stage_reserve(&iq->stage, gap + fpdu_bytes(ulpdu));

	if (!place)
		return NULL;
	place += gap;
	put16(place, (uint16_t)ulpdu);
	memset(place + FPDU_LENGTH_BYTES + ulpdu, 0, fpdu_pad(ulpdu) + FPDU_CRC_BYTES);
	return place;
}

void stage_close(struct iwarp_qp *iq, uint8_t *fpdu, uint32_t ulpdu)
{
	uint8_t *to = iq->stage.bytes + iq->stage.tail;
	size_t bytes = fpdu_bytes(ulpdu);

	if (iq->options.mpa.sends_markers)
		bytes = marker_insert(to, fpdu, bytes, iq->sending.position);
	if (iq->options.mpa.crc)
		crc32c_put(to + bytes - FPDU_CRC_BYTES, crc32c(to, bytes - FPDU_CRC_BYTES));
	iq->stage.tail += bytes;
	iq->sending.position += bytes;
}

bool stage_send(struct iwarp_qp *iq)
{
	struct stage *stage = &iq->stage;

	while (stage->head != stage->tail && !iq->sending.blocked && !iq->sending.broken &&
	       !iq->lost) {
		struct iovec piece = { stage->bytes + stage->head, stage_bytes(stage) };
		ssize_t n = iwarp_env.send(iq->stream, &piece, 1, false);

		if (n < 0)
			iq->sending.broken = true;
		else if ((size_t)n < stage_bytes(stage))
			iq->sending.blocked = true;
		if (n > 0)
			stage->head += (size_t)n;
	}
	if (stage->head == stage->tail)
		stage->head = stage->tail = 0;
	return stage->head == stage->tail;
}

void stage_fini(struct stage *stage)
{
	free(stage->bytes);
	memset(stage, 0, sizeof(*stage));
}
