/* SPDX-License-Identifier: BSD-2-Clause */
#include "ibcm/mad.h"

#include <string.h>

#define HEADER_BYTES   24
#define CLASS_CM       0x07
#define METHOD_SEND    0x03
#define PKEY	       0xffff
#define LID_PERMISSIVE 0xffff /* in LID fields, as RoCE has no LIDs (IBA annex A16) */
#define RATE_10_GBPS   3

/*
 * A field has the offset of the IBA's tables, in bytes behind the MAD header. A part of a byte also
 * has its lowest bit.
 */
static void put(uint8_t *at, unsigned bytes, uint64_t value)
{
	while (bytes--) {
		at[bytes] = (uint8_t)value;
		value >>= 8;
	}
}

static uint64_t get(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | *at++;
	return value;
}

static uint8_t bits(const uint8_t *at, unsigned lowest, unsigned count)
{
	return *at >> lowest & ((1u << count) - 1);
}

struct layout {
	uint8_t private_at; /* offset behind the header */
	uint8_t private_bytes;
	void (*encode)(const struct ibcm_message *m, uint8_t *b);
	void (*decode)(const uint8_t *b, struct ibcm_message *m);
};

static void encode_req(const struct ibcm_message *m, uint8_t *b)
{
	put(b, 4, m->local_id);
	put(b + 5, 3, m->ece_vendor);
	put(b + 8, 8, m->service_id);
	put(b + 16, 8, m->ca_guid);
	put(b + 28, 4, m->qkey);
	put(b + 32, 3, m->qpn);
	b[35] = m->responder_resources;
	b[39] = m->initiator_depth;
	b[43] = (uint8_t)(m->remote_timeout << 3 | m->transport << 1 | m->flow_control);
	put(b + 44, 3, m->psn);
	b[47] = (uint8_t)(m->local_timeout << 3 | m->retry_count);
	put(b + 48, 2, PKEY);
	b[50] = (uint8_t)(m->path_mtu << 4 | m->rnr_retry_count);
	b[51] = (uint8_t)(m->max_tries << 4 | m->has_srq << 3 | m->extended_transport);
	put(b + 52, 2, LID_PERMISSIVE);
	put(b + 54, 2, LID_PERMISSIVE);
	memcpy(b + 56, m->local_gid, IBCM_GID_BYTES);
	memcpy(b + 72, m->remote_gid, IBCM_GID_BYTES);
	put(b + 88, 4, (uint64_t)m->flow_label << 12 | RATE_10_GBPS);
	b[92] = m->traffic_class;
	b[93] = m->hop_limit;
	b[95] = (uint8_t)(m->ack_timeout << 3);
}

static void decode_req(const uint8_t *b, struct ibcm_message *m)
{
	m->local_id = (uint32_t)get(b, 4);
	m->ece_vendor = (uint32_t)get(b + 5, 3);
	m->service_id = get(b + 8, 8);
	m->ca_guid = get(b + 16, 8);
	m->qkey = (uint32_t)get(b + 28, 4);
	m->qpn = (uint32_t)get(b + 32, 3);
	m->responder_resources = b[35];
	m->initiator_depth = b[39];
	m->remote_timeout = bits(b + 43, 3, 5);
	m->transport = bits(b + 43, 1, 2);
	m->flow_control = bits(b + 43, 0, 1);
	m->psn = (uint32_t)get(b + 44, 3);
	m->local_timeout = bits(b + 47, 3, 5);
	m->retry_count = bits(b + 47, 0, 3);
	m->path_mtu = bits(b + 50, 4, 4);
	m->rnr_retry_count = bits(b + 50, 0, 3);
	m->max_tries = bits(b + 51, 4, 4);
	m->has_srq = bits(b + 51, 3, 1);
	m->extended_transport = bits(b + 51, 0, 3);
	memcpy(m->local_gid, b + 56, IBCM_GID_BYTES);
	memcpy(m->remote_gid, b + 72, IBCM_GID_BYTES);
	m->flow_label = (uint32_t)get(b + 88, 4) >> 12;
	m->traffic_class = b[92];
	m->hop_limit = b[93];
	m->ack_timeout = bits(b + 95, 3, 5);
}

