/* SPDX-License-Identifier: BSD-2-Clause */
#include "vector.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "vectors.h"

const size_t vector_count = sizeof(vectors) / sizeof(vectors[0]);

const struct vector *vector_at(size_t index)
{
	return &vectors[index];
}

size_t vector_bytes(const struct vector *vector, uint8_t bytes[VECTOR_BYTES_MAX])
{
	size_t count = strlen(vector->hex) / 2;

	for (size_t i = 0; i < count; i++)
		sscanf(vector->hex + 2 * i, "%2hhx", &bytes[i]);
	return count;
}

struct icrc_path vector_path(const struct vector *vector)
{
	struct icrc_path path = { .source_port = (uint16_t)(49152 + vector->number),
				  .destination_port = 4791 };

	inet_pton(AF_INET6, vector->v6 ? "fd00::1:2" : "::ffff:10.1.2.3", path.source);
	inet_pton(AF_INET6, vector->v6 ? "2001:db8:aa:bb::ff" : "::ffff:192.168.250.7",
		  path.destination);
	return path;
}

struct packet vector_fields(const struct vector *vector)
{
	unsigned headers = packet_opcode(vector->opcode)->headers;
	unsigned flags = vector->number + 1;
	struct packet fields = {
		.opcode = vector->opcode,
		.pad = vector->pad,
		.solicited = flags & 1,
		.migrated = flags & 2,
		.fecn = flags & 4,
		.becn = flags & 8,
		.ack_req = flags & 16,
		.pkey = PACKET_PKEY,
		.dest_qpn = 0x800001 + vector->number,
		.psn = psn_of(0xfffff0 + vector->number),
		.payload_bytes = vector->payload_bytes,
	};

	if (headers & PACKET_HAS_DETH) {
		fields.qkey = 0x80010203;
		fields.src_qpn = 0xabcdef;
	}
	if (headers & PACKET_HAS_XRCETH)
		fields.xrc_srqn = 0x123456;
	if (headers & PACKET_HAS_FETH) {
		fields.flush_types = 3;
		fields.flush_level = 1;
	}
	if (headers & (PACKET_HAS_RETH | PACKET_HAS_ATOMIC_ETH)) {
		fields.va = 0x7f0011223344f5a1;
		fields.rkey = 0xdeadbeef;
	}
	if (headers & PACKET_HAS_RETH)
		fields.length = 0x40000123;
	if (headers & PACKET_HAS_ATOMIC_ETH) {
		fields.swap_add = 0x0102030405060708;
		fields.compare = 0xf1f2f3f4f5f6f7f8;
	}
	if (headers & PACKET_HAS_AETH) {
		fields.syndrome = 0x1f;
		fields.msn = 0xfedcba;
	}
	if (headers & PACKET_HAS_ATOMIC_ACK_ETH)
		fields.atomic_result = 0x99aabbccddeeff01;
	if (headers & PACKET_HAS_IMM)
		fields.imm = htonl(0xcafe1234);
	if (headers & PACKET_HAS_IETH)
		fields.invalidate_rkey = 0x0badf00d;
	return fields;
}
