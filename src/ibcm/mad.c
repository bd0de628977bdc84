/* SPDX-License-Identifier: BSD-2-Clause */
#include "ibcm/mad.h"

#include <stddef.h>
#include <string.h>

#define HEADER_BYTES   24
#define CLASS_CM       0x07
#define METHOD_SEND    0x03
#define PKEY	       0xffff
#define LID_PERMISSIVE 0xffff /* in LID fields, as RoCE has no LIDs (IBA annex A16) */
#define RATE_10_GBPS   3

/*
 * Where a member of struct ibcm_message lies: the byte of the IBA's tables, after the MAD header;
 * how many bits of that byte come before it; and its width. A member of more than 8 bytes is an
 * array. A member may have several fields, each with a part of its bits. A field without a member
 * always has the same value.
 */
struct field {
	uint8_t at, skip;
	uint16_t bits;
	uint16_t offset, size; /* of the member; size 0: none */
	uint16_t constant;
	uint8_t shift; /* how many bits of the member are right of the field's */
};

/* clang-format off */
#define PART(member, shift, at, skip, bits)                                                        \
	{ at, skip, bits, offsetof(struct ibcm_message, member),                                   \
	  sizeof(((struct ibcm_message *)NULL)->member), 0, shift }
#define FIELD(member, at, skip, bits) PART(member, 0, at, skip, bits)
#define CONSTANT(value, at, skip, bits) { at, skip, bits, 0, 0, value, 0 }
#define END { 0 }
#define IDS FIELD(local_id, 0, 0, 32), FIELD(remote_id, 4, 0, 32)

static const struct field req[] = {
	FIELD(local_id, 0, 0, 32),
	FIELD(ece_vendor, 5, 0, 24),
	FIELD(service_id, 8, 0, 64),
	FIELD(ca_guid, 16, 0, 64),
	FIELD(qkey, 28, 0, 32),
	FIELD(qpn, 32, 0, 24), FIELD(responder_resources, 35, 0, 8),
	FIELD(initiator_depth, 39, 0, 8),
	FIELD(remote_timeout, 43, 0, 5), FIELD(transport, 43, 5, 2), FIELD(flow_control, 43, 7, 1),
	FIELD(psn, 44, 0, 24), FIELD(local_timeout, 47, 0, 5), FIELD(retry_count, 47, 5, 3),
	CONSTANT(PKEY, 48, 0, 16), FIELD(path_mtu, 50, 0, 4), FIELD(rnr_retry_count, 50, 5, 3),
	FIELD(max_tries, 51, 0, 4), FIELD(has_srq, 51, 4, 1), FIELD(extended_transport, 51, 5, 3),
	CONSTANT(LID_PERMISSIVE, 52, 0, 16), CONSTANT(LID_PERMISSIVE, 54, 0, 16),
	FIELD(local_gid, 56, 0, 128),
	FIELD(remote_gid, 72, 0, 128),
	FIELD(flow_label, 88, 0, 20), CONSTANT(RATE_10_GBPS, 91, 2, 6),
	FIELD(traffic_class, 92, 0, 8), FIELD(hop_limit, 93, 0, 8), FIELD(ack_timeout, 95, 0, 5),
	END,
};

static const struct field mra[] = {
	IDS, FIELD(subject, 8, 0, 2), FIELD(service_timeout, 9, 0, 5), END,
};

static const struct field rej[] = {
	IDS, FIELD(subject, 8, 0, 2), FIELD(info_bytes, 9, 0, 7), FIELD(reason, 10, 0, 16),
	FIELD(info, 12, 0, 8 * IBCM_INFO_BYTES), END,
};

static const struct field rep[] = {
	IDS,
	FIELD(qkey, 8, 0, 32),
	FIELD(qpn, 12, 0, 24), PART(ece_vendor, 16, 15, 0, 8),
	FIELD(eecn, 16, 0, 24), PART(ece_vendor, 8, 19, 0, 8),
	FIELD(psn, 20, 0, 24), PART(ece_vendor, 0, 23, 0, 8),
	FIELD(responder_resources, 24, 0, 8), FIELD(initiator_depth, 25, 0, 8),
	FIELD(ack_timeout, 26, 0, 5), FIELD(flow_control, 26, 7, 1),
	FIELD(rnr_retry_count, 27, 0, 3), FIELD(has_srq, 27, 3, 1),
	FIELD(ca_guid, 28, 0, 64),
	END,
};

static const struct field ids[] = { IDS, END };

static const struct field dreq[] = { IDS, FIELD(qpn, 8, 0, 24), END };

static const struct field sidr_req[] = {
	FIELD(local_id, 0, 0, 32), CONSTANT(PKEY, 4, 0, 16), FIELD(service_id, 8, 0, 64), END,
};

static const struct field sidr_rep[] = {
	FIELD(remote_id, 0, 0, 32), FIELD(reason, 4, 0, 8), FIELD(info_bytes, 5, 0, 8),
	FIELD(qpn, 8, 0, 24), FIELD(service_id, 12, 0, 64), FIELD(qkey, 20, 0, 32),
	FIELD(info, 24, 0, 8 * IBCM_INFO_BYTES), END,
};

