/* SPDX-License-Identifier: BSD-2-Clause */
#include "packet/packet.h"

#include <endian.h>
#include <string.h>

/* Bits of the BTH: of its second byte, of its fifth, and of its ninth. */
enum {
	SOLICITED = 0x80,
	MIGRATED = 0x40,
	PAD_SHIFT = 4,
	VERSION = 0x0f,
	FECN = 0x80,
	BECN = 0x40,
	ACK_REQ = 0x80,
	/* reserved in the IBA */
	REQUEST_ORIGINAL = 0x01,
	RESPONSE_ORIGINAL = 0x02,
	REQUEST_GAP_REPORT = 0x04,
	RESPONSE_GAP_REPORT = 0x08,
};

#define BTH_ACK_REQ 8 /* the byte with that bit; the PSN follows */
/* The FETH's last byte (annex A19). */
#define FLUSH_TYPES	  0x0f
#define FLUSH_LEVEL_SHIFT 4
#define FLUSH_LEVEL	  0x03

#define PKEY_NUMBER 0x7fff /* the other bit tells full from limited membership */

static uint32_t get24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t big;

	memcpy(&big, at, sizeof(big));
	return be32toh(big);
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t big;

	memcpy(&big, at, sizeof(big));
	return be64toh(big);
}

static uint8_t *put24(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 16);
	at[1] = (uint8_t)(value >> 8);
	at[2] = (uint8_t)value;
	return at + 3;
}

static uint8_t *put32(uint8_t *at, uint32_t value)
{
	uint32_t big = htobe32(value);

	memcpy(at, &big, sizeof(big));
	return at + sizeof(big);
}

static uint8_t *put64(uint8_t *at, uint64_t value)
{
	uint64_t big = htobe64(value);

	memcpy(at, &big, sizeof(big));
	return at + sizeof(big);
}

/* Others may answer with the reserved bits of a request, so each of these is two. */
static bool is_request(uint8_t opcode)
{
	return packet_opcode(opcode)->kind < OPERATIONS_OF_PEER;
}

static uint8_t original_bit(uint8_t opcode)
{
	return is_request(opcode) ? REQUEST_ORIGINAL : RESPONSE_ORIGINAL;
}

static uint8_t gap_report_bit(uint8_t opcode)
{
	return is_request(opcode) ? REQUEST_GAP_REPORT : RESPONSE_GAP_REPORT;
}

static void decode_bth(const uint8_t *at, struct packet *out)
{
	out->opcode = at[0];
	out->solicited = at[1] & SOLICITED;
	out->migrated = at[1] & MIGRATED;
	out->pad = (at[1] >> PAD_SHIFT) & 3;
	out->pkey = (uint16_t)(at[2] << 8 | at[3]);
	out->fecn = at[4] & FECN;
	out->becn = at[4] & BECN;
	out->dest_qpn = get24(at + 5);
	out->ack_req = at[8] & ACK_REQ;
	out->original = at[8] & original_bit(out->opcode);
	out->gap_report = at[8] & gap_report_bit(out->opcode);
	out->psn = psn_of(get24(at + 9));
}

/* The extended headers in the order of the wire (IBA figure 35); there is room for all of them. */
static const uint8_t *decode_extended(const uint8_t *at, unsigned headers, struct packet *out)
{
	if (headers & PACKET_HAS_DETH) {
		out->qkey = get32(at);
		out->src_qpn = get24(at + 5);
		at += 8;
	}
	if (headers & PACKET_HAS_XRCETH) {
		out->xrc_srqn = get24(at + 1);
		at += 4;
	}
	if (headers & PACKET_HAS_FETH) {
		out->flush_types = at[3] & FLUSH_TYPES;
		out->flush_level = at[3] >> FLUSH_LEVEL_SHIFT & FLUSH_LEVEL;
		at += 4;
	}
	if (headers & PACKET_HAS_RETH) {
		out->va = get64(at);
		out->rkey = get32(at + 8);
		out->length = get32(at + 12);
		at += 16;
	}
	if (headers & PACKET_HAS_ATOMIC_ETH) {
		out->va = get64(at);
		out->rkey = get32(at + 8);
		out->swap_add = get64(at + 12);
		out->compare = get64(at + 20);
		at += 28;
	}
	if (headers & PACKET_HAS_AETH) {
		out->syndrome = at[0];
		out->msn = get24(at + 1);
		at += 4;
	}
	if (headers & PACKET_HAS_ATOMIC_ACK_ETH) {
		out->atomic_result = get64(at);
		at += 8;
	}
	if (headers & PACKET_HAS_IMM) {
		memcpy(&out->imm, at, sizeof(out->imm));
		at += 4;
	}
	if (headers & PACKET_HAS_IETH) {
		out->invalidate_rkey = get32(at);
		at += 4;
	}
	return at;
}

bool packet_batch_ends_in_ack(const uint8_t *batch, size_t bytes, size_t segment)
{
	size_t last = bytes - bytes % segment;

	if (!last || last == bytes || packet_service(batch[last]) != PACKET_RC ||
	    packet_opcode(batch[last])->kind != PACKET_ACK)
		return false;
	for (size_t at = 0; at < last; at += segment)
		if (packet_service(batch[at]) != PACKET_RC ||
		    packet_opcode(batch[at])->kind >= OPERATIONS_OF_PEER)
			return false;
	return true;
}

enum packet_error packet_decode(const uint8_t *bytes, size_t length, struct packet *out)
{
	const struct packet_opcode *row;
	unsigned header_bytes;
	size_t rest;