static void encode_ids(const struct ibcm_message *m, uint8_t *b)
{
	put(b, 4, m->local_id);
	put(b + 4, 4, m->remote_id);
}

static void decode_ids(const uint8_t *b, struct ibcm_message *m)
{
	m->local_id = (uint32_t)get(b, 4);
	m->remote_id = (uint32_t)get(b + 4, 4);
}

static void encode_mra(const struct ibcm_message *m, uint8_t *b)
{
	encode_ids(m, b);
	b[8] = (uint8_t)(m->subject << 6);
	b[9] = (uint8_t)(m->service_timeout << 3);
}

static void decode_mra(const uint8_t *b, struct ibcm_message *m)
{
	decode_ids(b, m);
	m->subject = bits(b + 8, 6, 2);
	m->service_timeout = bits(b + 9, 3, 5);
}

static void encode_rej(const struct ibcm_message *m, uint8_t *b)
{
	encode_ids(m, b);
	b[8] = (uint8_t)(m->subject << 6);
	b[9] = (uint8_t)(m->info_bytes << 1);
	put(b + 10, 2, m->reason);
	memcpy(b + 12, m->info, IBCM_INFO_BYTES);
}

static void decode_rej(const uint8_t *b, struct ibcm_message *m)
{
	decode_ids(b, m);
	m->subject = bits(b + 8, 6, 2);
	m->info_bytes = bits(b + 9, 1, 7);
	if (m->info_bytes > IBCM_INFO_BYTES)
		m->info_bytes = IBCM_INFO_BYTES;
	m->reason = (uint16_t)get(b + 10, 2);
	memcpy(m->info, b + 12, IBCM_INFO_BYTES);
}

static void encode_rep(const struct ibcm_message *m, uint8_t *b)
{
	encode_ids(m, b);
	put(b + 8, 4, m->qkey);
	put(b + 12, 3, m->qpn);
	put(b + 16, 3, m->eecn);
	put(b + 20, 3, m->psn);
	b[24] = m->responder_resources;
	b[25] = m->initiator_depth;
	b[26] = (uint8_t)(m->ack_timeout << 3 | m->flow_control);
	b[27] = (uint8_t)(m->rnr_retry_count << 5 | m->has_srq << 4);
	put(b + 28, 8, m->ca_guid);
}

static void decode_rep(const uint8_t *b, struct ibcm_message *m)
{
	decode_ids(b, m);
	m->qkey = (uint32_t)get(b + 8, 4);
	m->qpn = (uint32_t)get(b + 12, 3);
	m->eecn = (uint32_t)get(b + 16, 3);
	m->psn = (uint32_t)get(b + 20, 3);
	m->responder_resources = b[24];
	m->initiator_depth = b[25];
	m->ack_timeout = bits(b + 26, 3, 5);
	m->flow_control = bits(b + 26, 0, 1);
	m->rnr_retry_count = bits(b + 27, 5, 3);
	m->has_srq = bits(b + 27, 4, 1);
	m->ca_guid = get(b + 28, 8);
}

static void encode_dreq(const struct ibcm_message *m, uint8_t *b)
{
	encode_ids(m, b);
	put(b + 8, 3, m->qpn);
}

static void decode_dreq(const uint8_t *b, struct ibcm_message *m)
{
	decode_ids(b, m);
	m->qpn = (uint32_t)get(b + 8, 3);
}

static void encode_sidr_req(const struct ibcm_message *m, uint8_t *b)
{
	put(b, 4, m->local_id);
	put(b + 4, 2, PKEY);
	put(b + 8, 8, m->service_id);
}

static void decode_sidr_req(const uint8_t *b, struct ibcm_message *m)
{
	m->local_id = (uint32_t)get(b, 4);
	m->service_id = get(b + 8, 8);
}

static void encode_sidr_rep(const struct ibcm_message *m, uint8_t *b)
{
	put(b, 4, m->remote_id);
	b[4] = (uint8_t)m->reason;
	b[5] = m->info_bytes;
	put(b + 8, 3, m->qpn);
	put(b + 12, 8, m->service_id);
	put(b + 20, 4, m->qkey);
	memcpy(b + 24, m->info, IBCM_INFO_BYTES);
}

