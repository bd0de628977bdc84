/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/segment.h"

#include "iwarp/bytes.h"

#define TAGGED	      0x80
#define LAST	      0x40
#define DDP_VERSION   1
#define RDMAP_VERSION 1

unsigned segment_encode(const struct segment *segment, uint8_t *to)
{
	to[0] = (uint8_t)((segment->tagged ? TAGGED : 0) | (segment->last ? LAST : 0) |
			  DDP_VERSION);
	to[1] = (uint8_t)(RDMAP_VERSION << 6 | segment->opcode);
	put32(to + 2, segment->stag);
	if (segment->tagged) {
		put64(to + 6, segment->to);
		return TAGGED_BYTES;
	}
	put32(to + 6, segment->queue);
	put32(to + 10, segment->msn);
	put32(to + 14, segment->mo);
	return UNTAGGED_BYTES;
}

void segment_decode(const uint8_t *from, struct segment *segment)
{
	*segment = (struct segment){
		.opcode = from[1] & 0xf,
		.ddp_version = from[0] & 3,
		.rdmap_version = from[1] >> 6,
		.tagged = from[0] & TAGGED,
		.last = from[0] & LAST,
		.stag = get32(from + 2),
	};
	if (segment->tagged) {
		segment->to = get64(from + 6);
		return;
	}
	segment->queue = get32(from + 6);
	segment->msn = get32(from + 10);
	segment->mo = get32(from + 14);
}

void read_request_encode(const struct read_request *request, uint8_t *to)
{
	put32(to, request->sink_stag);
	put64(to + 4, request->sink_to);
	put32(to + 12, request->size);
	put32(to + 16, request->source_stag);
	put64(to + 20, request->source_to);
}

void read_request_decode(const uint8_t *from, struct read_request *request)
{
	request->sink_stag = get32(from);
	request->sink_to = get64(from + 4);
	request->size = get32(from + 12);
	request->source_stag = get32(from + 16);
	request->source_to = get64(from + 20);
}

void atomic_request_encode(const struct atomic_request *request, uint8_t *to)
{
	put32(to, request->code);
	put32(to + 4, request->id);
	put32(to + 8, request->stag);
	put64(to + 12, request->to);
	put64(to + 20, request->operands.swap_add);
	put64(to + 28, request->swap_mask);
	put64(to + 36, request->operands.compare);
	put64(to + 44, request->compare_mask);
}

void atomic_request_decode(const uint8_t *from, struct atomic_request *request)
{
	request->code = from[3] & 0xf;
	request->id = get32(from + 4);
	request->stag = get32(from + 8);
	request->to = get64(from + 12);
	request->operands.swap_add = get64(from + 20);
	request->swap_mask = get64(from + 28);
	request->operands.compare = get64(from + 36);
	request->compare_mask = get64(from + 44);
}

void atomic_response_encode(uint32_t id, uint64_t value, uint8_t *to)
{
	put32(to, id);
	put64(to + 4, value);
}