	memset(out, 0, sizeof(*out));
	if (length < PACKET_BTH_BYTES)
		return PACKET_TOO_SHORT;
	decode_bth(bytes, out);
	if (bytes[1] & VERSION)
		return PACKET_BAD_VERSION;
	row = packet_opcode(out->opcode);
	if (!row->kind)
		return PACKET_BAD_OPCODE;
	/* This end is a full member, to which limited members may send (IBA 10.9.3). */
	if ((out->pkey & PKEY_NUMBER) != (PACKET_PKEY & PKEY_NUMBER))
		return PACKET_BAD_PKEY;

	header_bytes = packet_header_bytes(out->opcode);
	if (length < header_bytes)
		return PACKET_TOO_SHORT;
	out->payload = decode_extended(bytes + PACKET_BTH_BYTES, row->headers, out);
	rest = length - header_bytes;
	if (rest < out->pad)
		return PACKET_TOO_SHORT;
	if (rest > UINT32_MAX || rest % 4 != 0 || (rest > 0 && !row->payload))
		return PACKET_BAD_LENGTH;
	out->payload_bytes = (uint32_t)rest - out->pad;
	return PACKET_GOOD;
}

#ifdef __LP64__
_Static_assert(sizeof(struct packet) == 112, "packet_copy has all fields");
#endif

/*
 * Each field as it was stored. Else, right behind packet_decode, a load of 16 bytes would have to
 * wait until those stores have reached the cache, and the stores of earlier payloads before them.
 */
void packet_copy(struct packet *to, const volatile struct packet *from)
{
	to->opcode = from->opcode;
	to->pad = from->pad;
	to->solicited = from->solicited;
	to->migrated = from->migrated;
	to->fecn = from->fecn;
	to->becn = from->becn;
	to->ack_req = from->ack_req;
	to->original = from->original;
	to->gap_report = from->gap_report;
	to->pkey = from->pkey;
	to->dest_qpn = from->dest_qpn;
	to->psn.number = from->psn.number;
	to->va = from->va;
	to->rkey = from->rkey;
	to->length = from->length;
	to->swap_add = from->swap_add;
	to->compare = from->compare;
	to->atomic_result = from->atomic_result;
	to->syndrome = from->syndrome;
	to->msn = from->msn;
	to->imm = from->imm;
	to->invalidate_rkey = from->invalidate_rkey;
	to->qkey = from->qkey;
	to->src_qpn = from->src_qpn;
	to->xrc_srqn = from->xrc_srqn;
	to->flush_types = from->flush_types;
	to->flush_level = from->flush_level;
	to->payload = from->payload;
	to->payload_bytes = from->payload_bytes;
}

static uint8_t *encode_bth(const struct packet *packet, uint8_t *at)
{
	*at++ = packet->opcode;
	*at++ = (uint8_t)((packet->solicited ? SOLICITED : 0) | (packet->migrated ? MIGRATED : 0) |
			  (packet->pad & 3) << PAD_SHIFT);
	*at++ = (uint8_t)(packet->pkey >> 8);
	*at++ = (uint8_t)packet->pkey;
	*at++ = (uint8_t)((packet->fecn ? FECN : 0) | (packet->becn ? BECN : 0));
	at = put24(at, packet->dest_qpn);
	*at++ = (uint8_t)((packet->ack_req ? ACK_REQ : 0) |
			  (packet->original ? original_bit(packet->opcode) : 0) |
			  (packet->gap_report ? gap_report_bit(packet->opcode) : 0));
	return put24(at, packet->psn.number);
}

void packet_renumber(uint8_t *header, psn_t psn)
{
	header[BTH_ACK_REQ] = 0;
	put24(header + BTH_ACK_REQ + 1, psn.number);
}

unsigned packet_encode(const struct packet *packet, uint8_t header[PACKET_HEADER_BYTES])
{
	unsigned headers = packet_opcode(packet->opcode)->headers;
	uint8_t *at = encode_bth(packet, header);

	if (headers & PACKET_HAS_DETH) {
		at = put32(at, packet->qkey);
		at = put32(at, packet->src_qpn & PACKET_QPN_MASK);
	}
	if (headers & PACKET_HAS_XRCETH)
		at = put32(at, packet->xrc_srqn & PACKET_QPN_MASK);
	if (headers & PACKET_HAS_FETH)
		at = put32(at, (packet->flush_types & FLUSH_TYPES) |
				       (uint32_t)(packet->flush_level & FLUSH_LEVEL)
					       << FLUSH_LEVEL_SHIFT);
	if (headers & PACKET_HAS_RETH) {
		at = put64(at, packet->va);
		at = put32(at, packet->rkey);
		at = put32(at, packet->length);
	}
	if (headers & PACKET_HAS_ATOMIC_ETH) {
		at = put64(at, packet->va);
		at = put32(at, packet->rkey);
		at = put64(at, packet->swap_add);
		at = put64(at, packet->compare);
	}
	if (headers & PACKET_HAS_AETH) {
		*at++ = packet->syndrome;
		at = put24(at, packet->msn);
	}
	if (headers & PACKET_HAS_ATOMIC_ACK_ETH)
		at = put64(at, packet->atomic_result);
	if (headers & PACKET_HAS_IMM) {
		memcpy(at, &packet->imm, sizeof(packet->imm));
		at += sizeof(packet->imm);
	}
	if (headers & PACKET_HAS_IETH)
		at = put32(at, packet->invalidate_rkey);
	return (unsigned)(at - header);
}