static void decode_sidr_rep(const uint8_t *b, struct ibcm_message *m)
{
	m->remote_id = (uint32_t)get(b, 4);
	m->reason = b[4];
	m->info_bytes = b[5] < IBCM_INFO_BYTES ? b[5] : IBCM_INFO_BYTES;
	m->qpn = (uint32_t)get(b + 8, 3);
	m->service_id = get(b + 12, 8);
	m->qkey = (uint32_t)get(b + 20, 4);
	memcpy(m->info, b + 24, IBCM_INFO_BYTES);
}

static void encode_apr(const struct ibcm_message *m, uint8_t *b)
{
	encode_ids(m, b);
	b[8] = m->info_bytes;
	b[9] = (uint8_t)m->reason;
	memcpy(b + 12, m->info, IBCM_INFO_BYTES);
}

static void decode_apr(const uint8_t *b, struct ibcm_message *m)
{
	decode_ids(b, m);
	m->info_bytes = b[8] < IBCM_INFO_BYTES ? b[8] : IBCM_INFO_BYTES;
	m->reason = b[9];
	memcpy(m->info, b + 12, IBCM_INFO_BYTES);
}

static const struct layout layouts[] = {
	[IBCM_REQ] = { 140, 92, encode_req, decode_req },
	[IBCM_MRA] = { 10, 222, encode_mra, decode_mra },
	[IBCM_REJ] = { 84, 148, encode_rej, decode_rej },
	[IBCM_REP] = { 36, 196, encode_rep, decode_rep },
	[IBCM_RTU] = { 8, 224, encode_ids, decode_ids },
	[IBCM_DREQ] = { 12, 220, encode_dreq, decode_dreq },
	[IBCM_DREP] = { 8, 224, encode_ids, decode_ids },
	[IBCM_SIDR_REQ] = { 16, 216, encode_sidr_req, decode_sidr_req },
	[IBCM_SIDR_REP] = { 96, 136, encode_sidr_rep, decode_sidr_rep },
	/* on_lap refuses the alternate path, so it is not decoded */
	[IBCM_LAP] = { 64, 168, encode_ids, decode_ids },
	[IBCM_APR] = { 84, 148, encode_apr, decode_apr },
};

#define LAYOUT_COUNT (sizeof(layouts) / sizeof(*layouts))

unsigned mad_private_bytes(enum ibcm_type type)
{
	return type < LAYOUT_COUNT ? layouts[type].private_bytes : 0;
}

void mad_encode(const struct ibcm_message *message, uint8_t mad[MAD_BYTES])
{
	const struct layout *l = &layouts[message->type];

	memset(mad, 0, MAD_BYTES);
	mad[0] = 1; /* base version */
	mad[1] = CLASS_CM;
	mad[2] = 2; /* class version */
	mad[3] = METHOD_SEND;
	put(mad + 8, 8, message->transaction);
	put(mad + 16, 2, message->type);
	put(mad + 20, 4, message->ece_options);
	l->encode(message, mad + HEADER_BYTES);
	memcpy(mad + HEADER_BYTES + l->private_at, message->private_data, message->private_bytes);
}

bool mad_decode(const uint8_t *bytes, size_t length, struct ibcm_message *out)
{
	const struct layout *l;
	uint64_t type;

	if (length != MAD_BYTES || bytes[0] != 1 || bytes[1] != CLASS_CM || bytes[2] != 2 ||
	    bytes[3] != METHOD_SEND)
		return false;
	type = get(bytes + 16, 2);
	if (type >= LAYOUT_COUNT || !layouts[type].decode)
		return false;
	l = &layouts[type];
	memset(out, 0, sizeof(*out));
	out->type = (enum ibcm_type)type;
	out->transaction = get(bytes + 8, 8);
	l->decode(bytes + HEADER_BYTES, out);
	if (type == IBCM_REQ || type == IBCM_REP)
		out->ece_options = (uint32_t)get(bytes + 20, 4);
	out->private_bytes = l->private_bytes;
	memcpy(out->private_data, bytes + HEADER_BYTES + l->private_at, l->private_bytes);
	return true;
}
