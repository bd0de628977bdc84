/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Vector - packets made by another implementation (vectors.py), and the fields they were made from.
 */
#ifndef TESTS_PACKET_VECTOR_H
#define TESTS_PACKET_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#include "packet/icrc.h"
#include "packet/packet.h"

#define VECTOR_BYTES_MAX 1200

struct vector {
	unsigned number;
	uint8_t opcode;
	uint8_t v6;
	uint16_t identification;
	uint16_t payload_bytes;
	uint8_t pad;
	const char *hex; /* from the BTH to the end of the ICRC */
};

extern const size_t vector_count;

const struct vector *vector_at(size_t index);

/* The bytes of it; returns how many. */
size_t vector_bytes(const struct vector *vector, uint8_t bytes[VECTOR_BYTES_MAX]);

struct icrc_path vector_path(const struct vector *vector);

/* What decoding it must give, payload excepted. */
struct packet vector_fields(const struct vector *vector);

#endif
