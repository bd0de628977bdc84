/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Terminate - the codes of TERMINATE messages, and the messages themselves (RFC 5040 4.8).
 *
 * In:  an error found in a segment of the peer; a TERMINATE of the peer.
 * Out: the payload of a TERMINATE; the status of the request that it blames.
 *
 * terminate.def is the only table of codes. Pure.
 */
#ifndef IWARP_TERMINATE_H
#define IWARP_TERMINATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cause.h"
#include "execute/verdict.h"
#include "iwarp/segment.h"

enum terminate {
	TERMINATE_NONE,
#define X(name, layer, type, code, status, sentence) TERMINATE_##name,
#include "iwarp/terminate.def"
#undef X
	TERMINATES,
};

/* Control word, length of the segment, its DDP header and that of a READ request. */
#define TERMINATE_BYTES_MAX (4 + 2 + SEGMENT_HEADER_MAX + READ_REQUEST_BYTES)

/* Static text. */
const char *terminate_sentence(enum terminate terminate);
enum ibv_wc_status terminate_status(enum terminate terminate);

/* What a verdict on a SEND, WRITE (`tagged`), READ or atomic means to the peer. */
enum terminate terminate_of_verdict(enum verdict verdict, enum cause cause, bool tagged);

/*
 * Encodes the payload of a TERMINATE. `header` is the DDP header, and what follows it of a READ
 * request, of the segment that is refused, which has `length` bytes; header_bytes 0: none.
 * Returns the number of bytes.
 */
size_t terminate_encode(uint8_t *to, enum terminate terminate, uint16_t length,
			const uint8_t *header, size_t header_bytes);

/* A TERMINATE of the peer. */
struct terminate_received {
	enum terminate terminate; /* TERMINATE_NONE: the code is unknown */
	uint8_t layer, type, code;
	bool has_segment; /* `segment` was refused */
	struct segment segment;
};

/* False: it is too short. */
bool terminate_decode(const uint8_t *from, size_t bytes, struct terminate_received *received);

#endif