static const struct field apr[] = {
	IDS, FIELD(info_bytes, 8, 0, 8), FIELD(reason, 9, 0, 8),
	FIELD(info, 12, 0, 8 * IBCM_INFO_BYTES), END,
};
/* clang-format on */

struct layout {
	const struct field *fields;
	uint8_t private_at; /* offset after the header */
	uint8_t private_bytes;
};

static const struct layout layouts[] = {
	[IBCM_REQ] = { req, 140, 92 },
	[IBCM_MRA] = { mra, 10, 222 },
	[IBCM_REJ] = { rej, 84, 148 },
	[IBCM_REP] = { rep, 36, 196 },
	[IBCM_RTU] = { ids, 8, 224 },
	[IBCM_DREQ] = { dreq, 12, 220 },
	[IBCM_DREP] = { ids, 8, 224 },
	[IBCM_SIDR_REQ] = { sidr_req, 16, 216 },
	[IBCM_SIDR_REP] = { sidr_rep, 96, 136 },
	/* on_lap refuses the alternate path, so it is not decoded */
	[IBCM_LAP] = { ids, 64, 168 },
	[IBCM_APR] = { apr, 84, 148 },
};

#define LAYOUT_COUNT (sizeof(layouts) / sizeof(*layouts))

/* `at` has zeros there. */
static void put(uint8_t *at, unsigned skip, unsigned bits, uint64_t value)
{
	for (unsigned i = skip + bits; i-- > skip; value >>= 1)
		at[i / 8] |= (uint8_t)((value & 1) << (7 - i % 8));
}

static uint64_t get(const uint8_t *at, unsigned skip, unsigned bits)
{
	uint64_t value = 0;

	for (unsigned i = skip; i < skip + bits; i++)
		value = value << 1 | (at[i / 8] >> (7 - i % 8) & 1);
	return value;
}

static uint64_t load(const void *member, size_t size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)member;
	case 2:
		return *(const uint16_t *)member;
	case 4:
		return *(const uint32_t *)member;
	default:
		return *(const uint64_t *)member;
	}
}

static void store(void *member, size_t size, uint64_t value)
{
	switch (size) {
	case 1:
		*(uint8_t *)member = (uint8_t)value;
		break;
	case 2:
		*(uint16_t *)member = (uint16_t)value;
		break;
	case 4:
		*(uint32_t *)member = (uint32_t)value;
		break;
	default:
		*(uint64_t *)member = value;
	}
}

static void encode(const struct field *f, const struct ibcm_message *m, uint8_t *body)
{
	for (; f->bits; f++) {
		const uint8_t *member = (const uint8_t *)m + f->offset;

		if (f->size > sizeof(uint64_t))
			memcpy(body + f->at, member, f->size);
		else
			put(body + f->at, f->skip, f->bits,
			    f->size ? load(member, f->size) >> f->shift : f->constant);
	}
}

/* *m has zeros there. */
static void decode(const struct field *f, const uint8_t *body, struct ibcm_message *m)
{
	for (; f->bits; f++) {
		uint8_t *member = (uint8_t *)m + f->offset;

		if (f->size > sizeof(uint64_t))
			memcpy(member, body + f->at, f->size);
		else if (f->size)
			store(member, f->size,
			      load(member, f->size) | get(body + f->at, f->skip, f->bits)
							      << f->shift);
	}
}

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
	put(mad + 8, 0, 64, message->transaction);
	put(mad + 16, 0, 16, message->type);
	put(mad + 20, 0, 32, message->ece_options);
	encode(l->fields, message, mad + HEADER_BYTES);
	memcpy(mad + HEADER_BYTES + l->private_at, message->private_data, message->private_bytes);
}

bool mad_decode(const uint8_t *bytes, size_t length, struct ibcm_message *out)
{
	const struct layout *l;
	uint64_t type;

	if (length != MAD_BYTES || bytes[0] != 1 || bytes[1] != CLASS_CM || bytes[2] != 2 ||
	    bytes[3] != METHOD_SEND)
		return false;
	type = get(bytes + 16, 0, 16);
	if (type >= LAYOUT_COUNT || !layouts[type].fields)
		return false;
	l = &layouts[type];
	memset(out, 0, sizeof(*out));
	out->type = (enum ibcm_type)type;
	out->transaction = get(bytes + 8, 0, 64);
	decode(l->fields, bytes + HEADER_BYTES, out);
	if (out->info_bytes > IBCM_INFO_BYTES)
		out->info_bytes = IBCM_INFO_BYTES;
	if (type == IBCM_REQ || type == IBCM_REP)
		out->ece_options = (uint32_t)get(bytes + 20, 0, 32);
	out->private_bytes = l->private_bytes;
	memcpy(out->private_data, bytes + HEADER_BYTES + l->private_at, l->private_bytes);
	return true;
}
