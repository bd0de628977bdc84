/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stage - bytes that leave ahead of all others: FPDUs that have a CRC or markers, and what the
 * stream did not take of a burst. So no FPDU is built twice.
 *
 * Callers hold the QP's lock. Never waits.
 */
#ifndef IWARP_STAGE_H
#define IWARP_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iwarp/iwarp_qp.h"

static inline size_t stage_bytes(const struct stage *stage)
{
	return stage->tail - stage->head;
}

/* All FPDUs of this stream are staged, for their CRCs or markers. */
static inline bool stage_has_all(const struct iwarp_qp *iq)
{
	return iq->options.mpa.crc || iq->options.mpa.sends_markers;
}

/* Room for `bytes` more at the end; the caller fills it, then adds to `tail`. NULL: no memory. */
uint8_t *stage_reserve(struct stage *stage, size_t bytes);

/*
 * The place for the FPDU with a ULPDU of so many bytes, which the caller stores there: all from the
 * ULPDU length to the pad. NULL: no memory. stage_close adds CRC and markers.
 */
uint8_t *stage_open(struct iwarp_qp *iq, uint32_t ulpdu);
void stage_close(struct iwarp_qp *iq, uint8_t *fpdu, uint32_t ulpdu);

/* Sends what is there. True: it is empty. */
bool stage_send(struct iwarp_qp *iq);

void stage_fini(struct stage *stage);

#endif
