/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/terminate.h"

#include "iwarp/bytes.h"

/* The header control bits, in the third byte of the control word. */
#define HAS_LENGTH 0x80
#define HAS_DDP	   0x40
#define HAS_RDMAP  0x20

static const struct row {
	uint8_t layer, type, code, status;
	const char *sentence;
} rows[TERMINATES] = {
	[TERMINATE_NONE] = { 0xff, 0xff, 0xff, IBV_WC_REM_OP_ERR, "unknown" },
#define X(name, in_layer, of_type, value, means, text)                                             \
	[TERMINATE_##name] = { .layer = in_layer,                                                  \
			       .type = of_type,                                                    \
			       .code = value,                                                      \
			       .status = means,                                                    \
			       .sentence = text },
#include "iwarp/terminate.def"
#undef X
};

const char *terminate_sentence(enum terminate terminate)
{
	return rows[terminate].sentence;
}

enum ibv_wc_status terminate_status(enum terminate terminate)
{
	return (enum ibv_wc_status)rows[terminate].status;
}

/* Of RFC 5041 8.2: it has no code for a right that is missing. */
static enum terminate of_tagged(enum cause cause)
{
	switch (cause) {
	case CAUSE_RKEY_RANGE:
		return TERMINATE_DDP_BOUNDS;
	case CAUSE_RKEY_PD:
	case CAUSE_RKEY_QP:
		return TERMINATE_DDP_STREAM;
	default:
		return TERMINATE_DDP_STAG;
	}
}

static enum terminate of_request(enum cause cause)
{
	switch (cause) {
	case CAUSE_RKEY_UNKNOWN:
		return TERMINATE_RDMAP_STAG;
	case CAUSE_RKEY_RANGE:
		return TERMINATE_RDMAP_BOUNDS;
	case CAUSE_RKEY_PD:
	case CAUSE_RKEY_QP:
		return TERMINATE_RDMAP_STREAM;
	case CAUSE_RKEY_ACCESS:
	case CAUSE_QP_ACCESS:
		return TERMINATE_RDMAP_ACCESS;
	default:
		return TERMINATE_RDMAP_PROTECTION;
	}
}

enum terminate terminate_of_verdict(enum verdict verdict, enum cause cause, bool tagged)
{
	switch (verdict) {
	case VERDICT_NO_RECEIVE:
		return TERMINATE_DDP_NO_BUFFER;
	case VERDICT_TOO_LONG:
		return TERMINATE_DDP_TOO_LONG;
	case VERDICT_RECEIVE_FAULT:
		return TERMINATE_DDP_LOCAL;
	case VERDICT_ACCESS:
		return tagged ? of_tagged(cause) : of_request(cause);
	case VERDICT_INVALIDATE:
		return TERMINATE_RDMAP_INVALIDATE;
	default:
		return TERMINATE_RDMAP_OPERATION;
	}
}

size_t terminate_encode(uint8_t *to, enum terminate terminate, uint16_t length,
			const uint8_t *header, size_t header_bytes)
{
	const struct row *row = &rows[terminate];

	to[0] = (uint8_t)(row->layer << 4 | row->type);
	to[1] = row->code;
	to[2] = to[3] = 0;
	if (!header_bytes)
		return 4;
	to[2] = HAS_LENGTH | HAS_DDP;
	if (header_bytes > UNTAGGED_BYTES)
		to[2] |= HAS_RDMAP;
	put16(to + 4, length);
	memcpy(to + 6, header, header_bytes);
	return 6 + header_bytes;
}

static enum terminate find(const struct terminate_received *received)
{
	for (int i = TERMINATE_NONE + 1; i < TERMINATES; i++)
		if (rows[i].layer == received->layer && rows[i].type == received->type &&
		    rows[i].code == received->code)
			return (enum terminate)i;
	return TERMINATE_NONE;
}

bool terminate_decode(const uint8_t *from, size_t bytes, struct terminate_received *received)
{
	size_t at = 4;

	memset(received, 0, sizeof(*received));
	if (bytes < at)
		return false;
	received->layer = from[0] >> 4;
	received->type = from[0] & 0xf;
	received->code = from[1];
	received->terminate = find(received);
	if (from[2] & HAS_LENGTH)
		at += 2;
	if (!(from[2] & HAS_DDP) || bytes < at + SEGMENT_CONTROL_BYTES ||
	    bytes < at + segment_header_bytes(from[at]))
		return true;
	segment_decode(from + at, &received->segment);
	received->has_segment = true;
	return true;
}
